"""A sweep over several nodes ends with the table of one machine, also where a node dies under it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

ROOT = Path(__file__).parents[2]
HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
LOOPBACK = {"node_ip_address": "127.0.0.1"}
# Each pool survives the loss of any one node.
NODES = (
    {"farm_compile": 1, "farm_gate": 1},
    {"farm_compile": 1, "farm_gate": 1, "farm_bench": 1},
    {"farm_bench": 1},
)
PATIENCE_SECONDS = 240


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster(initialize_head=True, head_node_args={**LOOPBACK, "num_cpus": 0, "_system_config": HEALTH})
    for resources in NODES:
        started.add_node(**LOOPBACK, num_cpus=2, resources=resources)
    started.wait_for_nodes()
    yield started
    started.shutdown()


def kill_the_node_of(cluster: Cluster, job: psutil.Process) -> str:
    """End the node on which this process runs, at once, as a power cut would; Ray's id of it."""
    (raylet,) = [process for process in job.parents() if process.name() == "raylet"]
    (node_id,) = [part.partition("=")[2] for part in raylet.cmdline() if part.startswith("--node_id=")]
    (node,) = [node for node in cluster.worker_nodes if node.node_id == node_id]
    cluster.remove_node(node, allow_graceful=False)
    return node_id


def running_jobs() -> list[psutil.Process]:
    """Children of warm compilers below this process: forks, with the command line of what they were forked from."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and "--role worker" in " ".join(process.cmdline()) == " ".join(parent.cmdline()):
                found.append(process)
    return found


def nodes_that_lost_jobs(place: Any) -> set[str]:
    lost = place.query("select payload->>'node_id' as node from events where type = 'JobLost'")
    return {row["node"].rpartition("/")[2] for row in lost}


def when(true: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := true()):
        assert time.monotonic() < until, f"nothing in {PATIENCE_SECONDS} s"
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_that_loses_a_node_ends_as_on_one_machine(cluster: Cluster, new_place: Callable[[str], Any]) -> None:
    alone, spread = new_place("alone"), new_place("spread")
    (alone.folder / "lingered").touch()
    done = alone("sweep", "small.yaml", *alone.store)
    assert done.returncode == 13, done.stderr

    process = spread.start("sweep", "small.yaml", *spread.store, "--address", cluster.address)
    note = spread.folder / "lingered"
    killed = kill_the_node_of(cluster, psutil.Process(int(when(lambda: note.exists() and note.read_text()))))
    _, err = process.communicate(timeout=280)
    assert process.returncode == 13, err
    assert spread.table() == alone.table()
    assert nodes_that_lost_jobs(spread) == {killed[:12]}


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_quickstart_ends_as_on_one_machine_though_a_node_dies(
    cluster: Cluster, new_place: Callable[[str], Any]
) -> None:
    config = str(ROOT / "configs" / "quickstart.yaml")
    alone, spread = new_place("alone"), new_place("spread")
    done = alone("sweep", config, *alone.store, seconds=1000)
    assert done.returncode == 0, done.stderr

    process = spread.start("sweep", config, *spread.store, "--address", cluster.address)
    built = spread.folder / "store" / "built"
    when(lambda: built.is_dir() and len(list(built.glob("*.artifact"))) >= 3)
    killed = kill_the_node_of(cluster, when(running_jobs)[0])
    _, err = process.communicate(timeout=1000)
    assert process.returncode == 0, err
    assert spread.table() == alone.table()
    assert nodes_that_lost_jobs(spread) == {killed[:12]}
