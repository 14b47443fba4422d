"""A cluster of several nodes: a node that dies costs its jobs, never the engine."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine.config import EngineConfig, PoolSpec, RoleSpec
from tensorfarm.farm.engine.job import Job, JobResult, Step
from tensorfarm.farm.engine.pool import Engine

HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": HEALTH})
    yield started
    ray.shutdown()
    started.shutdown()


def job(job_id: str, function: str, **request: str) -> Job:
    with_path = {"python_path": [str(Path(__file__).parent)], **request}
    return Job(job_id, "compile", (Step("plain", f"engine_steps:{function}", with_path, 120.0, 400 << 20),))


def first_result(engine: Engine) -> JobResult:
    for _ in range(120):
        if results := engine.poll(1.0):
            return results[0]
    pytest.fail("nothing came back")


def config(cluster: Cluster) -> EngineConfig:
    return EngineConfig((PoolSpec("compile", "compile/cpu", actors=1),), {"plain": RoleSpec()}, cluster.address)


@pytest.mark.slow
def test_a_cluster_without_the_resource_is_refused_with_the_flag_to_add(cluster: Cluster) -> None:
    with pytest.raises(Refusal) as refusal:
        Engine.start(config(cluster))
    assert "compile/cpu" in refusal.value.fact
    assert "--resources" in refusal.value.next_step
    assert not ray.is_initialized()


def test_a_job_on_a_node_that_dies_is_lost_and_runs_again_on_another(cluster: Cluster, tmp_path: Path) -> None:
    nodes = {
        node.node_id: node for node in [cluster.add_node(num_cpus=1, resources={"compile/cpu": 1}) for _ in range(2)]
    }
    cluster.wait_for_nodes()
    note = tmp_path / "note"
    with Engine.start(config(cluster)) as engine:
        engine.submit(job("job", "touches_and_hangs", note=str(note)))
        while not (note.exists() and note.read_text()):
            engine.poll(0.1)
        child = psutil.Process(int(note.read_text()))
        (used,) = [node_id for node_id in nodes if node_of(child) == node_id]
        cluster.remove_node(nodes[used], allow_graceful=False)
        lost = first_result(engine)
        assert lost.outcomes == ()
        assert lost.lost
        assert lost.node_id.endswith(used[:12])
        engine.submit(job("job", "ok"))
        again = first_result(engine)
        assert again.outcomes[0].completed
        assert again.node_id != lost.node_id


def node_of(child: psutil.Process) -> str:
    """Ray's id of the node, from the command line of the raylet above the child."""
    (raylet,) = [process for process in child.parents() if process.name() == "raylet"]
    (node_id,) = [part.partition("=")[2] for part in raylet.cmdline() if part.startswith("--node_id=")]
    return node_id
