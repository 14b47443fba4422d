"""A cluster of several nodes: a node that dies costs its jobs, never the engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine.config import EngineConfig, PoolSpec, RoleSpec
from tensorfarm.farm.engine.job import Job, JobResult, Step
from tensorfarm.farm.engine.pool import Engine

NODE = {"node_ip_address": "127.0.0.1"}
HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "_system_config": HEALTH})
    yield started
    ray.shutdown()
    started.shutdown()


def job(job_id: str, function: str, **request: str) -> Job:
    with_path = {"python_path": [str(Path(__file__).parent)], **request}
    return Job(job_id, "compile", (Step("plain", f"engine_steps:{function}", with_path, 120.0, 400 << 20),))


def hanging(job_id: str, note: Path) -> Job:
    return job(job_id, "touches_and_hangs", note=str(note))


def first_result(engine: Engine) -> JobResult:
    for _ in range(120):
        if results := engine.poll(1.0):
            return results[0]
    pytest.fail("nothing came back")


def config(cluster: Cluster, actors: int = 1, opening_seconds: float = 120.0) -> EngineConfig:
    pools = (PoolSpec("compile", "compile/cpu", actors),)
    return EngineConfig(pools, {"plain": RoleSpec()}, cluster.address, opening_seconds=opening_seconds)


def add_nodes(cluster: Cluster, *units: int) -> dict[str, Any]:
    """Nodes by Ray's id, one for each number of units of the pool's resource."""
    added = [cluster.add_node(**NODE, num_cpus=count, resources={"compile/cpu": count}) for count in units]
    cluster.wait_for_nodes()
    return {node.node_id: node for node in added}


def kill_the_node_under(cluster: Cluster, engine: Engine, nodes: dict[str, Any], note: Path) -> str:
    """Kill the node whose job wrote its pid into ``note``; Ray's id of that node."""
    while not (note.exists() and note.read_text()):
        engine.poll(0.1)
    used = node_of(psutil.Process(int(note.read_text())))
    cluster.remove_node(nodes[used], allow_graceful=False)
    return used


@pytest.mark.slow
def test_a_cluster_without_the_resource_is_refused_with_the_flag_to_add(cluster: Cluster) -> None:
    with pytest.raises(Refusal) as refusal:
        Engine.start(config(cluster))
    assert "compile/cpu" in refusal.value.fact
    assert "--resources" in refusal.value.next_step
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_node_with_another_environment_is_refused_with_what_differs(cluster: Cluster) -> None:
    cluster.add_node(**NODE, resources={"compile/cpu": 1}, env_vars={"CXXFLAGS": "-ffast-math"})
    with pytest.raises(Refusal, match="has CXXFLAGS '-ffast-math' instead of 'unset'"):
        Engine.start(config(cluster))
    assert not ray.is_initialized()


def test_a_dead_node_costs_a_job_one_loss_however_many_seats_it_had(cluster: Cluster, tmp_path: Path) -> None:
    nodes, note = add_nodes(cluster, 4, 1), tmp_path / "note"
    with Engine.start(config(cluster, actors=5)) as engine:
        while engine.capacity("compile") < 10:
            engine.poll(0.1)
        engine.submit(hanging("job", note))
        used = kill_the_node_under(cluster, engine, nodes, note)
        lost = first_result(engine)
        assert (lost.outcomes, lost.node_id[-12:]) == ((), used[:12])
        engine.submit(job("job", "ok"))
        again = first_result(engine)
        assert again.outcomes[0].completed, again.lost
        assert again.node_id != lost.node_id


@pytest.mark.slow
def test_a_pool_waits_for_a_new_node_and_says_when_none_comes(cluster: Cluster, tmp_path: Path) -> None:
    nodes, note = add_nodes(cluster, 1), tmp_path / "note"
    with Engine.start(config(cluster)) as engine:
        engine.submit(hanging("job", note))
        kill_the_node_under(cluster, engine, nodes, note)
        assert first_result(engine).lost
        assert engine.capacity("compile") == 0
        nodes = add_nodes(cluster, 1)
        while engine.capacity("compile") == 0:
            engine.poll(0.1)
    note.unlink()
    with Engine.start(config(cluster, opening_seconds=10.0)) as engine:
        engine.submit(hanging("job", note))
        kill_the_node_under(cluster, engine, nodes, note)
        assert first_result(engine).lost
        with pytest.raises(Refusal, match="has no supervisor left: no node offers compile/cpu any more") as gone:
            first_result(engine)
        assert gone.value.exit_code == 16


def node_of(child: psutil.Process) -> str:
    """Ray's id of the node, from the command line of the raylet above the child."""
    (raylet,) = [process for process in child.parents() if process.name() == "raylet"]
    (node_id,) = [part.partition("=")[2] for part in raylet.cmdline() if part.startswith("--node_id=")]
    return node_id
