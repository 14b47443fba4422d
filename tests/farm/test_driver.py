"""The driver over simulated workers: whatever happens, every cell ends once, and a replay ends the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.farm.app.driver import Driver
from tensorfarm.farm.app.jobs import stage_of, subject_of
from tensorfarm.farm.engine.job import Job, JobResult
from tensorfarm.farm.engine.simulated import SimulatedEngine
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import POOL_OF, Stage
from tensorfarm.farm.pipeline.plan import Plan, PlannedProgram
from tensorfarm.farm.pipeline.reactions import Limits, job_commands
from tensorfarm.farm.pipeline.state import SweepState

SWEEP = "tests-1"


class Killed(Exception):
    """The driver's process is gone."""


@dataclass
class MemoryRecorder:
    """Keeps acknowledged events; dies before or after acknowledging the batch number ``dies_at``."""

    records: list[e.Recorded] = field(default_factory=list)
    dies_at: int = -1
    after: bool = False
    batches: int = 0

    def append(self, records: Sequence[e.Recorded]) -> int:
        self.batches += 1
        if self.batches == self.dies_at and not self.after:
            raise Killed
        known = {record.event_id for record in self.records}
        self.records += [record for record in records if record.event_id not in known]
        if self.batches == self.dies_at:
            raise Killed
        return len(records)


class FakeDesk:
    """Decides each cell's fate by its pipeline's name."""

    def __init__(self, losses: dict[str, int] | None = None) -> None:
        self.losses = dict(losses or {})
        self.compiled: list[str] = []

    def job(self, command: c.JobCommand) -> Job:
        return Job(f"{stage_of(command)}:{subject_of(command)}", POOL_OF[stage_of(command)], ())

    def event_of(self, command: c.JobCommand, result: JobResult) -> e.Event:
        stage, subject = stage_of(command), subject_of(command)
        if self.losses.get(subject, 0) > 0 and stage is not Stage.CAPTURE:
            self.losses[subject] -= 1
            return e.JobLost(SWEEP, subject, stage, "node died", "n1")
        match command:
            case c.RunCapture(program):
                if program.name == "broken":
                    return e.CaptureFailed(SWEEP, subject, "m:f", Outcome.STRUCTURAL_REJECTION, "", "branch", 0.1)
                return e.ProgramCaptured(SWEEP, subject, "m:f", "hash", "spec", "sha", "float32", 1, 1, 0.1)
            case c.RunCompile(cell, candidate_id):
                self.compiled.append(cell.id)
                if cell.pipeline == "crashes":
                    return e.CompileFailed(
                        SWEEP, subject, candidate_id, Outcome.COMPILE_FAILURE, "crash", "SIGSEGV", 0.1
                    )
                return e.CandidateCompiled(SWEEP, subject, candidate_id, "hash", "art" + cell.id, 1, "uri", 0.1)
            case c.RunGate(cell, candidate_id):
                wrong = cell.pipeline == "wrong"
                outcome = Outcome.CONFORMANCE_FAILURE if wrong else Outcome.ADMITTED
                status = Status.FAIL if wrong else Status.PASS
                return e.GateDecided(SWEEP, subject, candidate_id, "g", "a", status, outcome, "", "", "v", "", 0.1)
            case c.RunBench(_, candidate_id):
                return e.Measured(SWEEP, subject, candidate_id, "a", 0.1)

    def perform(self, commands: Sequence[c.LocalCommand]) -> Iterable[e.Event]:
        for command in commands:
            match command:
                case c.Submit(cell):
                    yield e.CandidateSubmitted(
                        SWEEP,
                        cell.id,
                        "id" + cell.id,
                        "p",
                        "hash",
                        "spec",
                        "training",
                        "fx",
                        "x",
                        "cpu",
                        "t",
                        "c",
                        "h",
                        "f",
                    )
                    if cell.pipeline == "cached":
                        yield e.CacheAnswered(SWEEP, cell.id, "id" + cell.id, "a", "g", "earlier", True)
                case c.Admit(cell, candidate_id):
                    yield e.ArtifactAdmitted(SWEEP, cell.id, candidate_id, "hash", "a", 1, "uri", "g")
                case c.End(cell, candidate_id, outcome, kind, message):
                    yield e.CandidateEnded(SWEEP, cell.id, candidate_id, "p", "fx", "x", outcome, kind, message)
                case c.GiveUpCapture(program, message):
                    outcome = Outcome.INFRASTRUCTURE_EXHAUSTED
                    yield e.CaptureFailed(SWEEP, program.name, "m:f", outcome, "", message, 0.0)


PIPELINES = ("good", "wrong", "crashes", "cached")
PLAN = Plan(tuple(PlannedProgram(name, "m:f", "training", PIPELINES) for name in ("one", "two", "broken")))
EXPECTED = {
    "good": Outcome.ADMITTED,
    "wrong": Outcome.CONFORMANCE_FAILURE,
    "crashes": Outcome.COMPILE_FAILURE,
    "cached": Outcome.ADMITTED,
}


def engine_of(slots: int = 3) -> SimulatedEngine:
    return SimulatedEngine(lambda job: JobResult(job.job_id, (), "n0"), slots)


def driver_over(recorder: MemoryRecorder, desk: FakeDesk) -> Driver:
    state = SweepState(PLAN, SWEEP)
    for record in recorder.records:
        state.apply(e.decoded(record))
    return Driver(state, recorder, desk)


def assert_right_end(state: SweepState) -> None:
    assert state.complete
    for cell, outcome in state.ended.items():
        program, pipeline = cell.split("/")
        assert outcome == (Outcome.STRUCTURAL_REJECTION if program == "broken" else EXPECTED[pipeline]), cell


def test_every_cell_ends_with_its_own_outcome() -> None:
    driver = driver_over(MemoryRecorder(), FakeDesk())
    assert driver.run(engine_of())
    assert_right_end(driver.state)


def test_a_cached_cell_is_never_compiled() -> None:
    desk = FakeDesk()
    driver_over(MemoryRecorder(), desk).run(engine_of())
    assert sorted(desk.compiled) == [f"{p}/{q}" for p in ("one", "two") for q in ("crashes", "good", "wrong")]


@settings(deadline=None, max_examples=60)
@given(dies_at=st.lists(st.integers(1, 12), min_size=1, max_size=4), after=st.booleans(), slots=st.integers(1, 8))
def test_a_driver_killed_anywhere_and_started_again_ends_with_the_same_table(
    dies_at: list[int], after: bool, slots: int
) -> None:
    recorder = MemoryRecorder()
    for number in dies_at:
        recorder.dies_at, recorder.after, recorder.batches = number, after, 0
        try:
            driver_over(recorder, FakeDesk()).run(engine_of(slots))
        except Killed:
            continue
    recorder.dies_at = -1
    driver = driver_over(recorder, FakeDesk())
    assert driver.run(engine_of())
    assert_right_end(driver.state)
    ended = [record.subject for record in recorder.records if record.type == "CandidateEnded"]
    assert sorted(ended) == sorted(cell.id for program in PLAN.programs for cell in program.cells())
    assert len({record.event_id for record in recorder.records}) == len(recorder.records)


def test_a_lost_job_is_run_again_and_not_blamed_on_the_compiler() -> None:
    driver = driver_over(MemoryRecorder(), FakeDesk({"one/good": 2}))
    assert driver.run(engine_of())
    assert_right_end(driver.state)


def test_a_job_lost_too_often_ends_as_infrastructure_exhausted() -> None:
    recorder = MemoryRecorder()
    driver = driver_over(recorder, FakeDesk({"one/good": 99}))
    assert driver.run(engine_of())
    assert driver.state.ended["one/good"] == Outcome.INFRASTRUCTURE_EXHAUSTED
    assert driver.state.ended["two/good"] == Outcome.ADMITTED
    assert sum(record.type == "JobLost" for record in recorder.records) == Limits().losses


def test_a_stopped_driver_leaves_a_state_that_goes_on() -> None:
    recorder, polls = MemoryRecorder(), iter([False, False, True])
    first = driver_over(recorder, FakeDesk())
    first.stopped = lambda: next(polls)
    assert not first.run(engine_of())
    assert not first.state.complete
    second = driver_over(recorder, FakeDesk())
    assert second.run(engine_of())
    assert_right_end(second.state)


def test_downstream_work_is_started_before_upstream_work() -> None:
    state = SweepState(Plan((PlannedProgram("p", "m:f", "training", ("a", "b")),)), SWEEP)
    desk = FakeDesk()
    capture = c.RunCapture(state.plan.programs[0])
    state.apply(desk.event_of(capture, JobResult("", (), "")))
    for cell in state.plan.programs[0].cells():
        for event in desk.perform([c.Submit(cell, "hash", "spec", "f")]):
            state.apply(event)
    state.apply(e.CandidateCompiled(SWEEP, "p/a", "idp/a", "hash", "art", 1, "uri", 0.1))
    chosen = list(job_commands(state, set(), {"compile": 1, "gate": 1}, Limits()))
    assert [stage_of(command) for command in chosen] == [Stage.GATE, Stage.COMPILE]


@pytest.mark.parametrize("waiting", [1, 5])
def test_captures_wait_while_compilation_has_enough_to_do(waiting: int) -> None:
    programs = tuple(PlannedProgram(f"p{number}", "m:f", "training", ("a",)) for number in range(waiting + 1))
    state = SweepState(Plan(programs), SWEEP)
    for program in programs[:-1]:
        state.apply(e.ProgramCaptured(SWEEP, program.name, "m:f", "hash", "spec", "sha", "float32", 1, 1, 0.1))
        state.apply(
            e.CandidateSubmitted(
                SWEEP, f"{program.name}/a", "id", "p", "hash", "spec", "training", "fx", "x", "cpu", "t", "c", "h", "f"
            )
        )
    stages = [stage_of(x) for x in job_commands(state, set(), {"compile": 99}, Limits(window=5))]
    assert stages.count(Stage.CAPTURE) == (0 if waiting == 5 else 1)
