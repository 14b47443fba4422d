"""What a comparison of values cannot see: where NaN, infinities, subnormals and zeros of either sign must stand.

``-0.0 == 0.0``, and a flushed subnormal is within most tolerances. Invariant: a special value is required only where
the eager original and the rounded oracle agree on it, and no rounding inside the program changes it; a finite one only
where the original has a digit of it right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from tensorfarm.contract.numerics import Budget, NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import Rule, as_real, index_of, mismatch, place_of, same
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, failed, passed

_NONE = Budget(0.0, 0.0)


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
    if all(map(_is_ordinary, (seen, expected.eager, expected.exact.to(seen.dtype)))):
        return Finding(check_name, what, Status.PASS)
    count, bad = 0, torch.zeros_like(seen, dtype=torch.bool)
    wrong: list[str] = []
    for name, (required, broken) in _rules(seen, expected, contract, budget).items():
        count += int(required.sum())
        broken &= required
        if bool(broken.any()):
            wrong.append(name)
            bad |= broken
    if not wrong:
        return Finding(check_name, what, Status.PASS, n_elements=count)
    where = index_of(int(bad.reshape(-1).to(torch.uint8).argmax()), bad.shape)
    wanted, found, number = float(expected.eager[where]), float(seen[where]), int(bad.sum())
    message = (
        f"{place_of(what, where)}: expected {wanted:.9g}, seen {found:.9g}: {', '.join(wrong)} "
        f"({number} of {count} special elements)"
    )
    return Finding(
        check_name,
        what,
        Status.FAIL,
        message,
        observed_over_limit=math.inf,
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        n_elements=count,
        n_bad=number,
    )


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
    if not value.numel():
        return True
    least, most = torch.aminmax(value.abs())
    return float(least) >= torch.finfo(value.dtype).smallest_normal and float(most) < math.inf
