"""Programs of equal weights that do their work once or several times, and sides that go wrong when they are loaded."""

from __future__ import annotations

import ctypes

import torch

INPUT = torch.ones(64, 128)


class _Repeated(torch.nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.linear = torch.nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = torch.tanh(self.linear(x))
        return x


def repeated(times: int) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _Repeated(times), (INPUT.clone(),)


def brief() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return repeated(4)


def longer() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return repeated(8)


def crash() -> None:
    ctypes.string_at(0)
