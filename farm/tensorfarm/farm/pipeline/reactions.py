"""From a state to what should be done next. Pure: the same state, running jobs and room give the same commands.

Downstream first, so that little is on its way at once; captures wait while the later stages have enough to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from tensorfarm.contract.outcome import Outcome
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import Stage
from tensorfarm.farm.pipeline.state import SweepState

Running = Set[tuple[Stage, str]]


@dataclass(frozen=True)
class Limits:
    """``losses``: how often a job may be lost to infrastructure. ``window``: how many cells may wait to be compiled."""

    losses: int = 3
    window: int = 64


def local_commands(state: SweepState) -> Iterator[c.LocalCommand]:
    """What the driver does itself, and at once."""
    for subject in tuple(state.ready["end"]):
        cell = state.live[subject]
        yield c.End(cell.cell, cell.candidate_id, cell.outcome, cell.outcome_kind, cell.message)
    for subject in tuple(state.ready["admit"]):
        cell = state.live[subject]
        semantic_hash = state.captured[cell.cell.program.name].semantic_hash
        yield c.Admit(
            cell.cell, cell.candidate_id, semantic_hash, cell.artifact_sha256, cell.size_bytes, cell.gate_run_id
        )
    for subject in tuple(state.ready["submit"]):
        cell = state.live[subject].cell
        captured = state.captured[cell.program.name]
        yield c.Submit(cell, captured.semantic_hash, captured.input_spec_id, captured.dtype)


def exhausted(state: SweepState, limits: Limits) -> Iterator[c.End | c.GiveUpCapture]:
    """What was lost to dying nodes too often. A measurement given up leaves an admitted artifact."""
    for (stage, subject), losses in state.lost.items():
        if losses < limits.losses or subject not in state.ready[stage]:
            continue
        message = f"{stage} was lost {losses} times to dying nodes or actors"
        if stage == Stage.CAPTURE:
            yield c.GiveUpCapture(state.programs[subject], message)
        else:
            cell = state.live[subject]
            outcome = Outcome.ADMITTED if stage == Stage.BENCH else Outcome.INFRASTRUCTURE_EXHAUSTED
            yield c.End(cell.cell, cell.candidate_id, outcome, "", message)


def job_commands(
    state: SweepState, running: Running, room: Mapping[str, int], limits: Limits
) -> Iterator[c.JobCommand]:
    """Jobs to start now: at most ``room[pool]`` for each pool."""
    left = dict(room)
    for stage in (Stage.BENCH, Stage.GATE, Stage.COMPILE, Stage.CAPTURE):
        pool = c.POOL_OF[stage]
        if stage is Stage.CAPTURE and len(state.ready[Stage.COMPILE]) >= limits.window:
            continue
        for subject in state.ready[stage]:
            if left.get(pool, 0) <= 0:
                break
            if (stage, subject) not in running:
                left[pool] -= 1
                yield _job(state, stage, subject)


def _job(state: SweepState, stage: Stage, subject: str) -> c.JobCommand:
    if stage is Stage.CAPTURE:
        return c.RunCapture(state.programs[subject])
    progress = state.live[subject]
    captured = state.captured[progress.cell.program.name]
    cell, candidate_id, program = progress.cell, progress.candidate_id, captured.program_sha256
    if stage is Stage.COMPILE:
        return c.RunCompile(cell, candidate_id, program, captured.semantic_hash)
    if stage is Stage.GATE:
        return c.RunGate(cell, candidate_id, program, captured.semantic_hash, progress.artifact_sha256)
    return c.RunBench(cell, candidate_id, program, progress.artifact_sha256)
