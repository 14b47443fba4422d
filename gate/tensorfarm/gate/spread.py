"""How far the perturbed runs lie from the exact one, element by element: sigma.

Rounding moves a smooth program's values little by little, and a few samples tell by how much. A value that hangs on a
step (``floor``, a comparison, an index) stays where it is in most of them and then jumps: honest subjects that round on
the other side were refused for it. Runs with larger noise, in pairs of opposite signs, find the elements that a step is
near. Invariant: sigma is zero only where no perturbed run gave anything else, not even a zero of the other sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

# Ten times the noise: where a subject's own error of some sigma passes a step, such a run passes it as often as not.
AMPLIFICATION = 10.0
AMPLIFIED_PAIRS = 2
# Of sigma; in 4 draws of a smooth element in 10,000 ten times the noise goes further.
_FURTHER = 3.0
_SMALLEST = 5e-324
_ZEROS = (0.0, -0.0)


@dataclass(frozen=True)
class Draw:
    """One perturbed run, as ``Noise.restart`` takes it: how its noise starts, how large it is (below zero: of opposite
    sign), which zero sums give that come to nothing, and whether those that may overflow in some order give NaN."""

    seed: int
    amplification: float = 1.0
    zero: float | None = None
    overflows: bool = False


def draws(samples: int, seed: int, jumps: bool) -> Iterator[Draw]:
    """What to run: ``samples`` of the noise as it is, and amplified pairs where the program has steps.

    With no samples the noise is none, and what is left is what hangs on the order of sums: zeros and infinities.
    """
    if not samples:
        yield Draw(seed, 0.0, _ZEROS[0])
        yield Draw(seed, 0.0, _ZEROS[1], overflows=True)
    for sample in range(samples):
        zero = _ZEROS[sample] if sample < len(_ZEROS) else None
        yield Draw(1_000_003 * (sample + 1) + seed, zero=zero, overflows=sample == samples - 1)
    for pair in range(AMPLIFIED_PAIRS if jumps and samples else 0):
        for sign in (1, -1):
            yield Draw(1_000_003 * (samples + pair + 1) + seed, sign * AMPLIFICATION)


def first_look(samples: int) -> int:
    """How many of the contract's samples are drawn before anything is compared: one more than half.

    A limit that chance made too narrow is found out, since all samples are drawn for what does not pass, and only then
    does a finding count. One that chance made too wide is not: by 7 samples sigma is seen at twice its size in 1
    element of 4,500, by 12 in 1 of 300,000, and a fault seldom lies in such an element alone. An honest error of 0.4
    of the noise is looked at twice in 4 elements of 10**8.
    """
    return samples // 2 + 1


class Spread:
    """Collects runs by the keys of their tensors. ``exact`` is the run without noise."""

    def __init__(self, exact: Mapping[str, torch.Tensor]) -> None:
        self._exact = {key: _real(value) for key, value in exact.items()}
        self._special = {key: _where(_is_special(value)) for key, value in self._exact.items()}
        self._zero = {key: _where(_is_zero(value)) for key, value in self._exact.items()}
        self._squares: dict[str, torch.Tensor] = {}
        self._furthest: dict[str, torch.Tensor] = {}
        self._turned: dict[str, torch.Tensor] = {}
        self._count = 0

    def add(self, run: Mapping[str, torch.Tensor], draw: Draw) -> None:
        """One perturbed run. A tensor of another shape than the exact one is passed over."""
        plain = draw.amplification in (0.0, 1.0)
        self._count += plain
        for key, exact in self._exact.items():
            if key not in run:
                continue
            value = _real(run[key])
            if value.shape != exact.shape:
                continue
            distance = self._distance(key, value, exact)
            if plain:
                squares = self._squares.setdefault(key, torch.zeros_like(distance))
                squares.addcmul_(distance, distance)
            else:
                furthest = self._furthest.setdefault(key, torch.zeros_like(distance))
                torch.maximum(furthest, distance.abs_(), out=furthest)

    def sigma(self) -> dict[str, torch.Tensor]:
        """Of each tensor: infinite where a run was special and the exact value is not, or the other way round; where
        it jumps, the jump; for integers and booleans, non-zero where a run gave another value."""
        found: dict[str, torch.Tensor] = {}
        for key, squares in self._squares.items():
            value = (squares / self._count).sqrt_()
            furthest = self._furthest.get(key)
            if furthest is not None:
                value = torch.where(furthest > _FURTHER * AMPLIFICATION * value, furthest, value)
            value.nan_to_num_(nan=torch.inf, posinf=torch.inf)
            if key in self._turned:
                value[self._turned[key] & (value == 0)] = _SMALLEST
            found[key] = value
        return found

    def _distance(self, key: str, value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        if not exact.is_floating_point():
            return (value != exact).double()
        distance = value.double() - exact
        special, zero = self._special[key], self._zero[key]
        if special is not None:
            same = (value == exact) | (value.isnan() & exact.isnan())
            distance[special] = torch.where(same, 0.0, torch.inf).to(distance.dtype)[special]
        if zero is not None:
            turned = zero & (value == 0) & (value.signbit() != exact.signbit())
            self._turned[key] = self._turned[key] | turned if key in self._turned else turned
        return distance


def _real(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def _is_special(value: torch.Tensor) -> torch.Tensor | None:
    return ~value.isfinite() if value.is_floating_point() else None


def _is_zero(value: torch.Tensor) -> torch.Tensor | None:
    return value == 0 if value.is_floating_point() else None


def _where(mask: torch.Tensor | None) -> torch.Tensor | None:
    """None in place of a mask that holds nothing."""
    return mask if mask is not None and bool(mask.any()) else None
