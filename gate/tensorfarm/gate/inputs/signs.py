"""Ones of either sign: sums of their products are small integers, which even half precision counts exactly.

The wide integers of ``exact_integers`` overflow the eight digits of a bfloat16 result, so that nothing there is exact.
"""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import Place, floats
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Depth, Derivative, Trial

SUITE, NAME = "exact_integers", "exact_integers:signs"


def trial(setting: Setting) -> Trial | None:
    """None where no input is in half precision, or the suite of exact integers is not declared."""
    if not any(value.dtype in (torch.bfloat16, torch.float16) for value in floats(setting).values()):
        return None
    return drawn_trial(setting, SUITE, _signs, Derivative.NONE, name=NAME, depth=Depth.EXACT)


def _signs(place: Place, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 2, place.values.shape, generator=generator).double() * 2 - 1
