"""The state of a sweep: a fold over its events, and nothing else.

Apply the events of a dead driver and you have what it had: what is done, what is ready for which stage. Only cells on
their way are kept in detail; an ended cell is one entry in a dictionary of outcomes, so a large sweep stays small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.farm.pipeline.commands import Stage
from tensorfarm.farm.pipeline.plan import Cell, Plan, PlannedProgram


@dataclass(frozen=True, slots=True)
class Captured:
    program_sha256: str
    semantic_hash: str
    input_spec_id: str
    dtype: str


@dataclass(slots=True)
class Progress:
    """A cell on its way. Fields are filled as its events arrive."""

    cell: Cell
    candidate_id: str = ""
    artifact_sha256: str = ""
    size_bytes: int = 0
    gate_run_id: str = ""
    outcome: str = ""
    outcome_kind: str = ""
    message: str = ""


LOCAL_STEPS = ("submit", "admit", "end")


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

    def __post_init__(self) -> None:
        self.programs: dict[str, PlannedProgram] = {program.name: program for program in self.plan.programs}
        self.n_cells = sum(len(program.pipelines) for program in self.plan.programs)
        self.ready: dict[str, dict[str, None]] = {str(queue): {} for queue in (*Stage, *LOCAL_STEPS)}
        self.ready[Stage.CAPTURE] = dict.fromkeys(self.programs)

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

    def conclude(self, subject: str, outcome: str, kind: str, message: str) -> None:
        """The outcome is known; what is left is to say so."""
        progress = self.live[subject]
        progress.outcome, progress.outcome_kind, progress.message = outcome, kind, message
        self.ready["end"][subject] = None


def _program_captured(state: SweepState, event: e.ProgramCaptured) -> None:
    state.move(event.subject, out_of=Stage.CAPTURE)
    state.captured[event.subject] = Captured(
        event.program_sha256, event.semantic_hash, event.input_spec_id, event.dtype
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
    if event.measured:
        state.move(event.subject, out_of=Stage.COMPILE)
        state.conclude(event.subject, Outcome.ADMITTED, "", "answered from the cache")
    else:
        state.move(event.subject, out_of=Stage.COMPILE, into=Stage.BENCH)


def _compiled(state: SweepState, event: e.CandidateCompiled) -> None:
    progress = state.live[event.subject]
    progress.artifact_sha256, progress.size_bytes = event.artifact_sha256, event.size_bytes
    state.move(event.subject, out_of=Stage.COMPILE, into=Stage.GATE)


def _compile_failed(state: SweepState, event: e.CompileFailed) -> None:
    state.move(event.subject, out_of=Stage.COMPILE)
    state.conclude(event.subject, event.outcome, event.outcome_kind, event.message)


def _gate_decided(state: SweepState, event: e.GateDecided) -> None:
    state.live[event.subject].gate_run_id = event.gate_run_id
    if event.status == Status.PASS:
        state.move(event.subject, out_of=Stage.GATE, into="admit")
    else:
        state.move(event.subject, out_of=Stage.GATE)
        state.conclude(event.subject, event.outcome, event.outcome_kind, event.message)


def _admitted(state: SweepState, event: e.ArtifactAdmitted) -> None:
    state.move(event.subject, out_of="admit", into=Stage.BENCH)


def _measured(state: SweepState, event: e.Measured | e.MeasureFailed) -> None:
    state.move(event.subject, out_of=Stage.BENCH)
    if isinstance(event, e.MeasureFailed) and event.kind == e.RECOMPILE:
        state.conclude(event.subject, Outcome.CONFORMANCE_FAILURE, event.kind, event.message)
        return
    message = f"not measured: {event.message}" if isinstance(event, e.MeasureFailed) else ""
    state.conclude(event.subject, Outcome.ADMITTED, "", message)


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


def _finished(state: SweepState, event: e.SweepFinished) -> None:
    """Nothing to fold in: a sweep is complete when its last cell has ended."""


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
    e.MeasureFailed: _measured,
    e.JobLost: _job_lost,
    e.CandidateEnded: _ended,
    e.SweepInterrupted: _interrupted,
    e.SweepFinished: _finished,
}
