"""The state of a sweep: a fold over its events, and nothing else.

Apply the events of a dead driver and you have what it had: what is done, what is ready for which stage. Only cells on
their way are kept in detail; an ended cell is one entry in a dictionary of outcomes, so a large sweep stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfarm.bisect.search import Search
from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.farm.pipeline.bisection import Bisection, Sites, failure_of
from tensorfarm.farm.pipeline.commands import Stage
from tensorfarm.farm.pipeline.plan import Cell, Plan, PlannedProgram


@dataclass(frozen=True, slots=True)
class Captured:
    program_sha256: str
    semantic_hash: str
    input_spec_id: str
    dtype: str
    features: Mapping[str, Any]


NO_SITES = Sites()


@dataclass(slots=True)
class Progress:
    """A cell on its way. Fields are filled as its events arrive.

    ``comparisons`` holds the baseline's artifact for each kind of baseline that it has yet to be compared with.
    """

    cell: Cell
    candidate_id: str = ""
    artifact_sha256: str = ""
    size_bytes: int = 0
    gate_run_id: str = ""
    outcome: str = ""
    outcome_kind: str = ""
    message: str = ""
    sites: Sites = NO_SITES
    failure: str = ""
    bisection: Bisection | None = None
    comparisons: dict[str, str] = field(default_factory=dict[str, str])
    compared: list[e.Compared] = field(default_factory=list[e.Compared])


LOCAL_STEPS = ("submit", "admit", "start_bisection", "finish_bisection", "consider", "settle", "end")


@dataclass
class SweepState:
    """``ready`` holds, for each stage and each step the driver does itself, the subjects it can start on, oldest first.

    A subject stays ready until the event that answers it arrives, so a driver that died with jobs in flight finds them
    ready again.
    """

    plan: Plan
    sweep_id: str = ""
    captured: dict[str, Captured] = field(default_factory=dict[str, Captured])
    live: dict[str, Progress] = field(default_factory=dict[str, Progress])
    ended: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    lost: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    interruptions: int = 0
    n_bisections: int = 0

    def __post_init__(self) -> None:
        self.programs: dict[str, PlannedProgram] = {program.name: program for program in self.plan.programs}
        self.n_cells = sum(len(program.pipelines) for program in self.plan.programs)
        self.ready: dict[str, dict[str, None]] = {str(queue): {} for queue in (*Stage, *LOCAL_STEPS)}
        self.ready[Stage.CAPTURE] = dict.fromkeys(self.programs)
        self.bisections_wanted = self.plan.bisect.most if self.plan.bisect.width else 0

    @property
    def complete(self) -> bool:
        return len(self.ended) == self.n_cells

    def apply(self, event: e.Event) -> None:
        """Fold one event in."""
        _HANDLERS[type(event)](self, event)

    def move(self, subject: str, *, out_of: str, into: str = "") -> None:
        self.ready[out_of].pop(subject, None)
        if into:
            self.ready[into][subject] = None

    def bisection(self, subject: str) -> Bisection:
        """The bisection of a cell that has one."""
        found = self.live[subject].bisection
        if found is None:
            raise LookupError(f"{subject} is not being bisected")
        return found

    def conclude(self, subject: str, outcome: str, kind: str, message: str) -> None:
        """The outcome is known; what is left is to say so."""
        progress = self.live[subject]
        progress.outcome, progress.outcome_kind, progress.message = outcome, kind, message
        self.ready["end"][subject] = None


def _program_captured(state: SweepState, event: e.ProgramCaptured) -> None:
    state.move(event.subject, out_of=Stage.CAPTURE)
    state.captured[event.subject] = Captured(
        event.program_sha256, event.semantic_hash, event.input_spec_id, event.dtype, event.features
    )
    for cell in state.programs[event.subject].cells():
        state.live[cell.id] = Progress(cell)
        state.ready["submit"][cell.id] = None


def _capture_failed(state: SweepState, event: e.CaptureFailed) -> None:
    state.move(event.subject, out_of=Stage.CAPTURE)
    for cell in state.programs[event.subject].cells():
        state.live[cell.id] = Progress(cell)
        state.conclude(cell.id, event.outcome, event.outcome_kind, event.message)


def _submitted(state: SweepState, event: e.CandidateSubmitted) -> None:
    state.live[event.subject].candidate_id = event.candidate_id
    state.move(event.subject, out_of="submit", into=Stage.COMPILE)


def _cache_answered(state: SweepState, event: e.CacheAnswered) -> None:
    progress = state.live[event.subject]
    progress.artifact_sha256, progress.gate_run_id = event.artifact_sha256, event.gate_run_id
    progress.message = "answered from the cache"
    state.move(event.subject, out_of=Stage.COMPILE)
    if event.measured and state.plan.measured:
        state.ready["consider"][event.subject] = None
    else:
        _admit(state, event.subject)


def _task_rejected(state: SweepState, event: e.TaskRejected) -> None:
    state.move(event.subject, out_of=Stage.COMPILE)
    state.conclude(event.subject, Outcome.TASK_REJECTION, "", event.message)


def _compiled(state: SweepState, event: e.CandidateCompiled) -> None:
    progress = state.live[event.subject]
    progress.artifact_sha256, progress.size_bytes = event.artifact_sha256, event.size_bytes
    progress.sites = Sites.of(event.n_sites, event.manifest)
    state.move(event.subject, out_of=Stage.COMPILE, into=Stage.GATE)


def _compile_failed(state: SweepState, event: e.CompileFailed) -> None:
    state.move(event.subject, out_of=Stage.COMPILE)
    state.conclude(event.subject, event.outcome, event.outcome_kind, event.message)


def _gate_decided(state: SweepState, event: e.GateDecided) -> None:
    progress = state.live[event.subject]
    progress.gate_run_id = event.gate_run_id
    state.move(event.subject, out_of=Stage.GATE)
    if event.status == Status.PASS:
        state.ready["admit"][event.subject] = None
    elif event.status == Status.FAIL and progress.sites.count and state.n_bisections < state.bisections_wanted:
        progress.outcome, progress.outcome_kind, progress.message = event.outcome, event.outcome_kind, event.message
        progress.failure = failure_of(event.outcome, event.outcome_kind, event.findings)
        state.ready["start_bisection"][event.subject] = None
        state.n_bisections += 1
    else:
        state.conclude(event.subject, event.outcome, event.outcome_kind, event.message)


def _admitted(state: SweepState, event: e.ArtifactAdmitted) -> None:
    state.move(event.subject, out_of="admit")
    _admit(state, event.subject)


def _admit(state: SweepState, subject: str) -> None:
    """What follows an admitted artifact."""
    if state.plan.measured:
        state.ready[Stage.BENCH][subject] = None
    else:
        state.conclude(subject, Outcome.ADMITTED, "", state.live[subject].message)


def _measured(state: SweepState, event: e.Measured) -> None:
    state.move(event.subject, out_of=Stage.BENCH, into="consider")


def _measure_failed(state: SweepState, event: e.MeasureFailed) -> None:
    state.move(event.subject, out_of=Stage.BENCH)
    if event.kind == e.RECOMPILE:
        state.conclude(event.subject, Outcome.CONFORMANCE_FAILURE, event.kind, event.message)
    else:
        state.conclude(event.subject, Outcome.ADMITTED, "", f"not measured: {event.message}")


def _bisection_started(state: SweepState, event: e.BisectionStarted) -> None:
    # The gate has seen the candidate fail with all of its sites on.
    search = Search(
        event.n_sites,
        event.width,
        idle=frozenset(event.idle),
        landmarks=frozenset(event.landmarks),
        known_bad=True,
    )
    state.live[event.subject].bisection = Bisection(event.bisection_id, event.failure, search)
    state.move(event.subject, out_of="start_bisection", into=Stage.PROBE)


def _probe_decided(state: SweepState, event: e.ProbeDecided) -> None:
    bisection = state.bisection(event.subject)
    bisection.told(event.probe, event.outcome)
    if (found := bisection.found) is not None:
        following = Stage.REPRODUCE if found.can_be_shown else "finish_bisection"
        state.move(event.subject, out_of=Stage.PROBE, into=following)


def _bisection_finished(state: SweepState, event: e.BisectionFinished) -> None:
    progress = state.live[event.subject]
    for queue in (Stage.PROBE, Stage.REPRODUCE, "finish_bisection"):
        state.ready[queue].pop(event.subject, None)
    state.conclude(
        event.subject, progress.outcome, progress.outcome_kind, f"{progress.message}; bisected: {event.message}"
    )


def _nominated(state: SweepState, event: e.RegressionNominated) -> None:
    state.live[event.subject].comparisons[event.baseline] = event.baseline_artifact
    state.move(event.subject, out_of="consider", into=Stage.COMPARE)


def _compared(state: SweepState, event: e.Compared) -> None:
    progress = state.live[event.subject]
    progress.comparisons.pop(event.baseline, None)
    progress.compared.append(event)
    if not progress.comparisons:
        state.move(event.subject, out_of=Stage.COMPARE, into="settle")


def _job_lost(state: SweepState, event: e.JobLost) -> None:
    key = (event.stage, event.subject)
    state.lost[key] = state.lost.get(key, 0) + 1


def _ended(state: SweepState, event: e.CandidateEnded) -> None:
    for queue in state.ready.values():
        queue.pop(event.subject, None)
    state.live.pop(event.subject, None)
    state.ended[event.subject] = Outcome(event.outcome)


def _started(state: SweepState, event: e.SweepStarted) -> None:
    state.sweep_id = event.sweep_id


def _interrupted(state: SweepState, event: e.SweepInterrupted) -> None:
    state.interruptions += 1


def _said(state: SweepState, event: e.Event) -> None:
    """Nothing to fold in: a fact for those who ask the store. A sweep is complete when its last cell has ended."""


_HANDLERS: dict[type[e.Event], Any] = {
    e.SweepStarted: _started,
    e.ProgramCaptured: _program_captured,
    e.CaptureFailed: _capture_failed,
    e.CandidateSubmitted: _submitted,
    e.CacheAnswered: _cache_answered,
    e.CandidateCompiled: _compiled,
    e.CompileFailed: _compile_failed,
    e.GateDecided: _gate_decided,
    e.ArtifactAdmitted: _admitted,
    e.Measured: _measured,
    e.MeasureFailed: _measure_failed,
    e.TaskRejected: _task_rejected,
    e.BisectionStarted: _bisection_started,
    e.ProbeDecided: _probe_decided,
    e.BisectionFinished: _bisection_finished,
    e.RegressionNominated: _nominated,
    e.Compared: _compared,
    e.JobLost: _job_lost,
    e.CandidateEnded: _ended,
    e.SweepInterrupted: _interrupted,
    e.SweepFinished: _said,
    e.PredictionMade: _said,
    e.BudgetDeclared: _said,
    e.BaselineAccepted: _said,
    e.RegressionConfirmed: _said,
    e.RegressionDismissed: _said,
    e.RegressionFixed: _said,
}
