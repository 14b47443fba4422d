"""A value with the derivatives of another: how a wrong backward pass is planted under a right forward pass.

Forward mode and second derivatives follow the other as well, so the change is one change and not a broken graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Grafted(torch.autograd.Function):
    @staticmethod
    def forward(value: torch.Tensor, _derivatives: torch.Tensor) -> torch.Tensor:
        return value.clone(memory_format=torch.preserve_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is saved: the other's own graph holds all that its derivatives need."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, cotangents[0]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return None if tangents[1] is None else tangents[1].clone()


def grafted(value: torch.Tensor, derivatives: torch.Tensor) -> torch.Tensor:
    """The bits of ``value`` with the graph of ``derivatives``, which has the same shape and dtype."""
    if not derivatives.requires_grad:
        return value
    return _Grafted.apply(value.detach(), derivatives)  # pyright: ignore[reportUnknownVariableType, reportReturnType]


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(value: torch.Tensor, _change: Any) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.change = inputs[1]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return ctx.change(cotangents[0]), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].view_as(tangents[0])


def with_gradient_changed(value: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """``value`` itself, whose cotangent passes through ``change`` on its way back."""
    return _Passed.apply(value, change)  # pyright: ignore[reportUnknownVariableType, reportReturnType]
