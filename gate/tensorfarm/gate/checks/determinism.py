"""F16, determinism: the same inputs give the same bits, call after call, subject after subject, process after process.

Asked only where the original itself repeats its bits, so that a step counter or a random number is not held against
anyone. Other numbers of threads may add in another order: there the oracle's budget decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.gate.calling import snapshot
from tensorfarm.gate.compared import agreements, differing, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import example
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Depth, Session, Trial

NAME, FAMILY, LEVEL, COST = "determinism", "F16", Level.STANDARD, 40
REPEAT = "repeat"
BITWISE = "bitwise_run_to_run"
KINDS = ("output", "gradient")
PROCESSES = (Session("process:2"), Session("process:3"))
THREADS = (Session("threads:2", threads=2), Session("threads:4", threads=4))


def trials(setting: Setting) -> list[Trial]:
    """The example again; at the full level in two fresh processes, and at two and four threads."""
    if not _bitwise(setting.contract):
        return []
    first = example.trial(setting)
    if setting.level < Level.FULL or not setting.facts.isolated:
        return [first, repeated(setting)]
    return [replace(first, sessions=(MAIN, *PROCESSES, *THREADS)), repeated(setting)]


def repeated(setting: Setting) -> Trial:
    """Three calls of one subject with the example's inputs; the last one starts the random stream elsewhere."""
    calls = tuple(
        replace(example.trial(setting).calls[0], seed=seed) for seed in (setting.seed, setting.seed, setting.seed + 1)
    )
    return Trial(REPEAT, calls, Depth.EAGER)


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient of every run after the first."""
    if not _bitwise(evidence.setting.contract):
        return [inapplicable(NAME, "determinism: the contract declares no class of operators bitwise run to run")]
    found = [*_within_process(evidence), *_between_processes(evidence)]
    for session in THREADS:
        if session in evidence.trials[example.NAME].sessions:
            compared = walk(
                evidence,
                NAME,
                [example.NAME],
                lambda place: agreements(evidence, NAME, place, KINDS),
                session,
            )
            found += [replace(item, what=f"{item.what} in {session.name}") for item in compared.settled()]
    return found or [inapplicable(NAME, "determinism: the original repeats nothing that could be compared")]


def canary(evidence: Evidence) -> Evidence | None:
    """The last bit of one element of a repeated call."""
    runs = [(evidence.expected.get(REPEAT, ()), evidence.ran(REPEAT))]
    for wanted, given in runs:
        for number in range(1, min(len(wanted), len(given))):
            for key in _repeating(wanted[0].eager, wanted[number].eager):
                seen = given[number].tensors.get(key)
                if seen is not None and seen.numel() and seen.dtype is not torch.bool:
                    tensors = snapshot(given[number].tensors)
                    tensors[key] = _nudged(tensors[key])
                    return evidence.with_seen(REPEAT, number, replace(given[number], tensors=tensors))
    return None


def _bitwise(contract: NumericalContract) -> bool:
    return BITWISE in contract.determinism.values()


def _within_process(evidence: Evidence) -> Iterator[Finding]:
    """The repeated calls with the first of them, and that one with the example's call of a fresh subject."""
    trial = evidence.trials.get(REPEAT)
    wanted, given = evidence.expected.get(REPEAT, ()), evidence.ran(REPEAT)
    if trial is None or not wanted or not given:
        return
    for number in range(1, min(len(wanted), len(given))):
        for finding in _equal(wanted[0].eager, wanted[number].eager, given[0], given[number], f"run {number + 1}"):
            yield finding.at(trial)
    for _, expected, seen in evidence.pairs(example.NAME):
        for finding in _equal(expected.eager, wanted[0].eager, seen, given[0], "a fresh subject"):
            yield finding.at(trial)


def _between_processes(evidence: Evidence) -> Iterator[Finding]:
    trial = evidence.trials[example.NAME]
    for session in PROCESSES:
        if session not in trial.sessions:
            continue
        for number, wanted, given in evidence.pairs(example.NAME, session.name):
            first = evidence.ran(example.NAME)[number : number + 1]
            for seen in first:
                for finding in _equal(wanted.eager, wanted.eager, seen, given, session.name):
                    yield finding.at(trial, session)


def _equal(
    eager: Observation, eager_again: Observation, seen: Observation, seen_again: Observation, run: str
) -> Iterator[Finding]:
    if any(item.report.error for item in (eager, eager_again, seen, seen_again)):
        return
    for key in _repeating(eager, eager_again):
        what = f"{key.replace(':', ' ', 1)} in {run}"
        first, again = seen.tensors.get(key), seen_again.tensors.get(key)
        if first is None and again is None:
            continue  # that it is missing is the value families' to say
        if first is None or again is None or (first.shape, first.dtype) != (again.shape, again.dtype):
            yield failed(NAME, what, "it is there in one run alone, or of another shape or dtype")
        else:
            yield worst_of(NAME, what, differing(first, again), first, again, first.numel())


def _repeating(eager: Observation, again: Observation) -> list[str]:
    """Keys under which the original gave the same bits twice."""
    return [
        key
        for key, value in eager.tensors.items()
        if key.partition(":")[0] in KINDS
        and key in again.tensors
        and (value.shape, value.dtype) == (again.tensors[key].shape, again.tensors[key].dtype)
        and not bool(differing(value, again.tensors[key]).any())
    ]


def _nudged(value: torch.Tensor) -> torch.Tensor:
    """The tensor with its first element moved by the smallest step of its dtype."""
    changed = value.detach().resolve_conj().resolve_neg().clone()
    real = torch.view_as_real(changed) if changed.is_complex() else changed
    first = real[(0,) * real.dim()]
    first.copy_(torch.nextafter(first, first + 1) if real.is_floating_point() else first + 1)
    return changed
