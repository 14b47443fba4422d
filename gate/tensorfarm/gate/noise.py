"""Monte-Carlo arithmetic: each operator of the float64 reference errs at random by what the program's dtype would err.

Every rounding result is multiplied by ``1 + u * N(0, 1)``; operands of reductions and contractions by
``1 + u * sqrt(ceil(log2 n)) * N(0, 1)``, n being the number of terms: the height of a blocked sum. Data movement is
exact. Backward operators pass through the same mode. A complex factor is ``1 + u * (N + iN)``: a part of a product errs
by the size of the whole. Invariant: a factor is never zero, a real one never negative.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from tensorfarm.gate.rounding import CONTRACTIONS, RESAMPLING, Rounding, rounding_of
from tensorfarm.gate.widen import Widened

# Draws are slices of one pool at random places: fresh normal numbers for each operator would cost more than it does.
POOL_SIZE = 1 << 17


class Noise:
    """Factors around one, cheap: ``scaled(tensor, height)`` perturbs in place by ``u * sqrt(height)``."""

    def __init__(self, roundoff: float, seed: int) -> None:
        normal = torch.randn(POOL_SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        # Twice over, so that a slice may start anywhere; bounded, so that no factor changes a sign.
        self._normal = torch.cat([normal, normal]).clamp_(-6, 6)
        self._roundoff = roundoff
        self._random = random.Random(seed)
        self._factors: dict[int, torch.Tensor] = {}

    def restart(self, seed: int) -> None:
        """Begin another run with draws of its own."""
        self._random = random.Random(seed)

    def perturb(self, value: Any, height: int) -> None:
        """Multiply a float64 tensor, or those in a list, in place."""
        if isinstance(value, (tuple, list)):
            for item in value:
                self.perturb(item, height)
        elif isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128) and value.numel():
            factors = self._factors_of(height)
            if value.numel() <= POOL_SIZE:
                drawn = self._slice(factors, value.numel()).view(value.shape)
                if value.is_complex():
                    drawn = torch.complex(drawn, self._slice(factors, value.numel()).view(value.shape) - 1)
                value.mul_(drawn)
            else:
                for part in value.unbind(0) if value.dim() > 1 else value.split(POOL_SIZE):
                    self.perturb(part, height)

    def _factors_of(self, height: int) -> torch.Tensor:
        if height not in self._factors:
            self._factors[height] = self._normal * (self._roundoff * math.sqrt(height)) + 1
        return self._factors[height]

    def _slice(self, factors: torch.Tensor, count: int) -> torch.Tensor:
        start = self._random.randrange(POOL_SIZE)
        return factors[start : start + count]


class Perturbed(Widened):
    """The widened reference with noise in every operator."""

    def __init__(self, noise: Noise) -> None:
        super().__init__()
        self.noise = noise

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = rounding_of(func)
        kwargs = kwargs or {}
        if kind is Rounding.EXACT:
            return self.wide(func, args, kwargs)
        if kind is Rounding.REDUCES:
            args = self._with_noisy_operands(func, args)
        result = self.wide(func, args, kwargs)
        self.noise.perturb(args[0] if kind is Rounding.WRITES else result, 1)
        return result

    def _with_noisy_operands(self, func: Any, args: Any) -> Any:
        height = _height(func, args)
        return [self._noisy(value, height) for value in args]

    def _noisy(self, value: Any, height: int) -> Any:
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        copied = value.to(torch.complex128 if value.is_complex() else torch.float64, copy=True)
        self.noise.perturb(copied, height)
        return copied


def _height(func: Any, args: Any) -> int:
    """ceil(log2 n) of the number of terms in one result, at least 1.

    Resampling rounds the places that it reads at, twice or so by ``u`` times a side's length: a third is the spread.
    """
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    name = func.overloadpacket.__name__
    if name in CONTRACTIONS:
        terms = tensors[-1].shape[-2] if tensors[-1].dim() > 1 else tensors[-1].shape[-1]
    elif name == "convolution":
        terms = tensors[1].numel() // max(tensors[1].shape[0], 1)
    elif name.lstrip("_").startswith(RESAMPLING):
        return max(9, max(side for value in tensors for side in value.shape[2:]) ** 2 // 8)
    else:
        terms = max(value.numel() for value in tensors)
    return max(1, math.ceil(math.log2(max(terms, 2))))
