"""What the coordinator wants done next. Jobs go to the engine; the rest the driver does itself, at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tensorfarm.farm.pipeline.plan import Cell, PlannedProgram


class Stage(StrEnum):
    """Stages that run as jobs, each in the pool that ``POOL_OF`` names."""

    CAPTURE = "capture"
    COMPILE = "compile"
    GATE = "gate"
    BENCH = "bench"


@dataclass(frozen=True, slots=True)
class RunCapture:
    program: PlannedProgram


@dataclass(frozen=True, slots=True)
class Submit:
    """Give the cell's candidate its identity; ask the cache."""

    cell: Cell
    semantic_hash: str
    input_spec_id: str
    dtype: str


@dataclass(frozen=True, slots=True)
class RunCompile:
    cell: Cell
    candidate_id: str
    program_sha256: str
    semantic_hash: str


@dataclass(frozen=True, slots=True)
class RunGate:
    cell: Cell
    candidate_id: str
    program_sha256: str
    semantic_hash: str
    artifact_sha256: str


@dataclass(frozen=True, slots=True)
class Admit:
    """Let these gated bytes into the artifact cache."""

    cell: Cell
    candidate_id: str
    semantic_hash: str
    artifact_sha256: str
    size_bytes: int
    gate_run_id: str


@dataclass(frozen=True, slots=True)
class RunBench:
    cell: Cell
    candidate_id: str
    program_sha256: str
    artifact_sha256: str


@dataclass(frozen=True, slots=True)
class End:
    """The cell has its outcome."""

    cell: Cell
    candidate_id: str
    outcome: str
    outcome_kind: str
    message: str


@dataclass(frozen=True, slots=True)
class GiveUpCapture:
    """A program could not be captured because nodes kept dying."""

    program: PlannedProgram
    message: str


JobCommand = RunCapture | RunCompile | RunGate | RunBench
LocalCommand = Submit | Admit | End | GiveUpCapture

_STAGE_OF = {RunCapture: Stage.CAPTURE, RunCompile: Stage.COMPILE, RunGate: Stage.GATE, RunBench: Stage.BENCH}
POOL_OF = {Stage.CAPTURE: "compile", Stage.COMPILE: "compile", Stage.GATE: "gate", Stage.BENCH: "bench"}


def stage_of(command: JobCommand) -> Stage:
    return _STAGE_OF[type(command)]


def subject_of(command: JobCommand) -> str:
    """What the command's events are about: a program's name or a cell's id."""
    return command.program.name if isinstance(command, RunCapture) else command.cell.id
