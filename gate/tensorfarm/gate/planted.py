"""The smallest changes that a value family must still see, planted in what the subject gave: the canaries' faults.

Pure: each gives new evidence, or None where there is no element that the change could be made in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from tensorfarm.contract.numerics import Budget, NumericalContract
from tensorfarm.gate.agreement import BLOCK, Rule, as_real, index_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.trial import MAIN, Session

TIMES = 1.5

# Gives the tensor with the fault in it, from what is expected of it and what came; None where it cannot.
Change = Callable[[Expected, torch.Tensor], "torch.Tensor | None"]


def planted(
    evidence: Evidence, names: Iterable[str], kinds: Sequence[str], change: Change, session: Session = MAIN
) -> Evidence | None:
    """The evidence with the first change that is possible, in any tensor of ``kinds`` of any call of the trials."""
    for name in names:
        for number, wanted, given in evidence.pairs(name, session.name):
            if wanted.eager.report.error or given.report.error or wanted.random:
                continue
            for kind in kinds:
                for position, expected in wanted.all_expected(kind):
                    key = f"{kind}:{position}"
                    seen = given.tensors.get(key)
                    if seen is None or seen.shape != expected.exact.shape or seen.dtype != expected.eager.dtype:
                        continue
                    changed = change(expected, seen)
                    if changed is not None:
                        return with_tensor(evidence, name, number, key, changed, session)
    return None


def past_its_limit(contract: NumericalContract, kind: str = "output") -> Change:
    """The largest element that is decidable, moved to ``TIMES`` its limit away from its exact value."""

    def change(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
        if not (seen.is_floating_point() or seen.is_complex()):
            return None
        changed = copied(seen)
        place, plain = as_real(changed, expected)
        if not place.numel():
            return None
        rule = Rule(budget_of(contract, kind), place.dtype, subnormals=contract.subnormals)
        return changed if any(_moved(part, told, rule) for part, told in _searched(place, plain)) else None

    return change


def _searched(place: torch.Tensor, plain: Expected) -> Iterator[tuple[torch.Tensor, Expected]]:
    """The first block alone where there are more: one element is wanted, and there may be a billion."""
    if place.numel() > BLOCK and place.is_contiguous():
        sigma = None if plain.sigma is None else plain.sigma.reshape(-1)[:BLOCK]
        first = Expected(plain.eager.reshape(-1)[:BLOCK], plain.exact.reshape(-1)[:BLOCK], sigma)
        yield place.view(-1)[:BLOCK], first
    yield place, plain


def _moved(place: torch.Tensor, plain: Expected, rule: Rule) -> bool:
    """Move the largest element of ``place`` that is decidable; False where there is none."""
    exact, limit = plain.exact, rule.limit(plain.exact, plain.sigma)
    moved = (exact + TIMES * limit).to(place.dtype)
    decidable = moved.isfinite() & plain.eager.isfinite() & ((plain.eager - exact).abs() <= limit)
    if not bool(decidable.any()):
        return False
    at = _index(torch.where(decidable, exact.abs(), -1.0))
    value = moved[at]
    while abs(float(value) - float(exact[at])) <= float(limit[at]):
        value = torch.nextafter(value, torch.full_like(value, math.inf))
    place[at] = value
    return bool(value.isfinite())


def budget_of(contract: NumericalContract, kind: str) -> Budget:
    """Derivatives of every kind have the gradients' budget."""
    return contract.outputs if kind == "output" else contract.gradients


def integer_step(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
    """One integer one larger, or one boolean turned, where it is required."""
    if seen.is_floating_point() or seen.is_complex():
        return None
    required = expected.eager == expected.exact
    if expected.sigma is not None:
        required &= expected.sigma == 0
    if not bool(required.any()):
        return None
    changed, at = copied(seen), _index(required.double())
    value = expected.eager[at]
    changed[at] = ~value if value.dtype is torch.bool else value + 1
    return changed


def turned_zero(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
    """One zero with the other sign, where the sign is required."""
    if not seen.is_floating_point():
        return None
    exact = expected.exact
    zero = (expected.eager == 0) & (exact == 0) & (expected.eager.signbit() == exact.signbit())
    if expected.sigma is not None:
        zero &= expected.sigma == 0
    return _with(seen, zero, -expected.eager)


def lost_special(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
    """One NaN or infinity that became 1, where it is required."""
    if not seen.is_floating_point():
        return None
    rounded = expected.exact.to(seen.dtype)
    alike = (rounded == expected.eager) | (rounded.isnan() & expected.eager.isnan())
    return _with(seen, ~rounded.isfinite() & alike, torch.ones_like(seen))


def made_nan(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
    """One finite element that became NaN."""
    if not seen.is_floating_point():
        return None
    ordinary = expected.exact.to(seen.dtype).isfinite() & expected.eager.isfinite()
    return _with(seen, ordinary, torch.full_like(seen, math.nan))


def next_value(seen: torch.Tensor | None, where: torch.Tensor) -> torch.Tensor | None:
    """One element of those that ``where`` marks, moved to its neighbour; a boolean is turned."""
    if seen is None or seen.shape != where.shape or seen.is_complex():
        return None
    if seen.dtype is torch.bool:
        return _with(seen, where, ~seen)
    if not seen.is_floating_point():
        return _with(seen, where, seen + 1)
    neighbour = torch.nextafter(seen.detach(), torch.full_like(seen, math.inf))
    return _with(seen, where & seen.isfinite() & neighbour.isfinite(), neighbour)


def with_tensor(
    evidence: Evidence, name: str, number: int, key: str, value: torch.Tensor, session: Session = MAIN
) -> Evidence:
    """The evidence with one tensor of one call replaced."""
    given = evidence.ran(name, session.name)[number]
    changed = replace(given, tensors={**given.tensors, key: value})
    return evidence.with_seen(name, number, changed, session.name)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Values alone, no two elements in one place."""
    return tensor.detach().resolve_conj().resolve_neg().clone()


def _with(seen: torch.Tensor, eligible: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
    if not bool(eligible.any()):
        return None
    changed, at = copied(seen), _index(eligible.double())
    changed[at] = values[at]
    return changed


def _index(weights: torch.Tensor) -> tuple[int, ...]:
    return index_of(int(weights.argmax()), weights.shape)
