"""Magnitudes spread evenly over the exponents, both signs: a softmax that does not subtract its maximum overflows."""

from __future__ import annotations

import math

import torch

from tensorfarm.gate.inputs.refill import Place
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Derivative, Trial

NAME = "wide_exponent"
LEAST, MOST = 1e-30, 1e30


def trial(setting: Setting) -> Trial | None:
    return drawn_trial(setting, NAME, _log_uniform, Derivative.NONE)


def _log_uniform(place: Place, generator: torch.Generator) -> torch.Tensor:
    info = torch.finfo(place.dtype)
    least, most = math.log(max(LEAST, info.smallest_normal)), math.log(min(MOST, info.max / 2))
    size = torch.rand(place.values.shape, generator=generator, dtype=torch.float64)
    sign = torch.randint(0, 2, place.values.shape, generator=generator) * 2 - 1
    return sign * torch.exp(least + (most - least) * size)
