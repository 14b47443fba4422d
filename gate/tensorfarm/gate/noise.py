"""Monte-Carlo arithmetic: each operator of the float64 reference errs at random by what the program's dtype would err.

Every rounding result is multiplied by ``1 + u * N(0, 1)``; operands of reductions and contractions by
``1 + u * sqrt(ceil(log2 n)) * N(0, 1)``, n being the number of terms: the height of a blocked sum. Data movement is
exact. Where the contract has sums kept in a finer dtype than their terms, operands of ``ACCUMULATED`` err by that one's
roundoff, and what is added to them by its own. Backward operators pass through the same mode. A complex factor is
``1 + u * (N + iN)``: a part of a product errs by the size of the whole. Invariant: a factor is never zero, a real one
never negative.

Twelve samples: ``12 * (sigma seen / sigma)**2`` is chi-square with 12 degrees of freedom: sigma is seen at less
than half its size in 1 element of 224, and at less than a third in 1 of 14,000. An honest error of the noise's own size
is then past ten sigma seen as a Student's t is past 10: in 4 elements of 10 million (8 samples: 8 of a million; 4: 6 of
10,000). What rounding does spreads by about 0.4 of the noise, which leaves 1 in 10**11 (8: 7 in 10**9; 4: 2 in 10**5).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import torch

from tensorfarm.gate.operands import is_nowhere
from tensorfarm.gate.overflow import poison
from tensorfarm.gate.recorded import Recorded
from tensorfarm.gate.rounding import (
    ACCUMULATED,
    CONTRACTIONS,
    INNER,
    POWERS,
    QUOTIENTS,
    RESAMPLING,
    Rounding,
    fresh_of,
    functional_name_of,
    name_of,
    rounding_in,
    written_of,
)
from tensorfarm.gate.roundoff import dtype_of, largest_of, roundoff_of, smallest_of
from tensorfarm.gate.running_sums import is_running, spread
from tensorfarm.gate.widen import Widened

# Draws are slices of one pool at random places: fresh normal numbers for each operator would cost more than it does.
_POOL_BITS = 17
POOL_SIZE = 1 << _POOL_BITS
# Lanes of a vector, unrolled, times threads: as many partial sums as a long sum is honestly split into.
BLOCKS = 1 << 11
_WIDE = (torch.float64, torch.complex128)


class Noise:
    """Factors around one, cheap: ``perturb(tensor, height)`` errs in place by ``u * sqrt(height)``.

    ``has_steps`` is set for a program with operators whose results jump. ``recorded`` tells the roundoff of each
    operator of a program of several dtypes; ``roundoff`` is the coarsest, and holds where the record ends or another
    operator comes than it has.
    """

    def __init__(
        self,
        roundoff: float,
        seed: int,
        recorded: Recorded | None = None,
        accumulate: Mapping[str, str] | None = None,
        *,
        running_products: bool = False,
    ) -> None:
        normal = torch.randn(POOL_SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        # Twice over, so that a slice may start anywhere; bounded, so that no factor changes a sign.
        self._normal = torch.cat([normal, normal]).clamp_(-6, 6)
        self.roundoff = roundoff
        self.recorded = recorded
        self.running_products = running_products
        finer = {name: kept for name, kept in (accumulate or {}).items() if name != "default"}
        self._kept = {_roundoff_named(name): _roundoff_named(kept) for name, kept in finer.items()}
        self._random = random.Random(seed)
        self._factors: dict[float, torch.Tensor] = {}
        self._amplification = 1.0
        self._zero: float | None = None
        self.overflows = False
        self.has_steps = False

    def restart(
        self, seed: int, amplification: float = 1.0, zero: float | None = None, *, overflows: bool = False
    ) -> None:
        """Begin another run with draws of its own. ``amplification`` makes them larger, below zero of opposite sign.

        ``zero`` is what sums give that come to nothing, of either sign; None leaves them as they are. ``overflows``:
        sums that overflow in some order of their terms give NaN.
        """
        self._random = random.Random(seed)
        self._zero = zero
        self.overflows = overflows
        if amplification != self._amplification:
            self._factors.clear()
            self._amplification = amplification

    def perturb(self, value: Any, height: int, roundoff: float | None = None) -> None:
        """Multiply a float64 tensor, or those in a list, in place."""
        if self.is_quiet:
            return
        if isinstance(value, torch.Tensor):
            if value.dtype in _WIDE and value.numel():
                self._multiply(value, self._factors_of(height, roundoff))
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.perturb(item, height, roundoff)

    def perturb_rounded(self, value: torch.Tensor, roundoff: float | None = None) -> None:
        """Multiply a product where it is no number of the program's dtype. An exact one is the same in every program:
        what hangs on it, a tie to be rounded, is decided."""
        if value.dtype is not torch.float64 or is_nowhere(value):
            return self.perturb(value, 1, roundoff)
        rounded = value.to(dtype_of(self.roundoff if roundoff is None else roundoff))
        value.copy_(torch.where(rounded == value, value, self.perturbed(value, 1, roundoff)))

    def perturbed(self, value: Any, height: int, roundoff: float | None = None) -> Any:
        """A floating tensor's perturbed copy in float64; anything else as it is, and everything in a quiet run."""
        if self.is_quiet or not isinstance(value, torch.Tensor):
            return value
        if not (value.is_floating_point() or value.is_complex()):
            return value
        if value.dtype is torch.float64 and value.numel():
            factors = self._factors_of(height, roundoff)
            if value.numel() <= POOL_SIZE:
                return torch.mul(value, self._drawn(factors, value))
            if _is_dense(value):
                made = torch.empty_like(value)
                for part, place in zip(_parts(value), _parts(made), strict=True):
                    torch.mul(part, self._drawn(factors, part), out=place)
                return made
        copied = value.to(torch.complex128 if value.is_complex() else torch.float64, copy=True)
        self.perturb(copied, height, roundoff)
        return copied

    def of_terms(self, func: Any, roundoff: float | None) -> float | None:
        """The roundoff of the dtype that an operator keeps its sums in, where it is finer than its own; else None."""
        kept = self.kept(roundoff)
        own = self.roundoff if roundoff is None else roundoff
        return kept if kept < own and name_of(func) in ACCUMULATED else None

    def kept(self, roundoff: float | None) -> float:
        """The roundoff of the dtype that sums are kept in whose terms have this one."""
        own = self.roundoff if roundoff is None else roundoff
        return self._kept.get(own, own)

    def add_running(self, value: torch.Tensor, spread: torch.Tensor, roundoff: float | None) -> None:
        """What a sum errs by that is added one after the other; ``spread`` is in units of the roundoff of its dtype."""
        kept = self.kept(roundoff)
        erring = self.perturbed(spread, 1, kept) - spread
        value.add_(torch.complex(erring, self.perturbed(spread, 1, kept) - spread) if value.is_complex() else erring)

    def turn_zeros(self, value: Any) -> None:
        """Make every zero among a sum's results the run's: its sign hangs on the order of the terms."""
        if self._zero is None:
            return
        if isinstance(value, (tuple, list)):
            for item in value:
                self.turn_zeros(item)
        elif isinstance(value, torch.Tensor) and value.dtype is torch.float64:
            value.masked_fill_(value == 0, self._zero)

    @property
    def is_quiet(self) -> bool:
        """Nothing errs in this run but what hangs on how a program is written down: zeros, infinities, quotients."""
        return self._amplification == 0.0

    def shift(self, value: Any, roundoff: float | None = None) -> None:
        """Move what may as well be a product with a rounded reciprocal, by the two roundings of that."""
        if isinstance(value, torch.Tensor) and value.dtype in _WIDE and not is_nowhere(value):
            value.mul_(1 + 2 * (self.roundoff if roundoff is None else roundoff))

    def blur_subnormals(self, value: Any, roundoff: float | None = None) -> None:
        """Add what a subnormal number errs by: half of the smallest one, whatever its own size."""
        if self.is_quiet:
            return
        if isinstance(value, (tuple, list)):
            for item in value:
                self.blur_subnormals(item, roundoff)
        elif isinstance(value, torch.Tensor) and value.dtype is torch.float64 and value.numel():
            normal = smallest_of(self.roundoff if roundoff is None else roundoff)
            if float(value.amin()) >= normal:
                return  # what powers give is seldom negative, and one look for all of it is cheaper than three
            below = (value.abs() < normal) & (value != 0)
            if bool(below.any()):
                erring = torch.where(below, normal, 0.0)
                self.perturb(erring, 1, roundoff)
                value.add_(erring.sub_(torch.where(below, normal, 0.0)))

    def _multiply(self, value: torch.Tensor, factors: torch.Tensor) -> None:
        if value._is_zerotensor():
            return  # a tangent that autograd knows to be zero, and that nothing may write to
        if value.numel() <= POOL_SIZE:
            drawn = self._drawn(factors, value)
            if value.is_complex():
                drawn = torch.complex(drawn, self._drawn(factors, value) - 1)
            value.mul_(drawn)
        else:
            for part in _parts(value):
                self._multiply(part, factors)

    def _factors_of(self, height: int, roundoff: float | None) -> torch.Tensor:
        size = (self.roundoff if roundoff is None else roundoff) * math.sqrt(height)
        if size not in self._factors:
            # Coarse dtypes would lose the sign where the noise is amplified.
            self._factors[size] = (self._normal * (size * self._amplification)).clamp_(-0.75, 0.75) + 1
        return self._factors[size]

    def _drawn(self, factors: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Factors in the order that ``like`` lies in memory."""
        start, shape = self._random.getrandbits(_POOL_BITS), like.shape
        if _is_dense(like):
            return factors.as_strided(shape, like.stride(), start)
        return factors[start : start + like.numel()].view(shape)


def _roundoff_named(name: str) -> float:
    return roundoff_of(getattr(torch, name))


def _is_dense(value: torch.Tensor) -> bool:
    """No gap and no element twice, in whatever order of dimensions."""
    if value.is_contiguous():
        return True
    sides = list(zip(value.shape, value.stride(), strict=True))
    if any(not stride for size, stride in sides if size > 1):
        return False
    return sum((size - 1) * stride for size, stride in sides) + 1 == value.numel()


def _parts(value: torch.Tensor) -> Any:
    """Views that cover a tensor larger than the pool."""
    if _is_dense(value):
        return value.as_strided((value.numel(),), (1,)).split(POOL_SIZE)
    return value.unbind(0) if value.dim() > 1 else value.split(POOL_SIZE)


class Perturbed(Widened):
    """The widened reference with noise in every operator. One is entered for each run."""

    def __init__(self, noise: Noise) -> None:
        super().__init__()
        self.noise = noise
        self._replay = None if noise.recorded is None else noise.recorded.replay()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = rounding_in(func, args)
        kwargs = kwargs or {}
        if kind is Rounding.EXACT:
            return self.wide(func, args, kwargs)
        roundoff, largest = None, largest_of(self.noise.roundoff)
        if self._replay is not None:
            step = self._replay.step(func)
            if step is not None:
                roundoff, largest = step.roundoff, step.largest
                args = self._with_casts(args, step.cast)
        if kind is Rounding.REDUCES or kwargs.get("alpha", 1) != 1:
            args = self._operands(func, args, _height(func, args) if kind is Rounding.REDUCES else 1, roundoff)
        result = self.wide(func, args, kwargs)
        made, plain = _made(func, args, kwargs, result), functional_name_of(func)
        # What was written to is no operand any more.
        if self.noise.overflows and kind is Rounding.REDUCES and made is result:
            poison(func, args, lambda operands: self.wide(func, operands, kwargs), made, largest)
        if kind is Rounding.REDUCES:
            self._run_on(func, args, kwargs, made, roundoff)
        if plain in POWERS:
            self.noise.blur_subnormals(made, roundoff)
        if self.noise.has_steps and name_of(func) == "mul" and isinstance(made, torch.Tensor):
            self.noise.perturb_rounded(made, roundoff)
        else:
            self.noise.perturb(made, 1, roundoff)
        if self.noise.is_quiet and plain in QUOTIENTS:
            self.noise.shift(made, roundoff)
        if kind is Rounding.REDUCES:
            self.noise.turn_zeros(made)
        return result

    def _run_on(self, func: Any, args: Any, kwargs: dict[str, Any], made: Any, roundoff: float | None) -> None:
        """Let a result err as one that is added term after term, where it may be."""
        total = made[0] if isinstance(made, list) else made
        if self.noise.is_quiet or not is_running(func, args, products=self.noise.running_products):
            return
        if isinstance(total, torch.Tensor) and total.numel() and (total.is_floating_point() or total.is_complex()):
            size = spread(func, args, kwargs, lambda operands, told: self.wide(func, operands, dict(told)), total)
            self.noise.add_running(total, size, roundoff)

    def _operands(self, func: Any, args: Any, height: int, roundoff: float | None) -> list[Any]:
        """Copies that err before the operator does. What it writes to is left alone; what is added to a sum errs once,
        and the terms of one that is kept in a finer dtype by that one's roundoff."""
        kept = self.noise.of_terms(func, roundoff)
        added, terms = (-1, roundoff) if kept is None else (ACCUMULATED[name_of(func)], kept)
        positions, _ = written_of(func)
        found: list[Any] = []
        for place, value in enumerate(args):
            if place in positions:
                found.append(value)
            elif place == added:
                found.append(self.noise.perturbed(value, 1, roundoff))
            else:
                found.append(self.noise.perturbed(value, height, terms))
        return found

    def _with_casts(self, args: Any, cast: tuple[tuple[int, float], ...]) -> Any:
        """Operands that the original had rounded to a narrower dtype just before, rounded."""
        if not cast:
            return args
        changed = list(args)
        for position, roundoff in cast:
            changed[position] = self.noise.perturbed(changed[position], 1, roundoff)
        return changed


def _made(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> Any:
    """All that an operator gave: its very result, or where it writes, what it wrote to and its results beside."""
    positions, names = written_of(func)
    if not positions and not names:
        return result
    results = result if isinstance(result, (tuple, list)) else (result,)
    found = [args[place] for place in positions if place < len(args)]
    found += [kwargs[name] for name in names if name in kwargs]
    return found + ([results[place] for place in fresh_of(func)] if result is not None else [])


def _height(func: Any, args: Any) -> int:
    """ceil(log2 n) of the number of terms in one result, at least 1, and more for a sum of very many terms.

    Resampling rounds the places that it reads at, twice or so by ``u`` times a side's length: a third is the spread.
    """
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    name = functional_name_of(func)
    if name in INNER or not tensors:
        return 1
    if name in CONTRACTIONS:
        terms = tensors[-1].shape[-2] if tensors[-1].dim() > 1 else tensors[-1].shape[-1]
    elif name == "convolution":
        terms = tensors[1].numel() // max(tensors[1].shape[0], 1)
    elif name.lstrip("_").startswith(RESAMPLING) and "nearest" not in name:
        return max(9, max(side for value in tensors for side in value.shape[2:]) ** 2 // 8)
    else:
        terms = max(value.numel() for value in tensors)
    return max(1, math.ceil(math.log2(max(terms, 2)))) + _summed_one_by_one(name, args, terms) // 6


def _summed_one_by_one(name: str, args: Any, terms: int) -> int:
    """How many terms of a long sum are added one by one, where it is split into no more than ``BLOCKS``.

    The roundings of ``b`` such terms have the spread of ``b / 6`` on each of them.
    """
    if name not in ("sum", "mean", "var", "var_mean", "std"):
        return 0
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    if dims:
        terms = math.prod(args[0].shape[dim] for dim in dims)
    return terms // BLOCKS
