"""What the coordinator wants done next. Jobs go to the engine; the rest the driver does itself, at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tensorfarm.contract.events import Compared
from tensorfarm.contract.switches import Switches
from tensorfarm.farm.pipeline.bisection import Found, Sites
from tensorfarm.farm.pipeline.plan import Cell, PlannedProgram


class Stage(StrEnum):
    """Stages that run as jobs, each in the pool that ``POOL_OF`` names."""

    CAPTURE = "capture"
    COMPILE = "compile"
    GATE = "gate"
    BENCH = "bench"
    PROBE = "probe"
    REPRODUCE = "reproduce"
    COMPARE = "compare"


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
    features: Mapping[str, Any]


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
class RunProbe:
    """Compile with some sites off, and judge: one step of a bisection. ``failure`` is what makes it bad."""

    cell: Cell
    candidate_id: str
    program_sha256: str
    semantic_hash: str
    bisection_id: str
    failure: str
    step: int
    round: int
    switches: Switches


@dataclass(frozen=True, slots=True)
class RunReproduce:
    """Write the script that shows what a bisection found, and see it fail and pass."""

    cell: Cell
    candidate_id: str
    program_sha256: str
    found: Found


@dataclass(frozen=True, slots=True)
class RunCompare:
    """Measure the artifact against a baseline of its workload, in pairs."""

    cell: Cell
    candidate_id: str
    program_sha256: str
    artifact_sha256: str
    baseline: str
    baseline_artifact: str


@dataclass(frozen=True, slots=True)
class StartBisection:
    """The gate refused the candidate: search for the decision that breaks it."""

    cell: Cell
    candidate_id: str
    sites: Sites
    width: int
    failure: str


@dataclass(frozen=True, slots=True)
class FinishBisection:
    """The search has ended without a script to write. ``trouble`` says what kept it from a culprit, if it was that."""

    cell: Cell
    candidate_id: str
    found: Found
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Consider:
    """The artifact has measurements: hold them against the baselines of its workload."""

    cell: Cell
    candidate_id: str
    artifact_sha256: str
    message: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Every comparison of the cell is done: say what they mean."""

    cell: Cell
    candidate_id: str
    compared: tuple[Compared, ...]
    message: str


@dataclass(frozen=True, slots=True)
class GiveUpComparison:
    """An artifact could not be compared because nodes kept dying."""

    cell: Cell
    candidate_id: str
    artifact_sha256: str
    baseline: str
    baseline_artifact: str
    message: str


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


JobCommand = RunCapture | RunCompile | RunGate | RunBench | RunProbe | RunReproduce | RunCompare
LocalCommand = (
    Submit | Admit | StartBisection | FinishBisection | Consider | Settle | End | GiveUpCapture | GiveUpComparison
)

_STAGE_OF = {
    RunCapture: Stage.CAPTURE,
    RunCompile: Stage.COMPILE,
    RunGate: Stage.GATE,
    RunBench: Stage.BENCH,
    RunProbe: Stage.PROBE,
    RunReproduce: Stage.REPRODUCE,
    RunCompare: Stage.COMPARE,
}
# A probe is mostly judged: it runs where a judge and a subject are warm already.
POOL_OF = {
    Stage.CAPTURE: "compile",
    Stage.COMPILE: "compile",
    Stage.GATE: "gate",
    Stage.BENCH: "bench",
    Stage.PROBE: "gate",
    Stage.REPRODUCE: "gate",
    Stage.COMPARE: "bench",
}


def stage_of(command: JobCommand) -> Stage:
    return _STAGE_OF[type(command)]


def subject_of(command: JobCommand) -> str:
    """What the command's events are about: a program's name or a cell's id."""
    return command.program.name if isinstance(command, RunCapture) else command.cell.id


def part_of(command: JobCommand) -> str:
    """What tells apart the jobs that one subject may have in one stage at the same time."""
    match command:
        case RunProbe():
            return str(command.switches)
        case RunCompare():
            return command.baseline
        case _:
            return ""
