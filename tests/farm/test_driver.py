"""The driver over simulated workers: whatever happens, every cell ends once, and a replay ends the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.farm.app.driver import Driver
from tensorfarm.farm.engine.job import Job, JobResult
from tensorfarm.farm.engine.simulated import SimulatedEngine
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import POOL_OF, Stage, part_of, stage_of, subject_of
from tensorfarm.farm.pipeline.plan import BisectPlan, Cell, Plan, PlannedProgram
from tensorfarm.farm.pipeline.reactions import Limits, job_commands
from tensorfarm.farm.pipeline.state import SweepState

SWEEP = "tests-1"
N_SITES, CULPRIT = 9, 4


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
        self.probed: list[tuple[str, str]] = []
        self.culprits: dict[str, int | None] = {}

    def job(self, command: c.JobCommand) -> Job:
        name = f"{stage_of(command)}:{subject_of(command)}:{part_of(command)}"
        return Job(name, POOL_OF[stage_of(command)], ())

    def events_of(self, command: c.JobCommand, result: JobResult) -> Sequence[e.Event]:
        return [self.event_of(command, result)]

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
                artifact = "art" + cell.id
                return e.CandidateCompiled(
                    SWEEP, subject, candidate_id, "hash", artifact, 1, "uri", 0.1, n_sites=N_SITES
                )
            case c.RunGate(cell, candidate_id):
                wrong = cell.pipeline == "wrong"
                outcome = Outcome.CONFORMANCE_FAILURE if wrong else Outcome.ADMITTED
                status = Status.FAIL if wrong else Status.PASS
                rows = ({"check_name": "forward", "status": "fail"},) if wrong else ()
                return e.GateDecided(
                    SWEEP, subject, candidate_id, "g", "a", status, outcome, "", "", "v", "", 0.1, rows
                )
            case c.RunBench(_, candidate_id):
                return e.Measured(SWEEP, subject, candidate_id, "a", 0.1)
            case c.RunProbe():
                self.probed.append((subject, str(command.switches)))
                said = "bad" if command.switches.on(CULPRIT) else "good"
                told = (command.step, command.round, "fx", str(command.switches), said, "", 0.1)
                return e.ProbeDecided(SWEEP, subject, command.bisection_id, command.candidate_id, *told)
            case c.RunReproduce():
                return self.finished(command.cell, command.candidate_id, command.found.result.culprit)
            case c.RunCompare():
                return compared(command.cell, command.candidate_id, command.baseline, command.baseline_artifact)

    def finished(self, cell: Cell, candidate_id: str, culprit: int | None) -> e.BisectionFinished:
        self.culprits[cell.id] = culprit
        return e.BisectionFinished(
            SWEEP, cell.id, "b", candidate_id, "confirmed", "p", "s", -1, (), 1, 1, 0.1, "", False, f"site {culprit}"
        )

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
                case c.StartBisection(cell, candidate_id, sites, width, failure):
                    said = ("b" + cell.id, candidate_id, "fx", sites.count, width, failure)
                    yield e.BisectionStarted(SWEEP, cell.id, *said)
                case c.FinishBisection(cell, candidate_id):
                    yield self.finished(cell, candidate_id, None)
                case c.Consider(cell, candidate_id):
                    yield from self.considered(cell, candidate_id)
                case c.Settle(cell, candidate_id, compared_with):
                    outcome = Outcome.PERFORMANCE_REGRESSION
                    assert {item.baseline for item in compared_with} == {"last_accepted", "anchor"}
                    yield e.CandidateEnded(SWEEP, cell.id, candidate_id, "p", "fx", "x", outcome, "", "")
                case c.GiveUpComparison(cell, candidate_id, _, baseline, artifact):
                    yield compared(cell, candidate_id, baseline, artifact)

    def considered(self, cell: Cell, candidate_id: str) -> Iterable[e.Event]:
        if cell.pipeline == "slow":
            for baseline in ("last_accepted", "anchor"):
                yield e.RegressionNominated(
                    SWEEP, cell.id, "r", "w", candidate_id, "a", baseline, "old", "m", "cpu", 2, 1, 3, 1, "worse", ""
                )
        else:
            yield e.CandidateEnded(SWEEP, cell.id, candidate_id, "p", "fx", "x", Outcome.ADMITTED, "", "")


def compared(cell: Cell, candidate_id: str, baseline: str, artifact: str) -> e.Compared:
    said = ("m", "cpu", "worse", 2.0, 1.9, 2.1, 1.1, 1.1, "", 0.1)
    return e.Compared(SWEEP, cell.id, candidate_id, "a", baseline, artifact, *said)


PIPELINES = ("good", "wrong", "crashes", "cached", "slow")
PLAN = Plan(
    tuple(PlannedProgram(name, "m:f", "training", PIPELINES) for name in ("one", "two", "broken")), BisectPlan(2, 8)
)
EXPECTED = {
    "good": Outcome.ADMITTED,
    "wrong": Outcome.CONFORMANCE_FAILURE,
    "crashes": Outcome.COMPILE_FAILURE,
    "cached": Outcome.ADMITTED,
    "slow": Outcome.PERFORMANCE_REGRESSION,
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
    assert sorted(desk.compiled) == [f"{p}/{q}" for p in ("one", "two") for q in ("crashes", "good", "slow", "wrong")]


@settings(deadline=None, max_examples=60)
@given(dies_at=st.lists(st.integers(1, 30), min_size=1, max_size=4), after=st.booleans(), slots=st.integers(1, 8))
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


def test_a_refused_candidate_is_bisected_before_its_cell_ends() -> None:
    recorder, desk = MemoryRecorder(), FakeDesk()
    driver = driver_over(recorder, desk)
    assert driver.run(engine_of())
    assert desk.culprits == {"one/wrong": CULPRIT, "two/wrong": CULPRIT}
    told = [e.decoded(r) for r in recorder.records if r.type == "CandidateEnded" and r.subject == "one/wrong"]
    assert [item.message for item in told if isinstance(item, e.CandidateEnded)] == [f"; bisected: site {CULPRIT}"]


def test_no_more_cells_are_bisected_than_the_plan_says() -> None:
    desk = FakeDesk()
    state = SweepState(Plan(PLAN.programs, BisectPlan(2, 1)), SWEEP)
    assert Driver(state, MemoryRecorder(), desk).run(engine_of())
    assert len(desk.culprits) == 1
    assert_right_end(state)


def test_a_bisection_whose_probes_are_lost_too_often_is_given_up_and_the_cell_keeps_its_outcome() -> None:
    class Loser(FakeDesk):
        def event_of(self, command: c.JobCommand, result: JobResult) -> e.Event:
            if isinstance(command, c.RunProbe):
                return e.JobLost(SWEEP, subject_of(command), Stage.PROBE, "node died", "n1")
            return super().event_of(command, result)

    desk = Loser()
    driver = driver_over(MemoryRecorder(), desk)
    assert driver.run(engine_of())
    assert_right_end(driver.state)
    assert set(desk.culprits.values()) == {None}


@pytest.mark.parametrize("dies_at", range(10, 20))
def test_a_killed_bisection_goes_on_where_it_stopped(dies_at: int) -> None:
    recorder = MemoryRecorder(dies_at=dies_at, after=True)
    with contextlib.suppress(Killed):
        driver_over(recorder, FakeDesk()).run(engine_of())
    recorder.dies_at = -1
    answered = {e.decoded(record) for record in recorder.records if record.type == "ProbeDecided"}
    desk = FakeDesk()
    assert driver_over(recorder, desk).run(engine_of())
    known = {(item.subject, item.probe) for item in answered if isinstance(item, e.ProbeDecided)}
    assert not known & set(desk.probed)
    assert set(desk.culprits.values()) <= {CULPRIT}


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
        for event in desk.perform([c.Submit(cell, "hash", "spec", "f", {})]):
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
