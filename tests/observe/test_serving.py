"""``farm serve`` on a real port: what it refuses, what it says of a store it can no longer read, how it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from planted_farm import PlantedFarm, workload
from prometheus_client.parser import text_string_to_metric_families

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.serving import ServeRequest, serving
from tensorfarm.farm.cli import run

PATIENCE_SECONDS = 60.0


def scraped(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    samples = [item for family in text_string_to_metric_families(text) for item in family.samples]
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for item in samples:
        found.setdefault(item.name, []).append((item.labels, item.value))
    return found


def own(url: str, name: str) -> float:
    ((_, value),) = scraped(url)[f"farm_exporter_{name}"]
    return value


def until(holds: Callable[[], bool]) -> None:
    """Wait for it; a minute is a failure."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_scrape_shows_what_was_planted_and_a_refresh_what_came_after(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", bert="conformance_failure")
    with serving(ServeRequest(farm.layout.root, port=0, every_seconds=0.1), print) as url:
        ((labels, value),) = scraped(url)["farm_open_failures"]
        assert (labels["workload"], labels["failure_class"], value) == (workload("bert/fx"), "conformance_failure", 1)
        farm.regression("Confirmed")
        until(lambda: "farm_open_regressions" in scraped(url))


def test_a_store_that_can_no_longer_be_read_leaves_the_last_figures_standing(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", bert="conformance_failure")
    heard: list[str] = []
    (journal,) = farm.layout.journal.glob("*.sqlite")
    with serving(ServeRequest(farm.layout.root, port=0, every_seconds=0.1), heard.append) as url:
        whole = journal.read_bytes()
        for rest in (journal.with_name(journal.name + "-wal"), journal.with_name(journal.name + "-shm")):
            rest.unlink(missing_ok=True)
        journal.write_bytes(b"not a database" * 1000)
        until(lambda: own(url, "refresh_failing") == 1)
        refreshed = own(url, "last_refresh_timestamp_seconds")
        until(lambda: time.time() - refreshed > 1)
        assert own(url, "last_refresh_timestamp_seconds") == refreshed
        assert scraped(url)["farm_open_failures"][0][1] == 1
        journal.write_bytes(whole)
        until(lambda: own(url, "refresh_failing") == 0)
        assert own(url, "last_refresh_timestamp_seconds") > refreshed
    assert len(heard) == 1
    assert "the store could not be read, its last figures stand" in heard[0]


def refused(request: ServeRequest) -> str:
    with pytest.raises(Refusal) as caught, serving(request, print):
        pass
    return str(caught.value)


def test_a_port_in_use_is_refused(farm: PlantedFarm) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} is in use" in refused(ServeRequest(farm.layout.root, port=port))


def test_an_address_that_others_can_reach_needs_to_be_asked_for(farm: PlantedFarm) -> None:
    assert "--expose" in refused(ServeRequest(farm.layout.root, host="0.0.0.0", port=0))
    with serving(ServeRequest(farm.layout.root, host="0.0.0.0", port=0, exposed=True), print) as url:
        assert scraped(url.replace("0.0.0.0", "127.0.0.1"))["farm_exporter_refresh_failing"]


def test_a_path_without_gauges_is_not_found(farm: PlantedFarm) -> None:
    request = ServeRequest(farm.layout.root, port=0)
    with serving(request, print) as url, pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url.removesuffix("metrics"), timeout=10)


def test_the_newer_loopback_address_is_as_good(farm: PlantedFarm) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    with serving(ServeRequest(farm.layout.root, host="::1", port=0), print) as url:
        assert scraped(url)["farm_exporter_refresh_failing"] == [({}, 0)]


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1"])
def test_a_host_that_is_none_is_refused(farm: PlantedFarm, host: str) -> None:
    assert "is no address of this machine" in refused(ServeRequest(farm.layout.root, host=host))


def test_a_period_of_nothing_is_refused(farm: PlantedFarm) -> None:
    assert "is no period" in refused(ServeRequest(farm.layout.root, every_seconds=0))
    assert "is no period" in refused(ServeRequest(farm.layout.root, every_seconds=float("nan")))


def test_no_store_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--store", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(farm: PlantedFarm, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tensorfarm.farm", "serve", "--store", str(farm.layout.root), "--port", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert served.stdout is not None
    assert "Ctrl-C ends it" in served.stdout.readline()
    served.send_signal(number)
    assert served.wait(timeout=PATIENCE_SECONDS) == 130
