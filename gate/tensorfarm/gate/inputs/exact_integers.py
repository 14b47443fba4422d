"""Small integers, on which every order of summation gives the same bits, so that no tolerance is needed.

One leaf has integers as wide as the contract says (12 bits and more show a product that was rounded to 10), the others
±1 to ±3, so that a sum of products stays exact. Invariant: over a whole leaf ``sum |a| * LARGEST`` is below what the
accumulating dtype counts exactly. A leaf too large for that holds zeros too.

Numbers of 8 or 11 bits cannot hold such sums, whatever they are accumulated in: rounded to them, a right sum and a
wrong one may be alike. In ``cancelling_trial`` the second half of an axis takes back what the first half adds, so that
large partial sums come to small ones: exact where the sum was kept in a wider dtype, and off where it was not.

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
CANCELLING = f"{NAME}:cancelling"
_WIDE = f"{NAME}:wide:"
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


def cancelling_trial(setting: Setting) -> Trial | None:
    """None where every input is as wide as what its sums are accumulated in."""
    dtypes = {value.dtype.to_real() for value in floats(setting).values()}
    if setting.level < Level.STANDARD or all(
        2.0 ** digits(item) >= exact_below(item, setting.contract) for item in dtypes
    ):
        return None
    return _trial(setting, CANCELLING, widest_leaf(setting))


def names(setting: Setting) -> list[str]:
    """Of the trials there may be, none of which is drawn for it."""
    return [NAME, WEIGHTS, CANCELLING, *(f"{_WIDE}{leaf}" for leaf in setting.tensors)]


def trials(setting: Setting) -> list[Trial]:
    """All there are for the level; the full one gives each leaf the widest integers once."""
    found = [trial(setting), weights_trial(setting), cancelling_trial(setting)]
    if setting.level is Level.FULL and declared(setting, NAME):
        others = [name for name in floats(setting) if name != widest_leaf(setting)]
        found += [_trial(setting, f"{_WIDE}{name}", name) for name in others]
    return [item for item in found if item is not None]


def widest_leaf(setting: Setting) -> str:
    """A bias comes before the operands of some products, so one axis is not enough while another leaf has more."""
    names = floats(setting)
    return next((name for name, value in names.items() if value.dim() > 1), next(iter(names), ""))


def _trial(setting: Setting, name: str, wide: str, between: str = "") -> Trial | None:
    draw = partial(_integers, setting=setting, wide=wide, cancelling=name == CANCELLING)
    return drawn_trial(setting, NAME, draw, Derivative.NONE, name=name, depth=Depth.EXACT, between=between)


def _integers(
    place: Place, generator: torch.Generator, *, setting: Setting, wide: str, cancelling: bool = False
) -> torch.Tensor:
    shape, room = place.values.shape, exact_below(place.dtype, setting.contract) / LARGEST
    least, most = setting.contract.ranges["floating"]
    values = _signed(LARGEST, shape, generator)
    if place.name == wide:
        bits = min(setting.contract.exact_integer_bits, digits(place.dtype))
        values = _affordable(_signed(2**bits - 1, shape, generator), values, room, generator)
    values = _affordable(values, torch.zeros_like(values), room, generator)
    if cancelling:
        values = _taken_back(values, generator) if place.name == wide else _repeated(values)
    return values.clamp(least, most).trunc()


def _taken_back(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The second half of the last axis is the first with its sign turned, less one; what is left over is small."""
    if not values.dim():
        return values
    half = values.shape[-1] // 2
    first = values[..., :half]
    rest = _signed(LARGEST, values[..., 2 * half :].shape, generator)
    return torch.cat([first, first.sign() - first, rest], -1)


def _repeated(values: torch.Tensor) -> torch.Tensor:
    """The second half of every axis is the first again."""
    for axis, size in enumerate(values.shape):
        half = size // 2
        first, rest = values.narrow(axis, 0, half), values.narrow(axis, 2 * half, size - 2 * half)
        values = torch.cat([first, first, rest], axis)
    return values


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
