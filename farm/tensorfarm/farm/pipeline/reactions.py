"""From a state to what should be done next. Pure: the same state, running jobs and room give the same commands.

Downstream first, so that little is on its way at once; captures wait while the later stages have enough to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from tensorfarm.contract.outcome import Outcome
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.bisection import Found
from tensorfarm.farm.pipeline.commands import Stage
from tensorfarm.farm.pipeline.state import Progress, SweepState

# Stage, subject and part of each job that is on its way.
Running = Set[tuple[Stage, str, str]]
_DOWNSTREAM_FIRST = (
    Stage.COMPARE,
    Stage.BENCH,
    Stage.REPRODUCE,
    Stage.GATE,
    Stage.PROBE,
    Stage.COMPILE,
    Stage.CAPTURE,
)


@dataclass(frozen=True)
class Limits:
    """``losses``: how often a job may be lost to infrastructure. ``window``: how many cells may wait to be compiled."""

    losses: int = 3
    window: int = 64


def local_commands(state: SweepState) -> Iterator[c.LocalCommand]:
    """What the driver does itself, and at once."""
    for step, make in _LOCAL.items():
        for subject in tuple(state.ready[step]):
            yield make(state, state.live[subject])


def _submit(state: SweepState, at: Progress) -> c.Submit:
    known = state.captured[at.cell.program.name]
    return c.Submit(at.cell, known.semantic_hash, known.input_spec_id, known.dtype, known.features)


def _admit(state: SweepState, at: Progress) -> c.Admit:
    semantic_hash = state.captured[at.cell.program.name].semantic_hash
    return c.Admit(at.cell, at.candidate_id, semantic_hash, at.artifact_sha256, at.size_bytes, at.gate_run_id)


def _start_bisection(state: SweepState, at: Progress) -> c.StartBisection:
    return c.StartBisection(at.cell, at.candidate_id, at.sites, state.plan.bisect.width, at.failure)


def _finish_bisection(state: SweepState, at: Progress) -> c.FinishBisection:
    return c.FinishBisection(at.cell, at.candidate_id, _found(state, at))


_LOCAL: Mapping[str, Callable[[SweepState, Progress], c.LocalCommand]] = {
    "end": lambda _state, at: c.End(at.cell, at.candidate_id, at.outcome, at.outcome_kind, at.message),
    "settle": lambda _state, at: c.Settle(at.cell, at.candidate_id, tuple(at.compared), at.message),
    "consider": lambda _state, at: c.Consider(at.cell, at.candidate_id, at.artifact_sha256, at.message),
    "admit": _admit,
    "finish_bisection": _finish_bisection,
    "start_bisection": _start_bisection,
    "submit": _submit,
}


def exhausted(state: SweepState, limits: Limits) -> Iterator[c.LocalCommand]:
    """What was lost to dying nodes too often. A measurement given up leaves an admitted artifact."""
    for (stage, subject), losses in state.lost.items():
        if losses < limits.losses or subject not in state.ready[stage]:
            continue
        message = f"{stage} was lost {losses} times to dying nodes or actors"
        if stage == Stage.CAPTURE:
            yield c.GiveUpCapture(state.programs[subject], message)
            continue
        at = state.live[subject]
        if stage in (Stage.PROBE, Stage.REPRODUCE):
            yield c.FinishBisection(at.cell, at.candidate_id, _found(state, at), message)
        elif stage == Stage.COMPARE:
            for baseline, artifact in at.comparisons.items():
                yield c.GiveUpComparison(at.cell, at.candidate_id, at.artifact_sha256, baseline, artifact, message)
        else:
            outcome = Outcome.ADMITTED if stage == Stage.BENCH else Outcome.INFRASTRUCTURE_EXHAUSTED
            yield c.End(at.cell, at.candidate_id, outcome, "", message)


def _found(state: SweepState, at: Progress) -> Found:
    """What the search came to, or how far it was when it was given up."""
    bisection = state.bisection(at.cell.id)
    return bisection.found or bisection.given_up


def job_commands(
    state: SweepState, running: Running, room: Mapping[str, int], limits: Limits
) -> Iterator[c.JobCommand]:
    """Jobs to start now: at most ``room[pool]`` for each pool."""
    left = dict(room)
    for stage in _DOWNSTREAM_FIRST:
        pool = c.POOL_OF[stage]
        if stage is Stage.CAPTURE and len(state.ready[Stage.COMPILE]) >= limits.window:
            continue
        for subject in state.ready[stage]:
            if left.get(pool, 0) <= 0:
                break
            for command in _jobs(state, stage, subject):
                if left[pool] > 0 and (stage, subject, c.part_of(command)) not in running:
                    left[pool] -= 1
                    yield command


def _jobs(state: SweepState, stage: Stage, subject: str) -> Iterator[c.JobCommand]:
    """What a subject that is ready for a stage has to have done there."""
    if stage is Stage.CAPTURE:
        yield c.RunCapture(state.programs[subject])
        return
    at = state.live[subject]
    known = state.captured[at.cell.program.name]
    cell, candidate_id, program = at.cell, at.candidate_id, known.program_sha256
    match stage:
        case Stage.COMPILE:
            yield c.RunCompile(cell, candidate_id, program, known.semantic_hash)
        case Stage.GATE:
            yield c.RunGate(cell, candidate_id, program, known.semantic_hash, at.artifact_sha256)
        case Stage.BENCH:
            yield c.RunBench(cell, candidate_id, program, at.artifact_sha256)
        case Stage.PROBE:
            yield from _probes(state, at)
        case Stage.REPRODUCE:
            yield c.RunReproduce(cell, candidate_id, program, _found(state, at))
        case Stage.COMPARE:
            for baseline, artifact in at.comparisons.items():
                yield c.RunCompare(cell, candidate_id, program, at.artifact_sha256, baseline, artifact)


def _probes(state: SweepState, at: Progress) -> Iterator[c.RunProbe]:
    """The probes that the round still lacks; their numbers follow from their places in it."""
    bisection, known = state.bisection(at.cell.id), state.captured[at.cell.program.name]
    search = bisection.search
    for step, switches in enumerate(search.probes(), bisection.answered):
        yield c.RunProbe(
            at.cell,
            at.candidate_id,
            known.program_sha256,
            known.semantic_hash,
            bisection.bisection_id,
            bisection.failure,
            step,
            search.round,
            switches,
        )
