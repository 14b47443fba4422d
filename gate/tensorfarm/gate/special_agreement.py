"""What a comparison of values cannot see: where NaN, infinities, subnormals and zeros of either sign must stand.

``-0.0 == 0.0``, and a flushed subnormal is within most tolerances. Invariant: a special value is required only where
the eager original and the rounded oracle agree on it, and no rounding inside the program changes it; a finite one only
where the original has a digit of it right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from tensorfarm.contract.numerics import Budget, NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import Rule, as_real, index_of, mismatch, place_of, same
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, failed, passed

_NONE = Budget(0.0, 0.0)
_PART = 1 << 14  # elements, whose parts of all four tensors fit a core's cache


def special_agreement(
    check_name: str,
    what: str,
    seen: torch.Tensor | None,
    expected: Expected,
    contract: NumericalContract,
    budget: Budget = _NONE,
) -> Finding:
    """Compare the special values of one floating tensor, as far as ``contract`` asks for them.

    ``n_elements`` counts what was required: zero where nothing in the tensor is special. ``budget`` is what a
    subnormal's limit is made of.
    """
    other = mismatch(check_name, what, seen, expected)
    if other is not None or seen is None:
        return other or failed(check_name, what, "the subject gave none")
    seen, expected = as_real(seen.detach(), expected)
    if not seen.is_floating_point():
        return passed(check_name, what)
    count = number = 0
    first: int | None = None
    wrong = dict[str, None]()
    for start, part, wanted in _special_parts(seen, expected):
        bad = torch.zeros_like(part, dtype=torch.bool)
        for name, (required, broken) in _rules(part, wanted, contract, budget).items():
            count += int(required.sum())
            broken &= required
            if bool(broken.any()):
                wrong[name] = None
                bad |= broken
        found = int(bad.sum())
        if found and first is None:
            first = start + int(bad.to(torch.uint8).argmax())
        number += found
    if first is None:
        return Finding(check_name, what, Status.PASS, n_elements=count)
    where = index_of(first, seen.shape)
    right, given = float(expected.eager[where]), float(seen[where])
    message = (
        f"{place_of(what, where)}: expected {right:.9g}, seen {given:.9g}: {', '.join(wrong)} "
        f"({number} of {count} special elements)"
    )
    return Finding(
        check_name,
        what,
        Status.FAIL,
        message,
        observed_over_limit=math.inf,
        worst_index=where,
        worst_expected=right,
        worst_seen=given,
        n_elements=count,
        n_bad=number,
    )


def _special_parts(seen: torch.Tensor, expected: Expected) -> Iterator[tuple[int, torch.Tensor, Expected]]:
    """Where each part begins and what is in it, of those that hold anything special: few do, and most hold nothing."""
    flat, eager, exact = seen.reshape(-1), expected.eager.reshape(-1), expected.exact.reshape(-1)
    sigma = None if expected.sigma is None else expected.sigma.reshape(-1)
    for start in range(0, flat.numel(), _PART):
        at = slice(start, start + _PART)
        if not all(map(_is_ordinary, (flat[at], eager[at], exact[at].to(seen.dtype)))):
            wanted = replace(expected, eager=eager[at], exact=exact[at], sigma=None if sigma is None else sigma[at])
            yield start, flat[at], wanted


def _rules(
    seen: torch.Tensor, expected: Expected, contract: NumericalContract, budget: Budget
) -> Mapping[str, tuple[torch.Tensor, torch.Tensor]]:
    """By what is wrong: where the rule holds, and where it is broken."""
    eager, exact, sigma = expected.eager, expected.exact, expected.sigma
    rounded = exact.to(seen.dtype)
    stable = torch.ones_like(seen, dtype=torch.bool) if sigma is None else ~sigma.isinf()
    alike = stable & same(eager, rounded)
    rule = Rule(budget, seen.dtype)
    ordinary = stable & eager.isfinite() & rounded.isfinite() & ~rule.lost(eager, exact, sigma)
    rules: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    if contract.nan_positions:
        rules["a NaN was lost"] = (alike & rounded.isnan(), ~seen.isnan())
        rules["a NaN was made"] = (ordinary & seen.isnan(), seen.isnan())
    if contract.inf_positions:
        rules["an infinity was lost"] = (alike & rounded.isinf(), seen != rounded)
        rules["an infinity was made"] = (ordinary & seen.isinf(), seen.isinf())
    if contract.signed_zero == "exact":
        zero = (eager == 0) & (rounded == 0) & (eager.signbit() == rounded.signbit())
        zero = zero if sigma is None else zero & (sigma == 0)
        rules["a zero of the other sign"] = (zero, (seen == 0) & (seen.signbit() != eager.signbit()))
    if contract.subnormals == "preserve":
        small = rounded.abs() < torch.finfo(seen.dtype).smallest_normal
        small &= (exact.abs() > rule.limit(exact, sigma)) & (eager != 0)
        rules["a subnormal was flushed to zero"] = (small, seen == 0)
    return rules


def _is_ordinary(value: torch.Tensor) -> bool:
    """No element that a rule is about; a NaN is neither small nor large."""
    least, most = torch.aminmax(value.abs())
    return float(least) >= torch.finfo(value.dtype).smallest_normal and float(most) < math.inf
