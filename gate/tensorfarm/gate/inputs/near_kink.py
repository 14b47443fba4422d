"""Values at, and next to, the places where common activations bend: 0, ±1, ±3 and ±6.

A comparison that is off by its equals sign, or a bound that was rounded, shows only there.
"""

from __future__ import annotations

import math

import torch

from tensorfarm.gate.inputs.normal import like_example
from tensorfarm.gate.inputs.refill import Place, backward
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Trial

NAME = "near_kink"
KINKS = (1.0, 3.0, 6.0)


def trial(setting: Setting) -> Trial | None:
    return drawn_trial(setting, NAME, _near, backward(setting))


def _near(place: Place, generator: torch.Generator) -> torch.Tensor:
    """Half of the elements, the others are as in ``normal``: a sum of kinks alone has too few values."""
    table = neighbours(place.dtype)
    chosen = table[torch.randint(0, len(table), place.values.shape, generator=generator)]
    at_kink = torch.rand(place.values.shape, generator=generator) < 0.5
    return torch.where(at_kink, chosen, like_example(place, generator))


def neighbours(dtype: torch.dtype) -> torch.Tensor:
    """Every kink of both signs with the next value of ``dtype`` above and below; beside 0 the smallest normal one."""
    info = torch.finfo(dtype)
    found = [0.0, -0.0, info.smallest_normal, -info.smallest_normal]
    for kink in KINKS:
        mantissa, exponent = math.frexp(kink)
        above = info.eps * 2.0 ** (exponent - 1)
        below = above / 2 if mantissa == 0.5 else above
        found += [sign * value for value in (kink - below, kink, kink + above) for sign in (1, -1)]
    return torch.tensor(found, dtype=torch.float64)
