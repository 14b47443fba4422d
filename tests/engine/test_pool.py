"""The engine on a Ray of its own: jobs come back once, dead actors are replaced, no process is left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine import cluster
from tensorfarm.farm.engine.config import EngineConfig, PoolSpec, RoleSpec
from tensorfarm.farm.engine.job import Job, JobResult, Step
from tensorfarm.farm.engine.pool import Engine, EngineBug

STEPS_FOLDER = str(Path(__file__).parent)
CONFIG = EngineConfig(
    pools=(PoolSpec("compile", "test_compile", actors=1, slots=2), PoolSpec("bench", "test_bench", actors=1, slots=1)),
    roles={"plain": RoleSpec(), "absent": RoleSpec(preload=("no_such_module_anywhere",))},
    cores_per_node=2,
    grace_seconds=1.0,
    start_seconds=6.0,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.start(CONFIG) as engine:
        yield engine


def job(job_id: str, function: str = "ok", *, pool: str = "compile", role: str = "plain", **options: Any) -> Job:
    seconds, exclusive = options.pop("seconds", 30.0), options.pop("exclusive", False)
    step = Step(role, f"engine_steps:{function}", {"python_path": [STEPS_FOLDER], **options}, seconds, 400 << 20)
    return Job(job_id, pool, (step,), exclusive)


def results(engine: Engine, count: int) -> dict[str, JobResult]:
    found: dict[str, JobResult] = {}
    for _ in range(120):
        for result in engine.poll(1.0):
            assert result.job_id not in found
            found[result.job_id] = result
        if len(found) == count:
            return found
    pytest.fail(f"only {sorted(found)} of {count} jobs came back")


def processes_of(note: Path) -> list[psutil.Process]:
    """Child, warm parent and supervisor of a job that wrote its pid."""
    while not (note.exists() and note.read_text()):
        time.sleep(0.01)
    child = psutil.Process(int(note.read_text()))
    warm = child.parent()
    assert warm is not None
    supervisor = warm.parent()
    assert supervisor is not None
    return [child, warm, supervisor]


def all_gone(processes: list[psutil.Process]) -> bool:
    """Within ten seconds. A zombie is gone: only its number is left."""
    left = processes
    for _ in range(500):
        left = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        if not left:
            return True
        time.sleep(0.02)
    return False


def ray_processes() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_every_job_comes_back_once(engine: Engine) -> None:
    for number in range(12):
        engine.submit(job(f"many{number}", number=number))
    found = results(engine, 12)
    assert {name: result.outcomes[0].value["request"]["number"] for name, result in found.items()} == {
        f"many{number}": number for number in range(12)
    }
    assert all(result.node_id and not result.lost for result in found.values())
    assert engine.capacity("compile") == 2


def test_a_candidate_that_dies_is_no_loss_of_the_engine(engine: Engine) -> None:
    engine.submit(job("dies", "segfaults"))
    engine.submit(job("lives"))
    found = results(engine, 2)
    assert (found["dies"].lost, found["dies"].outcomes[0].kind) == ("", "signal")
    assert found["lives"].outcomes[0].completed


def test_a_worker_and_its_child_import_the_standard_bisect(engine: Engine) -> None:
    import bisect

    @ray.remote(num_cpus=0)
    def imported() -> str:
        import bisect

        return bisect.__file__

    engine.submit(job("bisect"))
    assert results(engine, 1)["bisect"].outcomes[0].value["bisect"] == bisect.__file__
    assert ray.get(imported.remote()) == bisect.__file__


def test_a_job_that_is_not_as_declared_is_refused_at_once(engine: Engine) -> None:
    with pytest.raises(KeyError):
        engine.submit(job("nowhere", pool="nowhere"))
    with pytest.raises(KeyError, match="roles that this engine does not have: judge"):
        engine.submit(job("nobody", role="judge"))


def test_an_exclusive_job_runs_alone(engine: Engine, tmp_path: Path) -> None:
    note = tmp_path / "note"
    engine.submit(job("first", "touches_and_hangs", note=str(note), seconds=2.0))
    engine.submit(job("alone", pool="bench", exclusive=True))
    engine.submit(job("passes"))
    order = list(results(engine, 3))
    assert order == ["passes", "first", "alone"]


def test_a_killed_actor_loses_its_jobs_and_the_pool_recovers(engine: Engine, tmp_path: Path) -> None:
    note = tmp_path / "note"
    engine.submit(job("hangs", "touches_and_hangs", note=str(note)))
    processes = processes_of(note)
    processes[-1].kill()
    lost = results(engine, 1)["hangs"]
    assert (lost.outcomes, lost.lost[:14]) == ((), "ActorDiedError")
    assert lost.node_id
    assert all_gone(processes)
    engine.submit(job("hangs"))
    assert results(engine, 1)["hangs"].outcomes[0].completed


def test_a_hung_actor_is_given_up_killed_and_replaced(engine: Engine, tmp_path: Path) -> None:
    note = tmp_path / "note"
    engine.submit(job("hangs", "touches_and_hangs", note=str(note), seconds=1.0))
    processes = processes_of(note)
    processes[-1].send_signal(signal.SIGSTOP)
    assert results(engine, 1)["hangs"].lost.startswith("no answer in")
    engine.submit(job("next"))
    assert results(engine, 1)["next"].outcomes[0].completed
    assert all_gone(processes)


def test_a_bug_in_the_farm_is_raised_and_not_dressed_up(engine: Engine) -> None:
    engine.submit(job("bug", role="absent"))
    with pytest.raises(EngineBug, match=r"WarmParentUnfit: role absent cannot be served"):
        results(engine, 1)
    assert engine.capacity("compile") == 2


def test_ray_listens_on_loopback_only(engine: Engine) -> None:
    engine.submit(job("warm"))
    results(engine, 1)
    listening = [
        connection.laddr.ip
        for process in ray_processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} <= {"127.0.0.1", "::1"}


def test_a_resource_that_no_node_offers_is_refused_before_anything_is_submitted(engine: Engine) -> None:
    with pytest.raises(Refusal) as refusal:
        cluster.require([PoolSpec("gate", "gate/cuda"), *CONFIG.pools])
    assert refusal.value.fact == "no node of the cluster offers gate/cuda"
    assert "ray start --resources='{\"gate/cuda\": 1}'" in refusal.value.next_step


def test_an_address_where_nothing_answers_is_refused() -> None:
    with pytest.raises(Refusal, match=r"no Ray cluster answers at 127\.0\.0\.1:9"):
        cluster.join("127.0.0.1:9")
    with pytest.raises(Refusal, match="is no Ray address"):
        cluster.join("somewhere")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_an_address_where_something_else_listens_is_refused(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)
                connection.recv(1024)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(Refusal, match="what listens there is something else"):
            cluster.join(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_no_process_is_left_when_the_driver_ends(tmp_path: Path, ending: str) -> None:
    note = tmp_path / "note"
    owner = psutil.Popen(
        [sys.executable, str(Path(__file__).with_name("engine_owner.py")), str(note)], stdin=subprocess.PIPE
    )
    processes = [*processes_of(note), *owner.children(recursive=True)]
    assert any("raylet" in process.name() for process in processes)
    if ending == "killed":
        # Ray's two agents hold out for a minute: they tell a server that is dead of a raylet that is dead.
        processes = [process for process in processes if "Agent" not in process.name()]
        os.kill(owner.pid, signal.SIGKILL)
    owner.communicate(b"end\n" if ending == "closed" else None)
    assert owner.returncode == (0 if ending == "closed" else -signal.SIGKILL)
    assert all_gone(processes)
