"""Whatever a child does ends that child only, and is named for what it was."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tensorfarm.farm.engine.config import RoleSpec
from tensorfarm.farm.engine.crew import Crew
from tensorfarm.farm.engine.job import Job, JobResult, Step, StepOutcome
from tensorfarm.farm.engine.warm_link import WarmParentUnfit

STEPS_FOLDER = str(Path(__file__).parent)
MIB = 1 << 20
ROLES = {
    "plain": RoleSpec(),
    "torch": RoleSpec(preload=("torch",)),
    "sealed": RoleSpec(preload=("email.message",), blocked=("json.tool", "tensorfarm.farm.engine", "xmlrpc")),
    "absent": RoleSpec(preload=("no_such_module_anywhere",)),
    "threaded": RoleSpec(preload=("starts_a_thread",)),
    "prepared": RoleSpec(preload=("gc:disable",)),
    "unprepared": RoleSpec(preload=("gc:no_such_function",)),
}


def job(function: str, role: str = "plain", seconds: float = 20.0, limit_mib: int = 400, **request: Any) -> Job:
    step = Step(
        role,
        f"engine_steps:{function}",
        {"python_path": [STEPS_FOLDER], **request},
        seconds,
        limit_mib * MIB,
        threads=2,
    )
    return Job("job", "pool", (step,))


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(ROLES, "here")
    yield crew
    crew.close()


@pytest.fixture
def outcome(crew: Crew) -> Any:
    def run(function: str, **options: Any) -> StepOutcome:
        result = crew.run(job(function, **options))
        assert result.lost == ""
        return result.outcomes[0]

    return run


def gone(pid: int) -> bool:
    """Within ten seconds. A zombie is gone: only its number is left."""
    for _ in range(500):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def text_of(note: Path) -> str:
    while not (note.exists() and note.read_text()):
        time.sleep(0.01)
    return note.read_text()


def test_a_child_answers_in_its_own_environment(outcome: Any) -> None:
    ended = outcome("ok", env={"PLANTED": "here"}, number=1.5)
    assert ended.status == "completed"
    assert ended.value["request"] == {
        "python_path": [STEPS_FOLDER],
        "env": {"PLANTED": "here"},
        "number": 1.5,
        "threads": 2,
    }
    assert ended.value["environment"]["PLANTED"] == "here"
    assert ended.value["environment"]["OMP_NUM_THREADS"] == "2"
    assert "PLANTED" not in os.environ


def test_a_child_imports_the_standard_bisect_and_no_ray(outcome: Any) -> None:
    import bisect

    assert outcome("ok").value["bisect"] == bisect.__file__
    assert "ray" not in outcome("modules").value["modules"]


def test_a_child_sees_no_module_of_the_folder_it_was_started_in(outcome: Any) -> None:
    path = outcome("modules").value["path"]
    assert "" not in path
    assert os.getcwd() not in path


def test_an_exception_keeps_its_class_message_and_traceback(outcome: Any) -> None:
    ended = outcome("raises")
    assert (ended.status, ended.kind) == ("raised", "ValueError")
    assert ended.message == "an operator that nobody knows"
    assert "engine_steps.py" in ended.traceback


def test_a_refusal_keeps_its_fields(outcome: Any) -> None:
    refusal = outcome("refuses").refusal
    assert (refusal["fact"], refusal["limit"], refusal["next_step"]) == ("seen", "allowed", "do this")
    assert (refusal["exit_code"], refusal["is_illegal_graph"]) == (11, False)


def test_an_illegal_graph_is_told_apart(outcome: Any) -> None:
    ended = outcome("finds_an_illegal_graph", role="torch", limit_mib=2000)
    assert (ended.kind, ended.refusal["is_illegal_graph"], ended.refusal["exit_code"]) == ("IllegalGraph", True, 10)


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        ("segfaults", "signal", "died of SIGSEGV"),
        ("aborts", "signal", "died of SIGABRT"),
        ("exits_at_once", "exit", "exited with status 7"),
        ("exits", "exit", "exited with status 3"),
        ("exits_happily", "exit", "exited with status 0 without an answer"),
        ("forges_a_report", "exit", "exited with status 0 without an answer"),
        ("throws_bad_alloc", "out_of_memory", "died of SIGABRT"),
    ],
)
def test_a_death_is_named_for_what_it_was(outcome: Any, function: str, kind: str, message: str) -> None:
    ended = outcome(function)
    assert (ended.status, ended.kind) == ("died", kind)
    assert ended.message.startswith(message)


def test_a_segfault_keeps_the_python_stack(outcome: Any) -> None:
    assert "in segfaults" in outcome("segfaults").traceback


def test_a_hang_is_a_timeout_and_takes_its_grandchildren_along(outcome: Any, tmp_path: Path) -> None:
    note = tmp_path / "note"
    ended = outcome("hangs_with_a_grandchild", seconds=0.5, note=str(note), new_session=True)
    assert (ended.status, ended.kind) == ("died", "timeout")
    assert [gone(int(pid)) for pid in note.read_text().split()] == [True, True]


def test_a_child_that_allocates_too_much_is_out_of_memory(outcome: Any) -> None:
    assert outcome("allocates", limit_mib=100, mib=500).kind == "out_of_memory"


def test_a_tensor_too_large_is_out_of_memory(outcome: Any) -> None:
    ended = outcome("allocates_a_tensor", role="torch", limit_mib=100, mib=500)
    assert (ended.status, ended.kind) == ("died", "out_of_memory")


def test_grandchildren_that_allocate_too_much_together_are_out_of_memory(outcome: Any) -> None:
    ended = outcome("lets_grandchildren_allocate", limit_mib=200, mib=90, processes=3)
    assert (ended.status, ended.kind) == ("died", "out_of_memory")
    assert ended.peak_bytes > 200 * MIB


def test_what_the_parent_imported_is_not_charged_to_the_child(outcome: Any) -> None:
    assert outcome("uses_torch_threads", role="torch", limit_mib=64).status == "completed"


def test_a_grandchild_left_behind_is_ended_even_in_a_session_of_its_own(outcome: Any) -> None:
    ended = outcome("leaves_a_grandchild")
    assert ended.status == "completed"
    assert gone(ended.value["pid"])


def test_a_child_that_prints_a_lot_keeps_its_last_words(outcome: Any) -> None:
    ended = outcome("prints_a_lot", mib=100)
    assert ended.message == "exited with status 5; it last printed: the last words"
    assert len(ended.traceback) <= 4096


@pytest.mark.parametrize("function", ["returns_a_set", "returns_a_list"])
def test_an_answer_that_is_no_json_dict_is_an_exception(outcome: Any, function: str) -> None:
    ended = outcome(function)
    assert (ended.status, ended.kind) == ("raised", "TypeError")


def test_a_child_may_use_torch_with_more_threads_than_its_parent(outcome: Any) -> None:
    ended = outcome("uses_torch_threads", role="torch", limit_mib=2000)
    assert ended.value == {"threads": 2, "sum": 256.0**3}


def test_two_children_of_one_parent_run_at_once(crew: Crew, tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    results: list[JobResult] = []
    thread = threading.Thread(target=lambda: results.append(crew.run(job("waits_for", mine=one, other=other))))
    thread.start()
    results.append(crew.run(job("waits_for", mine=other, other=one)))
    thread.join()
    assert [result.outcomes[0].status for result in results] == ["completed", "completed"]


def test_what_a_role_must_not_see_is_neither_loaded_nor_found(outcome: Any) -> None:
    modules = outcome("modules", role="sealed").value["modules"]
    assert "email.message" in modules
    assert [name for name in modules if name.startswith("tensorfarm.farm.engine")] == []
    ended = outcome("imports", role="sealed", module="xmlrpc.client")
    assert (ended.kind, ended.message) == ("ModuleNotFoundError", "xmlrpc is blocked in this role")
    assert outcome("imports", module="xmlrpc.client").status == "completed"


def test_a_role_that_cannot_be_imported_is_a_bug_of_the_farm(crew: Crew) -> None:
    with pytest.raises(WarmParentUnfit) as told:
        crew.run(job("ok", role="absent"))
    error = "ModuleNotFoundError: No module named 'no_such_module_anywhere'"
    assert str(told.value) == f"role absent cannot be served: importing no_such_module_anywhere raised {error}"


def test_a_warm_parent_calls_the_functions_that_its_role_names(crew: Crew, outcome: Any) -> None:
    assert outcome("collects", role="prepared").value == {"enabled": False}
    assert outcome("collects").value == {"enabled": True}
    with pytest.raises(WarmParentUnfit, match=r"importing gc:no_such_function raised AttributeError"):
        crew.run(job("ok", role="unprepared"))


def test_a_role_that_starts_threads_is_a_bug_of_the_farm(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", STEPS_FOLDER, prepend=os.pathsep)
    with pytest.raises(WarmParentUnfit, match="started 1 threads"):
        crew.run(job("ok", role="threaded"))


def test_a_dead_warm_parent_loses_the_job_ends_its_processes_and_is_replaced(tmp_path: Path) -> None:
    crew = Crew(ROLES, "here")
    results: list[JobResult] = []
    note = tmp_path / "note"
    hanging = job("hangs_with_a_grandchild", note=str(note))
    thread = threading.Thread(target=lambda: results.append(crew.run(hanging)))
    thread.start()
    child, grandchild = map(int, text_of(note).split())
    os.kill(psutil.Process(child).ppid(), signal.SIGKILL)
    thread.join()
    assert results[0].outcomes == ()
    assert results[0].lost == "the warm parent of plain died (-9)"
    assert (gone(child), gone(grandchild)) == (True, True)
    assert crew.run(job("ok")).outcomes[0].status == "completed"
    crew.close()


def test_nothing_survives_the_process_that_owns_the_crew(tmp_path: Path) -> None:
    note = tmp_path / "note"
    owner = psutil.Popen([sys.executable, str(Path(__file__).with_name("crew_owner.py")), str(note)])
    child, grandchild = map(int, text_of(note).split())
    warm = psutil.Process(child).ppid()
    folder = Path(psutil.Process(warm).cmdline()[psutil.Process(warm).cmdline().index("--folder") + 1])
    owner.kill()
    owner.wait()
    assert [gone(pid) for pid in (warm, child, grandchild)] == [True, True, True]
    assert not folder.exists()
