"""Does a tensor agree with what is expected of it? The one comparison that forward, gradient and mutation share.

An element's limit is ``c * u * |y64| + k * sigma`` plus the smallest subnormal, u being the roundoff of the tensor's
own dtype. NaN and infinities must stand where they stand in the reference, with their sign, and are required only where
the eager original and the rounded float64 value say the same. A NaN is never within a limit.

Where the original itself is outside the limit, the noise knows too little of an operator: such an element decides
nothing, unless what was seen errs by ``EAGER_MARGIN`` times as much as the original.
"""

from __future__ import annotations

import math

import torch

from tensorfarm.contract.numerics import Budget
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, failed

EAGER_MARGIN = 4.0
_NEXT_STEP = "try other example inputs, or lower digits_undecidable_below in the contract"


def agreement(
    check_name: str,
    what: str,
    seen: torch.Tensor | None,
    expected: Expected,
    budget: Budget,
    digits_below: float,
    scale: float = 0.0,
) -> Finding:
    """Compare one tensor, floating or not. Shape and dtype come first: nothing is broadcast, nothing is converted.

    Undecidable, never a pass, where more than half of the elements have a limit above ``10**-digits_below`` of the
    largest of their value, the tensor's root mean square and ``scale``: the size of what the tensor is a part of. The
    smallest subnormal is not counted there: zeros are decided exactly.
    """
    if seen is None:
        return failed(check_name, what, "the subject gave none")
    if seen.shape != expected.exact.shape or seen.dtype != expected.eager.dtype:
        return failed(
            check_name,
            what,
            f"expected {expected.eager.dtype} of shape {list(expected.exact.shape)}, "
            f"seen {seen.dtype} of shape {list(seen.shape)}",
        )
    if seen.is_complex():
        seen, expected = torch.view_as_real(seen.resolve_conj()), _as_real(expected)
    if not seen.is_floating_point():
        return _bitwise(check_name, what, seen, expected)
    return _within(check_name, what, seen.detach(), expected, budget, digits_below, scale)


def _as_real(expected: Expected) -> Expected:
    return Expected(
        torch.view_as_real(expected.eager.resolve_conj()),
        torch.view_as_real(expected.exact.resolve_conj()),
        expected.sigma,
    )


def _bitwise(check_name: str, what: str, seen: torch.Tensor, expected: Expected) -> Finding:
    """Integers and booleans, required where the original gives the same in its own dtype and in float64.

    They differ where an index hangs on a near tie of rounded values.
    """
    required = expected.eager == expected.exact
    bad = (seen != expected.eager) & required
    count = int(bad.sum())
    where = _first(bad)
    wanted, found = (float(tensor[where]) if seen.numel() else 0.0 for tensor in (expected.eager, seen))
    message = f"{_place(what, where)}: expected {wanted:g}, seen {found:g} ({count} of {seen.numel()} elements)"
    return Finding(
        check_name,
        what,
        Status.FAIL if count else Status.PASS,
        message if count else "",
        observed_over_limit=math.inf if count else 0.0,
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        n_elements=int(required.sum()),
        n_bad=count,
    )


def _within(
    check_name: str,
    what: str,
    seen: torch.Tensor,
    expected: Expected,
    budget: Budget,
    digits_below: float,
    scale: float,
) -> Finding:
    if not seen.numel():
        return Finding(check_name, what, Status.PASS)
    exact, info = expected.exact, torch.finfo(seen.dtype)
    rounded = exact.to(seen.dtype)
    sigma = torch.zeros_like(exact) if expected.sigma is None else expected.sigma
    earned = budget.c * (info.eps / 2) * exact.abs() + budget.k * sigma
    smallest = info.smallest_normal * info.eps
    special = ~rounded.isfinite() | ~expected.eager.isfinite()
    eager_error = (expected.eager.double() - exact).abs()
    unknown = (eager_error > earned + smallest) & ~special
    limit = torch.where(unknown, EAGER_MARGIN * eager_error, earned + smallest)
    ratio = torch.nan_to_num((seen.double() - exact).abs() / limit, nan=math.inf)
    alike = _same(rounded, expected.eager)
    ratio = torch.where(special, torch.where(~alike | _same(seen, rounded), 0.0, math.inf), ratio)

    bad = ~(ratio <= 1)
    count, compared = int(bad.sum()), int(((~special & ~unknown) | alike & special).sum())
    where = _index(int(ratio.argmax()), ratio.shape)
    wanted, found, allowed = float(exact[where]), float(seen[where]), float(limit[where])
    status, message = Status.PASS, ""
    if count:
        status = Status.FAIL
        message = (
            f"{_place(what, where)}: expected {wanted:.9g}, seen {found:.9g}, off by {abs(found - wanted):.3g}, "
            f"{float(ratio[where]):.3g} times the limit {allowed:.3g} ({count} of {seen.numel()} elements)"
        )
    elif _mostly_undecidable(exact, earned.masked_fill(unknown, math.inf), special, digits_below, scale):
        status = Status.UNDECIDABLE
        message = (
            f"{what}: the limit is wider than 1e-{digits_below:g} of the value, or narrower than the original's own "
            f"error, in more than half of its elements; {_NEXT_STEP}"
        )
    return Finding(
        check_name,
        what,
        status,
        message,
        observed_over_limit=float(ratio[where]),
        digits=_digits(wanted, allowed),
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        limit_abs=allowed,
        n_elements=compared,
        n_bad=count,
    )


def _mostly_undecidable(
    exact: torch.Tensor, limit: torch.Tensor, special: torch.Tensor, digits_below: float, scale: float
) -> bool:
    ordinary = ~special
    count = int(ordinary.sum())
    if not count:
        return False
    size = torch.clamp_min(exact.abs(), max(scale, root_mean_square(exact[ordinary])))
    return int(((limit > 10**-digits_below * size) & ordinary).sum()) * 2 > count


def root_mean_square(values: torch.Tensor) -> float:
    return float(values.abs().square().mean().sqrt()) if values.numel() else 0.0


def _same(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def _digits(value: float, limit: float) -> float:
    if not limit or not math.isfinite(value):
        return math.inf
    return -math.log10(limit / abs(value)) if value and math.isfinite(limit) else -math.inf


def _first(bad: torch.Tensor) -> tuple[int, ...]:
    return _index(int(bad.reshape(-1).to(torch.uint8).argmax()), bad.shape) if bad.numel() else ()


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(position) for position in torch.unravel_index(torch.tensor(flat), shape))


def _place(what: str, where: tuple[int, ...]) -> str:
    return f"{what}[{', '.join(map(str, where))}]" if where else what
