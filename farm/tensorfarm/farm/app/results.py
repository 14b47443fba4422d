"""What an engine's result means: a job's answer becomes an event.

A child's exit is a verdict on the candidate; a lost job is infrastructure and says nothing about it.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Mapping
from typing import Any

from tensorfarm.bisect.answer import Answer
from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import FailureKind, Outcome, Status
from tensorfarm.farm.app.sweep_file import SweepConfig
from tensorfarm.farm.engine.job import JobResult, StepOutcome
from tensorfarm.farm.measure.baseline import METRIC
from tensorfarm.farm.measure.verdict import Answer as Speed
from tensorfarm.farm.measure.verdict import without_samples
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.bisection import UNSTEADY, answer
from tensorfarm.farm.pipeline.commands import stage_of, subject_of

_KIND_OF_DEATH = {
    "signal": FailureKind.CRASH,
    "exit": FailureKind.CRASH,
    "timeout": FailureKind.TIMEOUT,
    "out_of_memory": FailureKind.OUT_OF_MEMORY,
}


EventfulCommand = c.RunCapture | c.RunCompile | c.RunGate | c.RunBench | c.RunProbe | c.RunCompare


def lost_event(sweep_id: str, command: c.JobCommand, result: JobResult) -> e.JobLost | None:
    """Set where the job was lost. A full disk or a damaged store is the node's fault, like its death."""
    lost = result.lost or next((item.message for item in result.outcomes if _is_the_nodes_fault(item, command)), "")
    return e.JobLost(sweep_id, subject_of(command), stage_of(command), lost, result.node_id) if lost else None


def event_of(sweep_id: str, command: EventfulCommand, result: JobResult, config: SweepConfig) -> e.Event:
    """The event that the result of a job that was not lost is."""
    match command:
        case c.RunCapture():
            return _capture_event(sweep_id, command, result)
        case c.RunCompile():
            return _compile_event(sweep_id, command, result, config.budget.compile_seconds)
        case c.RunGate():
            return _gate_event(sweep_id, command, result)
        case c.RunBench():
            return _bench_event(sweep_id, command, result)
        case c.RunProbe():
            return _probe_event(sweep_id, command, result)
        case c.RunCompare():
            return _compared_event(sweep_id, command, result, config.threshold)


def _is_the_nodes_fault(outcome: StepOutcome, command: c.JobCommand) -> bool:
    """No room on the disk, or a program file that is gone or altered. A judge says of an artifact's bytes itself."""
    if f"[Errno {errno.ENOSPC}]" in outcome.message:
        return outcome.status == "raised"
    return isinstance(command, (c.RunCompile, c.RunProbe)) and "CorruptBundle" in outcome.refusal.get("classes", ())


def _capture_event(sweep_id: str, command: c.RunCapture, result: JobResult) -> e.Event:
    last = result.outcomes[-1]
    if last.status == "completed":
        fields = {key: value for key, value in last.value.items() if key != "canonical"}
        return e.ProgramCaptured(sweep_id, command.program.name, **fields, node_id=result.node_id)
    outcome, kind = _blame(last, otherwise=(Outcome.STRUCTURAL_REJECTION, ""))
    if last.refusal:
        outcome, kind = Outcome.STRUCTURAL_REJECTION, ""
    return e.CaptureFailed(
        sweep_id,
        command.program.name,
        source=command.program.source,
        outcome=outcome,
        outcome_kind=kind,
        message=last.message,
        seconds=result.seconds,
        node_id=result.node_id,
    )


def _compile_event(sweep_id: str, command: c.RunCompile, result: JobResult, budget: float | None) -> e.Event:
    last = result.outcomes[-1]
    if last.status != "completed":
        outcome, kind = _blame(last, otherwise=(Outcome.COMPILE_FAILURE, FailureKind.CRASH))
        if kind == FailureKind.TIMEOUT and budget is not None and last.seconds >= budget:
            kind = FailureKind.BUDGET_EXCEEDED
        return e.CompileFailed(
            sweep_id,
            command.cell.id,
            candidate_id=command.candidate_id,
            outcome=outcome,
            outcome_kind=kind,
            message=last.message,
            compile_seconds=result.seconds,
            node_id=result.node_id,
        )
    return e.CandidateCompiled(
        sweep_id,
        command.cell.id,
        candidate_id=command.candidate_id,
        semantic_hash=command.semantic_hash,
        node_id=result.node_id,
        **_with_rows(last.value, "manifest"),
    )


def _with_rows(value: Mapping[str, Any], rows: str) -> dict[str, Any]:
    """An event's fields from a step's JSON, where a list stands for a tuple of ``rows``."""
    return {**value, rows: tuple(value[rows])}


def _blame(last: StepOutcome, otherwise: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """Outcome and kind of a child that died or raised; ``otherwise`` for an exception that is nobody's refusal."""
    if last.status == "died":
        return Outcome.COMPILE_FAILURE, _KIND_OF_DEATH[last.kind]
    code = last.refusal["exit_code"] if last.refusal else 0
    if code == Outcome.STRUCTURAL_REJECTION.exit_code:
        return Outcome.STRUCTURAL_REJECTION, ""
    if code == Outcome.SEMANTIC_DRIFT.exit_code:
        return Outcome.SEMANTIC_DRIFT, ""
    if last.refusal:
        return Outcome.COMPILE_FAILURE, FailureKind.UNSUPPORTED
    return otherwise


def _gate_event(sweep_id: str, command: c.RunGate, result: JobResult) -> e.Event:
    last = result.outcomes[-1]
    decided = last.value if last.status == "completed" else _undecided(last)
    return e.GateDecided(
        sweep_id,
        command.cell.id,
        candidate_id=command.candidate_id,
        artifact_sha256=command.artifact_sha256,
        seconds=result.seconds,
        node_id=result.node_id,
        **_with_rows(decided, "findings"),
    )


def _undecided(last: StepOutcome) -> dict[str, Any]:
    """The judge itself died or raised: nothing was proven, in either direction."""
    return {
        "gate_run_id": uuid.uuid4().hex,
        "status": Status.NOT_RUN,
        "outcome": Outcome.UNDECIDED,
        "outcome_kind": last.kind,
        "message": f"the judge did not finish: {last.message}",
        "gate_version": "",
        "attestation": "",
        "findings": [],
    }


def _bench_event(sweep_id: str, command: c.RunBench, result: JobResult) -> e.Event:
    last = result.outcomes[-1]
    identity = (sweep_id, command.cell.id, command.candidate_id, command.artifact_sha256)
    if last.status != "completed":
        kind = e.RECOMPILE if last.kind == "RecompileBlocked" else last.kind
        return e.MeasureFailed(*identity, kind, last.message, result.seconds, result.node_id)
    return e.Measured(*identity, result.seconds, tuple(last.value["measurements"]), result.node_id)


def _probe_event(sweep_id: str, command: c.RunProbe, result: JobResult) -> e.ProbeDecided:
    """A probe that does not compile, or whose judge died, says nothing; one that comes out differently says so."""
    first, last = result.outcomes[0], result.outcomes[-1]
    said, message = str(Answer.SKIP), last.message
    if first.value.get("steady") is False:
        said, message = UNSTEADY, "compiled twice with the same sites on, two different artifacts came out"
    elif last.status == "completed" and "status" in last.value:
        decided = last.value
        message = decided["message"]
        kind = decided["outcome_kind"]
        said = answer(command.failure, decided["status"], decided["outcome"], kind, decided["findings"])
    return e.ProbeDecided(
        sweep_id,
        command.cell.id,
        bisection_id=command.bisection_id,
        candidate_id=command.candidate_id,
        step=command.step,
        round=command.round,
        axis=command.cell.backend,
        probe=str(command.switches),
        outcome=said,
        message=message,
        seconds=result.seconds,
        node_id=result.node_id,
    )


def _compared_event(sweep_id: str, command: c.RunCompare, result: JobResult, threshold: float) -> e.Compared:
    """A comparison that did not come about is inconclusive, and says why."""
    last = result.outcomes[-1]
    told = last.value if last.status == "completed" else not_compared(last.message, threshold)
    return e.Compared(
        sweep_id,
        command.cell.id,
        candidate_id=command.candidate_id,
        artifact_sha256=command.artifact_sha256,
        baseline=command.baseline,
        baseline_artifact=command.baseline_artifact,
        seconds=result.seconds,
        node_id=result.node_id,
        **_with_rows(told, "measurements"),
    )


def not_compared(message: str, threshold: float) -> dict[str, Any]:
    """The fields of a comparison that did not come about. Only the CPU is measured."""
    verdict = without_samples(Speed.INCONCLUSIVE, f"not compared: {message}")
    return {**verdict.compared(METRIC, "cpu", threshold), "measurements": []}
