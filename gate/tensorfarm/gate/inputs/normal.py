"""Fresh normal numbers of the example's mean and spread: what an example that is all alike cannot show."""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import Place, backward
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Trial

NAME = "normal"


def trial(setting: Setting) -> Trial | None:
    return drawn_trial(setting, NAME, like_example, backward(setting))


def like_example(place: Place, generator: torch.Generator) -> torch.Tensor:
    """Normal, with the mean and the spread of the example's finite values; the unit normal where it has neither."""
    finite = place.values[place.values.isfinite()]
    mean = float(finite.mean()) if finite.numel() else 0.0
    spread = float(finite.std()) if finite.numel() > 1 else 0.0
    return mean + (spread or abs(mean) or 1.0) * torch.randn(
        place.values.shape, generator=generator, dtype=torch.float64
    )
