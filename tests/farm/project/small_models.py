"""A user's own models: small, some of them broken on purpose."""

from __future__ import annotations

import ctypes

import torch


class _Mlp(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.down(torch.tanh(self.up(x)) * 0.5), -1)


def mlp() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _Mlp(8), (torch.randn(4, 8, generator=torch.Generator().manual_seed(1)),)


def wide_mlp() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _Mlp(12), (torch.randn(4, 12, generator=torch.Generator().manual_seed(1)),)


class _Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


def branches() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Branches(), (torch.ones(3),)


def crashes() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    ctypes.string_at(0)
    raise AssertionError("unreachable")


def junk() -> int:
    return 7
