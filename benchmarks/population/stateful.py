"""Programs that write, draw, or read what is no input: buffers, random numbers, attributes.

Factories of ``(module, inputs)``, as in ``specimens.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from specimens import Made, Tensors, integers, normal, wanted


class Convnet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 7, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(7)
        self.head = torch.nn.Linear(7, 5)

    def forward(self, pixels: torch.Tensor) -> Tensors:
        hidden = torch.relu(self.norm(self.convolution(pixels)))
        return self.head(F.avg_pool2d(hidden, 2, ceil_mode=True).mean((2, 3))), hidden


def convnet() -> Made:
    torch.manual_seed(0)
    return Convnet().train(), (wanted(normal(50, 5, 3, 11, 13).contiguous(memory_format=torch.channels_last)),)


class History(torch.nn.Module):
    """Writes to its first input and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", normal(56, 7))

    def forward(self, seen: torch.Tensor, x: torch.Tensor) -> Tensors:
        scaled = x.clone()
        scaled.mul_(3)
        seen.add_(x.abs())
        self.total.mul_(0.9).add_(x.detach().mean(0))
        return torch.log1p(seen).sum(-1), scaled + x, self.total * 2


def history() -> Made:
    return History(), (normal(57, 5, 7).abs(), wanted(normal(51, 5, 7)))


class Noisy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(41, 37)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.linear(F.dropout(x, 0.2, self.training)), 0.3, self.training) * 2


def noisy() -> Made:
    torch.manual_seed(0)
    return Noisy().train(), (wanted(normal(52, 59, 41)),)


class Tuned(torch.nn.Module):
    """A Python number, a flag and parameters that may change between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(13, 7)
        self.scale = 0.75
        self.squashed = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.linear(x) * self.scale
        return torch.tanh(value) if self.squashed else value


def tuned() -> Made:
    torch.manual_seed(0)
    return Tuned(), (wanted(normal(53, 11, 13)),)


class Lookup(torch.nn.Module):
    """Raises on an index that is not there, on sizes that do not fit and on dtypes that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(17, 5)

    def forward(self, places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(self.table(places), x) - 1


def lookup() -> Made:
    torch.manual_seed(0)
    return Lookup(), (integers(54, 0, 17, 11), wanted(normal(55, 5, 3)))
