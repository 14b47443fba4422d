"""Terms that cancel: sums over them are what rounding left, which another order of adding leaves otherwise.

A half-precision result of a float32 accumulation hides the order nearly always: its last bit is 2¹⁶ times as coarse.
Mirrored along some axes every tensor is its own negative, along the others its own image, so that sums along the first,
and products of one such tensor with another, are zero but for rounding.
"""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import Draw, Place, floats, refilled
from tensorfarm.gate.setting import Setting

NAME = "cancelling"


def inputs(setting: Setting) -> list[dict[str, torch.Tensor]]:
    """One set that cancels along the last axis, one along all others; none where no input is floating."""
    return [refilled(setting, NAME, _mirrored(last)) for last in (True, False)] if floats(setting) else []


def _mirrored(last: bool) -> Draw:
    def draw(place: Place, generator: torch.Generator) -> torch.Tensor:
        values = torch.randn(place.values.shape, generator=generator, dtype=torch.float64)
        for axis in range(values.dim()):
            cancels = (axis == values.dim() - 1) == last
            values = values - values.flip(axis) if cancels else values + values.flip(axis)
        return values

    return draw
