"""Normal numbers of size 1e-3: an epsilon that was dropped or changed counts there, and is lost at size one."""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import Place, backward
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Trial

NAME = "small_scale"
SCALE = 1e-3


def trial(setting: Setting) -> Trial | None:
    return drawn_trial(setting, NAME, _small, backward(setting))


def _small(place: Place, generator: torch.Generator) -> torch.Tensor:
    return SCALE * torch.randn(place.values.shape, generator=generator, dtype=torch.float64)
