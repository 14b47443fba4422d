"""F4, exact integers: where every order of summation gives the same bits, no tolerance is needed at all.

A sum that was accumulated in bfloat16, or a product of truncated operands, is far within a budget that has to allow for
reordering, and is wrong in plain sight on integers. An element is required bit for bit where the original and the
float64 oracle give the same number although nothing was rounded to make it so. That is taken as shown where

- the number is neither 0 nor ±1, which saturated activations and masks give of inexact operands too;
- it is another one than on the example's inputs: a sum of probabilities is its constant on any input, by luck of
  rounding in some of them;
- at least half of the tensor's other elements are so too: luck alone makes few.

A quotient may be computed as a product with a reciprocal, which rounds where the quotient does not: what is made of one
has the few roundings of that for a limit.

Programs with weights that are no integers leave little to compare here, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch

from tensorfarm.contract.numerics import Budget
from tensorfarm.gate.agreement import Rule, mismatch
from tensorfarm.gate.compared import Place, is_floating, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import exact_integers, example
from tensorfarm.gate.planted import next_value, past_its_limit, with_tensor
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Trial

NAME = "exact_integers"
FAMILY = "F4"
LEVEL = Level.QUICK
COST = 20

_MOSTLY = 0.5
_SAME = 1e-6


@dataclass(frozen=True)
class _Required:
    """Where an output has to be equal bit by bit, and what it has to be."""

    name: str
    expected: Expected
    where: torch.Tensor


def trials(setting: Setting) -> list[Trial]:
    """With the example, whose outputs tell what hangs on the inputs."""
    return [example.trial(setting), *exact_integers.trials(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each floating output that has an exact element."""

    def compare(place: Place) -> Iterable[Finding]:
        return exactly(evidence, NAME, place)

    done = walk(evidence, NAME, _names(evidence), compare)
    if not done.found and done.asked > done.silent:
        reason = (
            f"{NAME}: the program rounds on integers too; no output is exact, so none is compared without tolerance"
        )
        return [inapplicable(NAME, reason)]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    for name in _names(evidence):
        for number, wanted, given in evidence.pairs(name):
            for required in _required(evidence, wanted):
                key = f"output:{required.name}"
                changed = _moved(evidence, required, given.tensors.get(key))
                if changed is not None:
                    return with_tensor(evidence, name, number, key, changed)
    return None


def exactly(evidence: Evidence, check_name: str, place: Place) -> Iterator[Finding]:
    """One finding for each output of a call that has elements which are required bit for bit."""
    for required in _required(evidence, place.wanted):
        what = place.what("output", required.name)
        seen = place.given.tensors.get(f"output:{required.name}")
        yield _finding(check_name, what, required, seen, evidence.setting.contract.outputs)


def _names(evidence: Evidence) -> list[str]:
    return exact_integers.names(evidence.setting)


def _finding(check_name: str, what: str, required: _Required, seen: torch.Tensor | None, budget: Budget) -> Finding:
    other = mismatch(check_name, what, seen, required.expected)
    if other is not None or seen is None:
        return other or failed(check_name, what, "the subject gave none")
    eager, where = required.expected.eager, required.where
    bad = (seen != eager) & where
    limit = _limit(required.expected, budget)
    if limit is not None:
        bad &= ~((seen.double() - required.expected.exact).abs() <= limit)
    return worst_of(check_name, what, bad, eager, seen, int(where.sum()))


def _limit(expected: Expected, budget: Budget) -> torch.Tensor | None:
    """Zero but for what a quotient went into; None where nothing did."""
    sigma = expected.sigma
    if sigma is None or expected.eager.is_complex() or not bool((sigma > 0).any()):
        return None
    return torch.where(sigma > 0, Rule(budget, expected.eager.dtype).limit(expected.exact, sigma), 0.0)


def _moved(evidence: Evidence, required: _Required, seen: torch.Tensor | None) -> torch.Tensor | None:
    """The smallest change that must be seen: a neighbour, or one past the limit of a quotient."""
    contract, expected = evidence.setting.contract, required.expected
    limit = _limit(expected, contract.outputs)
    if limit is None or seen is None or seen.shape != limit.shape:
        return next_value(seen, required.where)
    changed = next_value(seen, required.where & (limit == 0))
    other = replace(expected, eager=expected.eager.masked_fill(~required.where, torch.nan))
    return past_its_limit(contract)(other, seen) if changed is None else changed


def _required(evidence: Evidence, wanted: Expectation) -> Iterator[_Required]:
    usual = next((expectation for _, expectation, _ in evidence.pairs(example.NAME)), None)
    for name, expected in wanted.all_expected("output"):
        if not is_floating(expected) or not expected.eager.numel():
            continue
        other = None if usual is None else usual.exact.get(f"output:{name}")
        where = _exact(expected, other)
        if bool(where.any()):
            yield _Required(name, expected, where)


def _exact(expected: Expected, other: torch.Tensor | None) -> torch.Tensor:
    exact = expected.exact
    telling = exact.isfinite() & (exact != 0) & (exact.abs() != 1)
    if other is not None and other.shape == exact.shape:
        telling &= ~((other - exact).abs() <= _SAME * exact.abs())
    same = telling & (expected.eager.to(exact.dtype) == exact)
    if int(same.sum()) < _MOSTLY * int(telling.sum()):
        return torch.zeros_like(same)
    return same
