"""Does a tensor agree with what is expected of it? The one comparison that forward, gradient and mutation share.

An element's limit is ``c * u * |y64| + k * sigma`` plus ``c`` times the smallest subnormal (once at least), u being the
roundoff of the tensor's own dtype: where numbers are subnormal, a rounding errs by that much whatever the size of what
it rounds. NaN and infinities must stand where they stand in the reference, with their sign, and are required only where
the eager original and the rounded float64 value say the same. A NaN is never within a limit.

Where the original itself is outside the limit, the noise knows too little of an operator: such an element decides
nothing, unless what was seen errs by ``EAGER_MARGIN`` times as much as the original. An infinite sigma is no limit at
all: a perturbed run was special there, and so may an honest subject be. Where no digit of the original is right it is
``lost``: something inside it overflowed, and in another order that may as well give NaN. Where such a one is ``FAR``
times the limit off, the original took another way than its oracle, and what is meant is in doubt.

Tensors are walked through in blocks that fit a core's cache: a comparison must not cost more than what it judges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tensorfarm.contract.numerics import Budget
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, failed

EAGER_MARGIN = 4.0
FAR = 16.0
BLOCK = 1 << 15
_NEXT_STEP = "try other example inputs, or lower digits_undecidable_below in the contract"
_NEXT_STEP_FAR = "call the original in float64 and see where it goes another way, or try other example inputs"


def agreement(
    check_name: str,
    what: str,
    seen: torch.Tensor | None,
    expected: Expected,
    budget: Budget,
    digits_below: float,
    scale: float = 0.0,
    *,
    subnormals: str = "preserve",
) -> Finding:
    """Compare one tensor, floating or not. Shape and dtype come first: nothing is broadcast, nothing is converted.

    Undecidable, never a pass, where more than half of the elements have a limit above ``10**-digits_below`` of the
    largest of their value, the tensor's root mean square and ``scale``: the size of what the tensor is a part of.
    Subnormals are not counted there: zeros are decided exactly. Where the contract lets ``subnormals`` be flushed, the
    smallest normal number stands for them.
    """
    other = mismatch(check_name, what, seen, expected)
    if other is not None or seen is None:
        return other or failed(check_name, what, "the subject gave none")
    seen, expected = as_real(seen.detach(), expected)
    if not seen.is_floating_point():
        return _bitwise(check_name, what, seen, expected)
    if not seen.numel():
        return Finding(check_name, what, Status.PASS)
    return _within(check_name, what, seen, expected, Rule(budget, seen.dtype, digits_below, scale, subnormals))


def mismatch(check_name: str, what: str, seen: torch.Tensor | None, expected: Expected) -> Finding | None:
    """The failure of a tensor that is absent, or of another shape or dtype; None where values can be compared."""
    if seen is None:
        return failed(check_name, what, "the subject gave none")
    if seen.shape == expected.exact.shape and seen.dtype == expected.eager.dtype:
        return None
    wanted = f"expected {expected.eager.dtype} of shape {list(expected.exact.shape)}"
    return failed(check_name, what, f"{wanted}, seen {seen.dtype} of shape {list(seen.shape)}")


def as_real(seen: torch.Tensor, expected: Expected) -> tuple[torch.Tensor, Expected]:
    """Complex tensors as pairs of real numbers, others as they are."""
    if not seen.is_complex():
        return seen, expected
    eager, exact = (torch.view_as_real(value.resolve_conj()) for value in (expected.eager, expected.exact))
    return torch.view_as_real(seen.resolve_conj()), Expected(eager, exact, expected.sigma)


def _bitwise(check_name: str, what: str, seen: torch.Tensor, expected: Expected) -> Finding:
    """Integers and booleans, required where the original gives the same in its own dtype, in float64 and under noise.

    They differ where an index or a step hangs on a near tie of rounded values.
    """
    required = expected.eager == expected.exact
    if expected.sigma is not None:
        required &= expected.sigma == 0
    bad = (seen != expected.eager) & required
    count, compared = int(bad.sum()), int(required.sum())
    where = index_of(int(bad.reshape(-1).to(torch.uint8).argmax()), bad.shape) if bad.numel() else ()
    wanted, found = (float(tensor[where]) if seen.numel() else 0.0 for tensor in (expected.eager, seen))
    status, message, next_step = Status.PASS, "", ""
    if count:
        status = Status.FAIL
        message = f"{place_of(what, where)}: expected {wanted:g}, seen {found:g} ({count} of {seen.numel()} elements)"
    elif seen.numel() and not compared:
        status, next_step = Status.UNDECIDABLE, _NEXT_STEP
        message = f"{what}: every element is another one after a rounding; {next_step}"
    return Finding(
        check_name,
        what,
        status,
        message,
        observed_over_limit=math.inf if count else 0.0,
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        n_elements=compared,
        n_bad=count,
        next_step=next_step,
    )


class Rule:
    """What makes an element's limit, and when a limit decides nothing."""

    def __init__(
        self,
        budget: Budget,
        dtype: torch.dtype,
        digits_below: float = 0.0,
        scale: float = 0.0,
        subnormals: str = "preserve",
    ) -> None:
        info = torch.finfo(dtype)
        self.relative = budget.c * info.eps / 2
        self.k = budget.k
        self.smallest = info.smallest_normal * (max(budget.c, 1.0) * info.eps if subnormals == "preserve" else 1.0)
        self.largest_limit = self.relative * info.max
        self.digits_below = digits_below
        self.scale = scale

    def limit(self, exact: torch.Tensor, sigma: torch.Tensor | None) -> torch.Tensor:
        found = exact.abs().mul_(self.relative)
        if sigma is not None and self.k:
            found.add_(sigma, alpha=self.k)
        return found.add_(self.smallest)

    def is_wide(self, limit: torch.Tensor, size: torch.Tensor | float) -> torch.Tensor:
        return limit - self.smallest > 10**-self.digits_below * size

    def lost(
        self, eager: torch.Tensor, exact: torch.Tensor, sigma: torch.Tensor | None, times: float = 1.0
    ) -> torch.Tensor:
        """Where the original is finite, ``times`` its limit off or more, and has no right digit."""
        error = _distance(eager, exact)
        return eager.isfinite() & (error > self.limit(exact, sigma) * times) & (error > exact.abs() / 2)


@dataclass
class _Tally:
    """What the blocks so far came to. ``worst`` is error over limit at ``at``, a flat position."""

    worst: float = -1.0
    at: int = 0
    limit: float = 0.0
    widest: float = 0.0
    n_bad: int = 0
    n_elements: int = 0
    n_ordinary: int = 0
    n_unknown: int = 0
    n_unlimited_special: int = 0
    n_far: int = 0
    far_at: int = 0

    def note(self, ratio: torch.Tensor, limit: torch.Tensor, start: int) -> None:
        """Count what is past its limit, and remember the worst."""
        worst, at = (part.item() for part in ratio.max(0))
        if not worst <= 1:
            ratio = torch.nan_to_num(ratio, nan=math.inf, posinf=math.inf)
            worst, at = (part.item() for part in ratio.max(0))
            self.n_bad += int((ratio > 1).sum())
        self.remember(worst, int(at), limit, start)

    def remember(self, worst: float, at: int, limit: torch.Tensor, start: int) -> None:
        if worst > self.worst:
            self.worst, self.at, self.limit = worst, start + at, limit[at].item()


@dataclass(frozen=True)
class _Block:
    seen: torch.Tensor
    eager: torch.Tensor
    exact: torch.Tensor
    sigma: torch.Tensor | None


def _blocks(seen: torch.Tensor, expected: Expected) -> list[_Block]:
    values = (seen, expected.eager.detach(), expected.exact)
    first, eager, exact = (value.reshape(-1).split(BLOCK) for value in values)
    sigma = [None] * len(first) if expected.sigma is None else expected.sigma.reshape(-1).split(BLOCK)
    return [_Block(*parts) for parts in zip(first, eager, exact, sigma, strict=True)]


def _within(check_name: str, what: str, seen: torch.Tensor, expected: Expected, rule: Rule) -> Finding:
    blocks, tally = _blocks(seen, expected), _Tally()
    for number, block in enumerate(blocks):
        if not _counted_as_ordinary(block, rule, tally, number * BLOCK):
            _counted_with_exceptions(block, rule, tally, number * BLOCK)
    where = index_of(tally.at, seen.shape)
    wanted, found, allowed = float(expected.exact[where]), float(seen[where]), tally.limit
    status, message, next_step = Status.PASS, "", ""
    if tally.n_bad:
        status = Status.FAIL
        message = (
            f"{place_of(what, where)}: expected {wanted:.9g}, seen {found:.9g}, off by {abs(found - wanted):.3g}, "
            f"{tally.worst:.3g} times the limit {allowed:.3g} ({tally.n_bad} of {seen.numel()} elements)"
        )
    elif tally.n_unlimited_special:
        status, next_step = Status.UNDECIDABLE, _NEXT_STEP
        message = f"{what}: NaN or an infinity where a rounding makes one of a finite value; {next_step}"
    elif _mostly_undecidable(blocks, rule, tally):
        status, next_step = Status.UNDECIDABLE, _NEXT_STEP
        message = (
            f"{what}: the limit is wider than 1e-{rule.digits_below:g} of the value, or narrower than the original's "
            f"own error, in more than half of its elements; {next_step}"
        )
    elif tally.n_far:
        status, next_step = Status.UNDECIDABLE, _NEXT_STEP_FAR
        far = index_of(tally.far_at, seen.shape)
        message = (
            f"{place_of(what, far)}: the original gives {float(expected.eager[far]):.9g} and its float64 value is "
            f"{float(expected.exact[far]):.9g}, over {FAR:g} times the limit away ({tally.n_far} of {seen.numel()} "
            f"elements); {next_step}"
        )
    return Finding(
        check_name,
        what,
        status,
        message,
        observed_over_limit=max(tally.worst, 0.0),
        digits=_digits(wanted, allowed),
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        limit_abs=allowed,
        n_elements=tally.n_elements,
        n_bad=tally.n_bad,
        next_step=next_step,
    )


def _distance(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return torch.sub(value, exact).abs_()


def _counted_as_ordinary(block: _Block, rule: Rule, tally: _Tally, start: int) -> bool:
    """The fast way, for a block that is finite and where the original is within its limits; False for any other."""
    limit = rule.limit(block.exact, block.sigma)
    widest = limit.max().item()
    # A value that its dtype cannot hold has a limit above this one, as a NaN or an infinity has.
    if not widest <= rule.largest_limit:
        return False
    ratios = torch.stack((block.seen, block.eager)).sub(block.exact).abs_().div_(limit)
    (worst, eager_worst), (at, _) = (part.tolist() for part in ratios.max(1))
    # A NaN or an infinity in the original makes a ratio that is neither.
    if not eager_worst <= 1:
        return False
    if worst <= 1:
        tally.remember(worst, at, limit, start)
    else:
        tally.note(ratios[0], limit, start)
    tally.widest = max(tally.widest, widest - rule.smallest)
    tally.n_elements += block.seen.numel()
    tally.n_ordinary += block.seen.numel()
    return True


def _counted_with_exceptions(block: _Block, rule: Rule, tally: _Tally, start: int) -> None:
    special, alike, unlimited, unknown, limit = _exceptions(block, rule)
    eager_error = _distance(block.eager, block.exact)
    limit = torch.where(unknown, EAGER_MARGIN * eager_error, limit)
    ratio = torch.nan_to_num(_distance(block.seen, block.exact).div_(limit), nan=math.inf, posinf=math.inf)
    rounded = block.exact.to(block.seen.dtype)
    ratio = torch.where(special, torch.where(~alike | same(block.seen, rounded), 0.0, math.inf), ratio)
    unlimited &= ~special
    far = unknown & ~unlimited & rule.lost(block.eager, block.exact, block.sigma, FAR)
    if bool(far.any()):
        tally.far_at = tally.far_at if tally.n_far else start + int(far.to(torch.uint8).argmax())
        tally.n_far += int(far.sum())
    unlimited |= unknown & ~block.seen.isfinite() & rule.lost(block.eager, block.exact, block.sigma)
    tally.n_unlimited_special += int((unlimited & ~block.seen.isfinite()).sum())
    tally.note(ratio.masked_fill_(unlimited, 0.0), limit, start)
    decided = torch.where(special, alike, ~unknown & ~unlimited)
    tally.n_elements += int(decided.sum())
    tally.n_ordinary += int((~special).sum())
    tally.n_unknown += int((unknown | unlimited).sum())
    tally.widest = math.inf


def _exceptions(block: _Block, rule: Rule) -> tuple[torch.Tensor, ...]:
    """Masks: special; special and required; without a limit; original outside its limit. And the limits."""
    limit = rule.limit(block.exact, block.sigma)
    rounded = block.exact.to(block.seen.dtype)
    special = ~rounded.isfinite() | ~block.eager.isfinite()
    unlimited = torch.zeros_like(special) if block.sigma is None else block.sigma.isinf()
    alike = special & same(rounded, block.eager) & ~unlimited
    unknown = ~(_distance(block.eager, block.exact) <= limit) & ~special
    return special, alike, unlimited, unknown, limit


def _mostly_undecidable(blocks: list[_Block], rule: Rule, tally: _Tally) -> bool:
    narrow = 10**-rule.digits_below
    if not tally.n_ordinary or tally.widest <= narrow * rule.scale:
        return False
    size = max(rule.scale, _ordinary_size(blocks, rule, tally))
    if tally.widest <= narrow * size:
        return False
    wide = 0
    for block in blocks:
        special, _, unlimited, unknown, limit = _exceptions(block, rule)
        undecided = unknown | unlimited | rule.is_wide(limit, block.exact.abs().clamp_min_(size))
        wide += int((undecided & ~special).sum())
    return wide * 2 > tally.n_ordinary


def _ordinary_size(blocks: list[_Block], rule: Rule, tally: _Tally) -> float:
    """The root mean square of the exact values that are not special."""
    squares = 0.0
    for block in blocks:
        values = block.exact if math.isfinite(tally.widest) else block.exact[~_exceptions(block, rule)[0]]
        squares += torch.dot(values, values).item()
    return math.sqrt(squares / tally.n_ordinary)


def root_mean_square(values: torch.Tensor) -> float:
    """Zero of no values."""
    if not values.numel():
        return 0.0
    return float(torch.linalg.vector_norm(values.reshape(-1))) / math.sqrt(values.numel())


def same(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def _digits(value: float, limit: float) -> float:
    if not limit or not math.isfinite(value):
        return math.inf
    return -math.log10(limit / abs(value)) if value and math.isfinite(limit) else -math.inf


def index_of(flat: int, shape: torch.Size) -> tuple[int, ...]:
    """By hand: ``torch.unravel_index`` imports sympy, which takes longer than most verdicts."""
    found: list[int] = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        found.append(position)
    return tuple(reversed(found))


def place_of(what: str, where: tuple[int, ...]) -> str:
    return f"{what}[{', '.join(map(str, where))}]" if where else what
