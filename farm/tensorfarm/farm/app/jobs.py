"""From the pipeline's words to the engine's: a command becomes a job. What its result means is in ``results``."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import sha256_json
from tensorfarm.farm.app.bisection import BisectionDesk
from tensorfarm.farm.app.regression import RegressionDesk, workload_of
from tensorfarm.farm.app.sweep_file import SweepConfig
from tensorfarm.farm.engine.job import Job, Step
from tensorfarm.farm.engine.toolchain import Toolchain
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import POOL_OF, Stage, part_of, stage_of, subject_of
from tensorfarm.farm.pipeline.plan import Cell
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.gate.step import FUNCTIONS as GATE_STEPS

CAPTURE = "tensorfarm.farm.app.capturing:capture_program"
COMPILE = "tensorfarm.farm.app.compiling:compile_and_describe"
BENCH = "tensorfarm.farm.measure.pairs:measure"
COMPARE = "tensorfarm.farm.measure.pairs:compare"
REPRODUCE = "tensorfarm.farm.app.reproducing:write_reproducer"
# Processes beside the main one that a full examination starts, one after the other.
_MOST_SESSIONS = 12


def _name(command: c.JobCommand) -> str:
    stage, subject, part = stage_of(command), subject_of(command), part_of(command)
    return f"{stage}:{subject}:{part}" if part else f"{stage}:{subject}"


@dataclass(frozen=True)
class JobBook:
    """Everything that a job of this sweep needs besides its command."""

    config: SweepConfig
    layout: StoreLayout
    toolchain: Toolchain
    bisections: BisectionDesk
    regressions: RegressionDesk

    def job(self, command: c.JobCommand) -> Job:
        """The engine's job for a command. Its id is ``stage:subject``, and the part where a subject has several."""
        stage = stage_of(command)
        exclusive = stage in (Stage.BENCH, Stage.COMPARE)
        return Job(_name(command), POOL_OF[stage], self._steps(command), exclusive)

    def judged_in(self, command: c.JobCommand) -> Path:
        """Where the tries of a command's gate run lie; nobody needs it once the result is there."""
        return self.layout.judging(self.bisections.sweep_id) / sha256_json(_name(command))[:16]

    def _steps(self, command: c.JobCommand) -> tuple[Step, ...]:
        limits = self.config.limits
        match command:
            case c.RunCapture():
                return (self._step(CAPTURE, "worker", limits.capture_seconds, self._capture(command)),)
            case c.RunCompile():
                return (self._step(COMPILE, "worker", self.compile_seconds, self._compile(command)),)
            case c.RunGate():
                return self._gate_steps(
                    self._gate(command, command.candidate_id, self._artifact(command.artifact_sha256))
                )
            case c.RunBench():
                return (self._step(BENCH, "subject", limits.bench_seconds, self._bench(command)),)
            case c.RunProbe():
                return self._probe_steps(command)
            case c.RunReproduce():
                # A script is run up to four times, and each time compiles the program.
                seconds = 2 * (limits.compile_seconds + limits.gate_seconds)
                return (self._step(REPRODUCE, "worker", seconds, self._reproduce(command)),)
            case c.RunCompare():
                return (self._step(COMPARE, "subject", limits.bench_seconds, self._compare(command)),)

    @property
    def compile_seconds(self) -> float:
        """What a compilation may take: the budget, where there is one below the limit."""
        return min(self.config.limits.compile_seconds, self.config.budget.compile_seconds or math.inf)

    def _step(
        self,
        function: str,
        role: str,
        seconds: float,
        request: Mapping[str, Any],
        tolerated: bool = False,
        takes: Mapping[str, Sequence[str]] | None = None,
    ) -> Step:
        full = {"python_path": list(self.config.python_path), **request}
        return Step(role, function, full, seconds, self.config.limits.memory_bytes, 1, tolerated, takes or {})

    def _capture(self, command: c.RunCapture) -> dict[str, Any]:
        program = command.program
        return {"source": program.source, "mode": program.mode, "programs": str(self.layout.programs)}

    def _program(self, sha256: str) -> dict[str, str]:
        return {"program": str(self.layout.programs / f"{sha256}.program"), "program_sha256": sha256}

    def _artifact(self, sha256: str) -> dict[str, str]:
        admitted = self.layout.artifacts / f"{sha256}.artifact"
        place = admitted if admitted.is_file() else self.layout.built / f"{sha256}.artifact"
        return {"artifact": str(place), "artifact_sha256": sha256}

    def _compile(self, command: c.RunCompile | c.RunProbe) -> dict[str, Any]:
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

    def _gate(self, command: c.RunGate | c.RunProbe, candidate_id: str, artifact: Mapping[str, str]) -> dict[str, Any]:
        return {
            **self._program(command.program_sha256),
            **artifact,
            "candidate_id": candidate_id,
            "semantic_hash": command.semantic_hash,
            "mode": command.cell.program.mode,
            "contract": dict(self.config.contract),
            "ir_contract": dict(self.config.ir_contract),
            "folder": str(self.judged_in(command) / uuid.uuid4().hex[:8]),
            "oracle_cache": str(self.layout.oracle),
            "seed": self.config.seed,
            "level": self.config.level,
            "subject_seconds": self.config.limits.gate_seconds,
        }

    def _gate_steps(
        self, request: Mapping[str, Any], takes: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[Step, ...]:
        seconds = self.config.limits.gate_seconds
        others = self._step(GATE_STEPS["run_sessions"], "subject", _MOST_SESSIONS * seconds, request, takes=takes)
        return (
            self._step(GATE_STEPS["prepare"], "judge", seconds, request, takes=takes),
            self._step(GATE_STEPS["run"], "subject", seconds, request, tolerated=True, takes=takes),
            *((others,) if self.config.several_sessions else ()),
            self._step(GATE_STEPS["decide"], "judge", seconds, request, takes=takes),
        )

    def _probe_steps(self, command: c.RunProbe) -> tuple[Step, ...]:
        """Compile with some sites off, in a folder of the bisection's own, and judge what came of it."""
        probe_id = sha256_json([command.candidate_id, str(command.switches)])
        built = self.layout.work / f"bisect-{command.bisection_id}"
        compiling = {
            **self._compile(command),
            "candidate_id": probe_id,
            "built": str(built),
            "switches": str(command.switches),
            # A fault that comes and goes would be pinned on the wrong site. Inductor's bytes differ each time, and
            # building them again costs as much as a probe.
            "twice": command.cell.backend == "fx",
        }
        takes = {"artifact": (COMPILE, "uri"), "artifact_sha256": (COMPILE, "artifact_sha256")}
        return (
            self._step(COMPILE, "worker", self.config.limits.compile_seconds, compiling),
            *self._gate_steps(
                {**self._gate(command, probe_id, {}), "only": json.loads(command.failure)["checks"]}, takes
            ),
        )

    def _reproduce(self, command: c.RunReproduce) -> dict[str, Any]:
        return {
            **self._program(command.program_sha256),
            "mode": command.cell.program.mode,
            "pipeline": command.cell.pipeline,
            **self.bisections.script_request(command),
        }

    def _compare(self, command: c.RunCompare) -> dict[str, Any]:
        baseline = command.baseline_artifact
        return {
            **self._program(command.program_sha256),
            **self._artifact(command.artifact_sha256),
            "candidate_id": command.candidate_id,
            "baseline": {
                **self._artifact(baseline),
                "candidate_id": self.regressions.candidate_of(self.workload(command.cell), baseline),
            },
            "mode": command.cell.program.mode,
            "threshold": self.config.threshold,
            "seed": self.config.seed,
        }

    def workload(self, cell: Cell) -> str:
        """What the artifacts of a cell are compared within."""
        return workload_of(cell.program.name, cell.pipeline, cell.program.mode, self.toolchain.target)

    def _bench(self, command: c.RunBench) -> dict[str, Any]:
        return {
            **self._program(command.program_sha256),
            **self._artifact(command.artifact_sha256),
            "candidate_id": command.candidate_id,
            "mode": command.cell.program.mode,
            "pairs": self.config.pairs,
            "seed": self.config.seed,
        }
