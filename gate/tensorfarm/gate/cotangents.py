"""The vectors of vector-Jacobian and Jacobian-vector products, drawn once and given to everyone.

A cotangent of stride 0 is what ``sum().backward()`` hands a backward pass, and one in another layout than its output is
what a following transpose hands it: kernels that assume the output's strides go wrong on these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tensorfarm.gate.trial import Cotangent


def cotangents_of(
    outputs: Sequence[Any], positions: Sequence[int], kind: Cotangent, seed: int
) -> dict[int, torch.Tensor]:
    """One for every output at ``positions``, of its shape and dtype."""
    generator = torch.Generator().manual_seed(seed)
    return {position: _cotangent(outputs[position], kind, generator) for position in positions}


def tangents_of(leaves: Sequence[Any], seed: int) -> dict[int, torch.Tensor]:
    """Normal numbers for every floating input, by its position."""
    generator = torch.Generator().manual_seed(seed)
    return {
        position: _normal(value, generator)
        for position, value in enumerate(leaves)
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    }


def _cotangent(like: torch.Tensor, kind: Cotangent, generator: torch.Generator) -> torch.Tensor:
    match kind:
        case Cotangent.NORMAL:
            return _normal(like, generator)
        case Cotangent.ONES_EXPANDED:
            return torch.ones((), dtype=like.dtype).expand(like.shape)
        case Cotangent.STRIDED:
            return _strided(_normal(like, generator))
        case Cotangent.ONE_HOT:
            return _one_hot(like)


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    dtype = torch.complex128 if like.is_complex() else torch.float64
    return torch.randn(like.shape, generator=generator, dtype=dtype).to(like.dtype)


def _strided(value: torch.Tensor) -> torch.Tensor:
    """The same values: last two dimensions swapped in memory, or every second place of a longer row."""
    if value.dim() >= 2:
        return value.transpose(-1, -2).contiguous().transpose(-1, -2)
    wide = torch.zeros((*value.shape, 2), dtype=value.dtype)
    wide[..., 0] = value
    return wide[..., 0]


def _one_hot(like: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(like.shape, dtype=like.dtype)
    if made.numel():
        made.view(-1)[made.numel() // 2] = 1
    return made
