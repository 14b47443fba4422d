"""Values that lie half-way: between integers, between neighbours of a narrower dtype, and maxima that are equal.

Rounding half away from zero where half to even is due, or a gradient that goes to all of the equal maxima or to none,
shows nowhere else. Every row of the last axis has its maximum twice.
"""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import Place, backward
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Trial

NAME = "ties"
NARROWER = (torch.bfloat16, torch.float16)
_INTEGERS = 4
_MAXIMUM = _INTEGERS + 1.5


def trial(setting: Setting) -> Trial | None:
    return drawn_trial(setting, NAME, _half_way, backward(setting))


def _half_way(place: Place, generator: torch.Generator) -> torch.Tensor:
    shape = place.values.shape
    table = half_ways()
    values = table[torch.randint(0, len(table), shape, generator=generator)]
    if len(shape) and shape[-1] > 1 and values.numel():
        first = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=generator)
        step = torch.randint(1, shape[-1], (*shape[:-1], 1), generator=generator)
        values.scatter_(-1, first, _MAXIMUM).scatter_(-1, (first + step) % shape[-1], _MAXIMUM)
    return values


def half_ways() -> torch.Tensor:
    """``k + 0.5``, and middles between neighbours of each narrower dtype, after an even one and after an odd."""
    found = [k + 0.5 for k in range(-_INTEGERS, _INTEGERS)]
    for dtype in NARROWER:
        gap = torch.finfo(dtype).eps
        found += [sign * (1 + gap * (steps + 0.5)) for steps in (0, 1) for sign in (1, -1)]
    return torch.tensor(found, dtype=torch.float64)
