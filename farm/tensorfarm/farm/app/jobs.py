"""Between the pipeline's words and the engine's: a command becomes a job, a job's result becomes an event.

A child's exit is a verdict on the candidate; a lost job is infrastructure and says nothing about it.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import FailureKind, Outcome, Status
from tensorfarm.farm.app.sweep_file import SweepConfig
from tensorfarm.farm.engine.job import Job, JobResult, Step, StepOutcome
from tensorfarm.farm.engine.toolchain import Toolchain
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import POOL_OF, Stage, stage_of, subject_of
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.gate.step import FUNCTIONS as GATE_STEPS

CAPTURE = "tensorfarm.farm.app.capturing:capture_program"
COMPILE = "tensorfarm.compiler.compile:compile_candidate"
BENCH = "tensorfarm.farm.measure.pairs:measure"

_KIND_OF_DEATH = {
    "signal": FailureKind.CRASH,
    "exit": FailureKind.CRASH,
    "timeout": FailureKind.TIMEOUT,
    "out_of_memory": FailureKind.OUT_OF_MEMORY,
}


@dataclass(frozen=True)
class JobBook:
    """Everything that a job of this sweep needs besides its command."""

    config: SweepConfig
    layout: StoreLayout
    toolchain: Toolchain

    def job(self, command: c.JobCommand) -> Job:
        """The engine's job for a command. Its id is ``stage:subject``."""
        stage, subject = stage_of(command), subject_of(command)
        match command:
            case c.RunCapture():
                steps = (self._step(CAPTURE, "worker", self.config.limits.capture_seconds, self._capture(command)),)
            case c.RunCompile():
                steps = (self._step(COMPILE, "worker", self.config.limits.compile_seconds, self._compile(command)),)
            case c.RunGate():
                steps = self._gate_steps(command)
            case c.RunBench():
                steps = (self._step(BENCH, "subject", self.config.limits.bench_seconds, self._bench(command)),)
        return Job(f"{stage}:{subject}", POOL_OF[stage], steps, exclusive=stage is Stage.BENCH)

    def _step(
        self, function: str, role: str, seconds: float, request: Mapping[str, Any], tolerated: bool = False
    ) -> Step:
        full = {"python_path": list(self.config.python_path), **request}
        return Step(role, function, full, seconds, self.config.limits.memory_bytes, 1, tolerated)

    def _capture(self, command: c.RunCapture) -> dict[str, Any]:
        return {"source": command.program.source, "programs": str(self.layout.programs)}

    def _program(self, sha256: str) -> dict[str, str]:
        return {"program": str(self.layout.programs / f"{sha256}.program"), "program_sha256": sha256}

    def _artifact(self, sha256: str) -> dict[str, str]:
        admitted = self.layout.artifacts / f"{sha256}.artifact"
        place = admitted if admitted.is_file() else self.layout.built / f"{sha256}.artifact"
        return {"artifact": str(place), "artifact_sha256": sha256}

    def _compile(self, command: c.RunCompile) -> dict[str, Any]:
        return {
            **self._program(command.program_sha256),
            "candidate_id": command.candidate_id,
            "semantic_hash": command.semantic_hash,
            "mode": command.cell.program.mode,
            "pipeline": command.cell.pipeline,
            "target": self.toolchain.target,
            "toolchain": dict(self.toolchain.facts),
            "built": str(self.layout.built),
        }

    def _gate_steps(self, command: c.RunGate) -> tuple[Step, ...]:
        request = {
            **self._program(command.program_sha256),
            **self._artifact(command.artifact_sha256),
            "candidate_id": command.candidate_id,
            "semantic_hash": command.semantic_hash,
            "mode": command.cell.program.mode,
            "contract": dict(self.config.contract),
            "ir_contract": dict(self.config.ir_contract),
            "folder": str(self.layout.work / f"gate-{command.candidate_id[:16]}-{uuid.uuid4().hex[:8]}"),
            "oracle_cache": str(self.layout.oracle),
            "seed": self.config.seed,
        }
        seconds = self.config.limits.gate_seconds
        return (
            self._step(GATE_STEPS["prepare"], "judge", seconds, request),
            self._step(GATE_STEPS["run"], "subject", seconds, request, tolerated=True),
            self._step(GATE_STEPS["decide"], "judge", seconds, request),
        )

    def _bench(self, command: c.RunBench) -> dict[str, Any]:
        return {
            **self._program(command.program_sha256),
            **self._artifact(command.artifact_sha256),
            "candidate_id": command.candidate_id,
            "mode": command.cell.program.mode,
            "pairs": self.config.pairs,
            "seed": self.config.seed,
        }


def event_of(sweep_id: str, command: c.JobCommand, result: JobResult) -> e.Event:
    """The event that a job's result is. A full disk or a damaged store is the node's fault, like its death."""
    lost = result.lost or next((item.message for item in result.outcomes if _is_the_nodes_fault(item, command)), "")
    if lost:
        return e.JobLost(sweep_id, subject_of(command), stage_of(command), lost, result.node_id)
    match command:
        case c.RunCapture():
            return _capture_event(sweep_id, command, result)
        case c.RunCompile():
            return _compile_event(sweep_id, command, result)
        case c.RunGate():
            return _gate_event(sweep_id, command, result)
        case c.RunBench():
            return _bench_event(sweep_id, command, result)


def _is_the_nodes_fault(outcome: StepOutcome, command: c.JobCommand) -> bool:
    """No room on the disk, or a program file that is gone or altered. A judge says of an artifact's bytes itself."""
    if f"[Errno {errno.ENOSPC}]" in outcome.message:
        return outcome.status == "raised"
    return isinstance(command, c.RunCompile) and "CorruptBundle" in outcome.refusal.get("classes", ())


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


def _compile_event(sweep_id: str, command: c.RunCompile, result: JobResult) -> e.Event:
    last = result.outcomes[-1]
    if last.status != "completed":
        outcome, kind = _blame(last, otherwise=(Outcome.COMPILE_FAILURE, FailureKind.CRASH))
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
