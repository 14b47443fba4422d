"""F16, determinism: the same inputs give the same bits, call after call, subject after subject, process after process.

Bits or a budget: the contract says it of each class of operators, and a result is held to the weakest that it is made
by. Asked only where the original itself repeats its bits, so that a step counter or a random number is not held against
anyone. Other numbers of threads may add in another order: there the oracle's budget decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.compared import agreements, differing, identical, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import cancelling, example
from tensorfarm.gate.observation import Observation, spoken
from tensorfarm.gate.planted import budget_of, copied, next_value, past_its_limit
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Call, Depth, Derivative, Session, Trial

NAME, FAMILY, LEVEL, COST = "determinism", "F16", Level.STANDARD, 40
REPEAT = "repeat"
WITHIN_BUDGET = "within_budget"
KINDS = ("output", "gradient")
PROCESSES = (Session("process:2"), Session("process:3"))
THREADS = (Session("threads:2", threads=2), Session("threads:4", threads=4))


def trials(setting: Setting) -> list[Trial]:
    """The example again; at the full level with terms that cancel, in two fresh processes, at two and four threads."""
    first, again = example.trial(setting), repeated(setting)
    if setting.level < Level.FULL:
        return [first, again]
    sessions = (MAIN, *PROCESSES, *THREADS) if setting.facts.isolated else (MAIN,)
    return [replace(first, sessions=sessions), again, *_cancelling(setting)]


def repeated(setting: Setting) -> Trial:
    """Two calls of one subject with the example's inputs, which with the example make three runs. The first starts the
    random stream elsewhere, and asks for gradients at the full level alone; the second is the example's again."""
    again = example.trial(setting).calls[0]
    elsewhere = replace(again, seed=setting.seed + 1)
    if setting.level < Level.FULL and again.derivative is not Derivative.NONE:
        elsewhere = replace(elsewhere, derivative=Derivative.GRAPH)
    return Trial(REPEAT, (elsewhere, again), Depth.EAGER)


def _cancelling(setting: Setting) -> list[Trial]:
    """Each set of inputs twice; that terms are added in another order shows only where it leaves other bits."""
    calls = [Call(inputs, Derivative.NONE, seed=setting.seed) for inputs in cancelling.inputs(setting)]
    return [Trial(cancelling.NAME, tuple(call for call in calls for _ in range(2)), Depth.EAGER)] if calls else []


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient of every run after the first."""
    found = [*_within_process(evidence), *_between_processes(evidence), *_terms_that_cancel(evidence)]
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
    """The last bit of one element of a repeated call; where no result is held to bits, one element past its limit."""
    wanted, given = evidence.expected.get(REPEAT, ()), evidence.ran(REPEAT)
    asked = [
        (number, key)
        for number in range(min(len(wanted), len(given)))
        for key in _repeating(evidence.expected[example.NAME][0].eager, wanted[number].eager)
        if key in given[number].tensors
    ]
    # What is held to bits comes first: its change is the smaller one.
    for number, key in sorted(asked, key=lambda item: not _held_to_bits(evidence, item[1])):
        seen = given[number].tensors[key]
        changed = _nudged(seen) if _held_to_bits(evidence, key) else _past_its_limit(evidence, key, seen)
        if changed is not None:
            tensors = {**given[number].tensors, key: changed}
            return evidence.with_seen(REPEAT, number, replace(given[number], tensors=tensors))
    return None


def _past_its_limit(evidence: Evidence, key: str, seen: torch.Tensor) -> torch.Tensor | None:
    expected = evidence.expected[example.NAME][0].expected(key)
    if expected is None or seen.shape != expected.exact.shape or seen.dtype != expected.eager.dtype:
        return None
    change = past_its_limit(evidence.setting.contract, key.partition(":")[0])
    return change(expected, seen)


def _held_to_bits(evidence: Evidence, key: str) -> bool:
    """Whether no class of operators that the original makes this with may vary from run to run."""
    declared = evidence.setting.contract.determinism
    made_by = evidence.expected[example.NAME][0].made_by.get(key, frozenset())
    return not any(declared[name] == WITHIN_BUDGET for name in made_by)


def _within_process(evidence: Evidence) -> Iterator[Finding]:
    """Each of the repeated calls with the example's call of a fresh subject."""
    trial = evidence.trials.get(REPEAT)
    if trial is None:
        return
    for number, wanted, given in evidence.pairs(REPEAT):
        for _, expected, seen in list(evidence.pairs(example.NAME))[:1]:
            for finding in _alike(evidence, (expected.eager, wanted.eager), (seen, given), f"run {number + 2}"):
                yield finding.at(trial)


def _terms_that_cancel(evidence: Evidence) -> Iterator[Finding]:
    calls = list(evidence.pairs(cancelling.NAME)) if cancelling.NAME in evidence.trials else []
    for (_, expected, seen), (_, wanted, given) in zip(calls[::2], calls[1::2], strict=False):
        for finding in _alike(evidence, (expected.eager, wanted.eager), (seen, given), "terms that cancel"):
            yield finding.at(evidence.trials[cancelling.NAME])


def _between_processes(evidence: Evidence) -> Iterator[Finding]:
    trial = evidence.trials[example.NAME]
    for session in PROCESSES:
        if session not in trial.sessions:
            continue
        for number, wanted, given in evidence.pairs(example.NAME, session.name):
            for seen in evidence.ran(example.NAME)[number : number + 1]:
                for finding in _alike(evidence, (wanted.eager, wanted.eager), (seen, given), session.name):
                    yield finding.at(trial, session)


def _alike(
    evidence: Evidence, eager: tuple[Observation, Observation], seen: tuple[Observation, Observation], run: str
) -> Iterator[Finding]:
    """Whether the second of what was seen is the first again, bit for bit or within the budget of the example."""
    if any(item.report.error for item in (*eager, *seen)):
        return
    for key in _repeating(*eager):
        what = f"{spoken(key)} in {run}"
        first, again = (item.tensors.get(key) for item in seen)
        if first is None and again is None:
            continue  # that it is missing is the value families' to say
        if first is None or again is None or (first.shape, first.dtype) != (again.shape, again.dtype):
            yield failed(NAME, what, "it is there in one run alone, or of another shape or dtype")
        elif _held_to_bits(evidence, key):
            yield worst_of(NAME, what, differing(first, again), first, again, first.numel())
        else:
            yield from _within_budget(evidence, key, what, eager[1], again)


def _within_budget(
    evidence: Evidence, key: str, what: str, eager: Observation, again: torch.Tensor
) -> Iterator[Finding]:
    """One run against the oracle, where it was given the example's inputs; what that leaves open forward has said."""
    contract, wanted = evidence.setting.contract, evidence.expected[example.NAME][0]
    expected, kind = wanted.expected(key), key.partition(":")[0]
    if expected is None or wanted.random or key not in _repeating(wanted.eager, eager):
        return
    budget, digits = budget_of(contract, kind), contract.digits_undecidable_below
    found = agreement(NAME, what, again, expected, budget, digits, subnormals=contract.subnormals)
    if found.status in (Status.FAIL, Status.PASS):
        yield found


def _repeating(eager: Observation, again: Observation) -> list[str]:
    """Keys under which the original gave the same bits twice."""
    return [
        key
        for key, value in eager.tensors.items()
        if key.partition(":")[0] in KINDS and identical(value, again.tensors.get(key))
    ]


def _nudged(value: torch.Tensor) -> torch.Tensor | None:
    """The tensor with one element that can be moved at the next number of its dtype; None of NaN and infinities."""
    changed = copied(value)
    real = torch.view_as_real(changed) if changed.is_complex() else changed
    moved = next_value(real, torch.ones_like(real, dtype=torch.bool))
    return None if moved is None else changed.copy_(torch.view_as_complex(moved) if changed.is_complex() else moved)
