"""Floating dtypes by their unit roundoff, half of ``eps``: all that a noise knows of the dtype that it stands for."""

from __future__ import annotations

import math

import torch

_BY_ROUNDOFF = {
    torch.finfo(dtype).eps / 2: dtype for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
}


def roundoff_of(dtype: torch.dtype) -> float:
    """Of a floating dtype, or of the parts of a complex one."""
    return torch.finfo(dtype).eps / 2


def dtype_of(roundoff: float) -> torch.dtype:
    """The floating dtype with this roundoff; float64 where none has it."""
    return _BY_ROUNDOFF.get(roundoff, torch.float64)


def largest_of(roundoff: float) -> float:
    """The largest finite number of that dtype; infinite where none has this roundoff."""
    return torch.finfo(_BY_ROUNDOFF[roundoff]).max if roundoff in _BY_ROUNDOFF else math.inf


def smallest_of(roundoff: float) -> float:
    """The smallest normal number of that dtype; zero where none has this roundoff."""
    return torch.finfo(_BY_ROUNDOFF[roundoff]).smallest_normal if roundoff in _BY_ROUNDOFF else 0.0
