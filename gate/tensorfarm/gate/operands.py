"""Tensors among what an ATen operator is given and gives, as a dispatch mode meets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """In order, those in lists and tuples included."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def is_nowhere(value: torch.Tensor) -> bool:
    """What forward-mode differentiation makes zeros and their shapes of holds no numbers."""
    return value.is_meta or value._is_zerotensor()
