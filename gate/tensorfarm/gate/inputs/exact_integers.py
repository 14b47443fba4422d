"""Small integers, on which every order of summation gives the same bits, so that no tolerance is needed.

One leaf has integers as wide as the contract says (12 bits and more show a product that was rounded to 10), the others
±1 to ±3, so that a sum of products stays exact. Invariant: over a whole leaf ``sum |a| * LARGEST`` is below what the
accumulating dtype counts exactly. A leaf too large for that holds zeros too.

Weights that are no integers make results inexact again. A value can be required bit for bit where the float64 oracle's
is one of the output's dtype; ``weights_trial`` has the parameters replaced as well.
"""

from __future__ import annotations

import math
from functools import partial

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.gate.inputs.refill import Place, floats
from tensorfarm.gate.inputs.suite import declared, drawn_trial
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Derivative, Trial

NAME = "exact_integers"
WEIGHTS = f"{NAME}:weights"
INTEGER_PARAMETERS = "integer_parameters"
LARGEST = 3


def trial(setting: Setting) -> Trial | None:
    """The widest integers go to the first leaf of two axes or more."""
    return _trial(setting, NAME, widest_leaf(setting))


def weights_trial(setting: Setting) -> Trial | None:
    """The same inputs after the parameters became integers; None where the subject's cannot be replaced."""
    if not setting.facts.module or setting.level < Level.STANDARD:
        return None
    return _trial(setting, WEIGHTS, widest_leaf(setting), INTEGER_PARAMETERS)


def trials(setting: Setting) -> list[Trial]:
    """All there are for the level; the full one gives each leaf the widest integers once."""
    found = [trial(setting), weights_trial(setting)]
    if setting.level is Level.FULL and declared(setting, NAME):
        others = [name for name in floats(setting) if name != widest_leaf(setting)]
        found += [_trial(setting, f"{NAME}:wide:{name}", name) for name in others]
    return [item for item in found if item is not None]


def widest_leaf(setting: Setting) -> str:
    """A bias comes before the operands of some products, so one axis is not enough while another leaf has more."""
    names = floats(setting)
    return next((name for name, value in names.items() if value.dim() > 1), next(iter(names), ""))


def _trial(setting: Setting, name: str, wide: str, between: str = "") -> Trial | None:
    draw = partial(_integers, setting=setting, wide=wide)
    return drawn_trial(setting, NAME, draw, Derivative.NONE, name=name, depth=Depth.EXACT, between=between)


def _integers(place: Place, generator: torch.Generator, *, setting: Setting, wide: str) -> torch.Tensor:
    shape, room = place.values.shape, exact_below(place.dtype, setting.contract) / LARGEST
    least, most = setting.contract.ranges["floating"]
    values = _signed(LARGEST, shape, generator)
    if place.name == wide:
        bits = min(setting.contract.exact_integer_bits, digits(place.dtype))
        values = _affordable(_signed(2**bits - 1, shape, generator), values, room, generator)
    values = _affordable(values, torch.zeros_like(values), room, generator)
    return values.clamp(least, most).trunc()


def _signed(largest: int, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """From 1 to ``largest``, of either sign: no zero, which would hide whatever it is multiplied with."""
    size = torch.randint(1, largest + 1, shape, generator=generator, dtype=torch.float64)
    return size * (torch.randint(0, 2, shape, generator=generator) * 2 - 1)


def _affordable(values: torch.Tensor, instead: torch.Tensor, room: float, generator: torch.Generator) -> torch.Tensor:
    """``values`` at random places, as many as keep the sum of magnitudes below ``room``, ``instead`` elsewhere."""
    left = room - float(instead.abs().sum())
    extra = (values.abs() - instead.abs()).clamp(min=0)
    total = float(extra.sum())
    if total < left:
        return values
    chosen = torch.rand(values.shape, generator=generator) < max(left, 0.0) / total
    spent = torch.where(chosen, extra, 0.0).reshape(-1).cumsum(0).view(values.shape)
    return torch.where(chosen & (spent < left), values, instead)


def exact_below(dtype: torch.dtype, contract: NumericalContract) -> float:
    """Every integer smaller than this is exact in the dtype that a sum of ``dtype`` is accumulated in."""
    name = str(dtype).removeprefix("torch.")
    accumulate = contract.accumulate.get(name, contract.accumulate["default"])
    return 2.0 ** max(digits(getattr(torch, accumulate)), digits(dtype))


def digits(dtype: torch.dtype) -> int:
    """Binary digits of the significand, the hidden one included."""
    return 1 - round(math.log2(torch.finfo(dtype).eps))
