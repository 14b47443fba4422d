"""A driver that is killed or interrupted anywhere leaves a sweep that resumes to the same table."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

PATIENCE_SECONDS = 120


def recorded(store: Path) -> list[str]:
    """Types of the events acknowledged so far, in order, read beside the driver."""
    place = store / "journal" / "w0.sqlite"
    if not place.exists():
        return []
    connection = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    try:
        return [row[0] for row in connection.execute("select type from events order by seq")]
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def wait_for(farm: Any, process: subprocess.Popen[str], wanted: str) -> list[psutil.Process]:
    """Wait until an event of this type was acknowledged; the processes below the driver then."""
    until = time.monotonic() + PATIENCE_SECONDS
    while wanted not in recorded(farm.store):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"no {wanted} in {PATIENCE_SECONDS} s"
        time.sleep(0.02)
    return psutil.Process(process.pid).children(recursive=True)


def table(farm: Any) -> dict[str, tuple[Any, ...]]:
    """What must not depend on how the sweep came about: outcome, artifact and worst errors of each cell."""
    columns = ("outcome", "outcome_kind", "artifact_sha256", "forward_over_limit", "gradient_over_limit", "message")
    return {row["subject"]: tuple(row[name] for name in columns) for row in farm.report()}


def gone(processes: list[psutil.Process]) -> bool:
    """Whether our own processes below the driver ended; Ray's agents take their time and hold nothing of ours."""
    ours = [process for process in processes if _is_called(process, "tensorfarm.farm.engine.warm")]
    _, alive = psutil.wait_procs(ours, timeout=20)
    return not alive


def _is_called(process: psutil.Process, name: str) -> bool:
    try:
        return name in " ".join(process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def undisturbed(new_farm: Callable[[], Any]) -> dict[str, tuple[Any, ...]]:
    farm = new_farm()
    done = farm.sweep("two.yaml")
    assert done.returncode == 13, done.stderr
    return table(farm)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("SweepStarted", marks=pytest.mark.slow),
        pytest.param("ProgramCaptured", marks=pytest.mark.slow),
        pytest.param("CandidateCompiled", marks=pytest.mark.slow),
        "ArtifactAdmitted",
    ],
)
def test_a_driver_killed_at_any_moment_resumes_to_the_same_table(
    new_farm: Callable[[], Any], undisturbed: dict[str, tuple[Any, ...]], moment: str
) -> None:
    farm = new_farm()
    process = farm.start("sweep", "two.yaml", "--store", "store")
    below = wait_for(farm, process, moment)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert gone(below)
    acknowledged = recorded(farm.store)
    done = farm("sweep", "--resume", "--store", "store")
    assert done.returncode == 13, done.stderr
    assert table(farm) == undisturbed
    events = farm.query("select type, subject, count(*) as n from events group by all")
    assert {row["n"] for row in events if row["type"] == "CandidateEnded"} == {1}
    kept = [row["type"] for row in farm.query("select type from events order by ts, event_id")]
    assert all(kept.count(name) >= acknowledged.count(name) for name in set(acknowledged))
    assert farm.query("select count(*) - count(distinct event_id) as doubled from events") == [{"doubled": 0}]


def test_a_driver_killed_in_a_bisection_asks_no_probe_twice_and_finds_the_same(new_farm: Callable[[], Any]) -> None:
    farm = new_farm()
    process = farm.start("sweep", "bisected.yaml", "--store", "store")
    wait_for(farm, process, "ProbeDecided")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    done = farm("sweep", "--resume", "--store", "store")
    assert done.returncode == 13, done.stderr
    (found,) = farm.query(
        "select payload ->> 'pass_name' as name, payload ->> 'status' as status from events"
        " where type = 'BisectionFinished'"
    )
    assert found == {"name": "wrong-value", "status": "confirmed"}
    probes = farm.query("select probe, count(*) as n from bisect_steps group by probe")
    assert {row["n"] for row in probes} == {1}


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_sweep_commits_ends_and_resumes(
    new_farm: Callable[[], Any], undisturbed: dict[str, tuple[Any, ...]], number: signal.Signals
) -> None:
    farm = new_farm()
    process = farm.start("sweep", "two.yaml", "--store", "store")
    below = wait_for(farm, process, "ProgramCaptured")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "--resume" in out
    assert "SweepInterrupted" in recorded(farm.store)
    assert gone(below)
    done = farm("sweep", "two.yaml", "--resume", "--store", "store")
    assert done.returncode == 13, done.stderr
    assert table(farm) == undisturbed


def test_a_killed_supervisor_costs_a_retry_and_no_candidate(farm: Any, undisturbed: dict[str, tuple[Any, ...]]) -> None:
    process = farm.start("sweep", "two.yaml", "--store", "store")
    below = wait_for(farm, process, "ProgramCaptured")
    killed = [child for child in below if _is_called(child, "ray::Supervisor")]
    assert killed
    for child in killed:
        os.kill(child.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=280)
    assert process.returncode == 13, err
    assert table(farm) == undisturbed


@pytest.mark.slow
def test_a_sweep_has_one_driver_and_a_store_many(farm: Any, undisturbed: dict[str, tuple[Any, ...]]) -> None:
    first = farm.start("sweep", "two.yaml", "--store", "store")
    wait_for(farm, first, "SweepStarted")
    second = farm.start("sweep", "two.yaml", "--store", "store")
    refused = farm("sweep", "--resume", "--store", "store")
    assert refused.returncode == 2
    assert "driven by another process" in refused.stderr
    for process in (first, second):
        _, err = process.communicate(timeout=280)
        assert process.returncode == 13, err
        assert table(farm) == undisturbed


def test_there_is_nothing_to_resume_in_a_finished_store(farm: Any) -> None:
    done = farm("sweep", "--resume", "--store", "store")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "unfinished" in done.stderr
