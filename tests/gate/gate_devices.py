"""Programs that are right on one device and wrong on another, and kernels that are so natively alone."""

import ctypes
import os
from typing import Any

import torch

Example = tuple[torch.nn.Module, tuple[Any, ...]]


class Layers(torch.nn.Module):
    """Two products with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 96)
        self.down = torch.nn.Linear(96, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


class WrongOnCuda(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y + 1e-4 if x.is_cuda else y


class WrongEverywhere(Layers):
    """As two devices are that share a decomposition: equal to one another, and to nothing else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1e-4


class DeadOnAvx2(Layers):
    """Takes its process down where that is held to one level."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
            ctypes.string_at(0)
        return super().forward(x)


class DeadOnCuda(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            ctypes.string_at(0)
        return super().forward(x)


class SwitchesTf32On(Layers):
    """Without a word: nobody declared it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        return super().forward(x)


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


class Tf32Product(Product):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        return super().forward(x, y)


class Convolution(torch.nn.Module):
    """As torch has it when nobody says anything: on a card its operands are truncated to TF32."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(128, 128, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x)


class Drops(torch.nn.Module):
    """Draws random numbers, which are others on each device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True) * 3


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _layers(kind: type[Layers]) -> Example:
    torch.manual_seed(0)
    return kind(), (_drawn(8, 64).requires_grad_(),)


def layers() -> Example:
    return _layers(Layers)


def wrong_on_cuda() -> Example:
    return _layers(WrongOnCuda)


def wrong_everywhere() -> Example:
    return _layers(WrongEverywhere)


def dead_on_avx2() -> Example:
    return _layers(DeadOnAvx2)


def dead_on_cuda() -> Example:
    return _layers(DeadOnCuda)


def switches_tf32_on() -> Example:
    return _layers(SwitchesTf32On)


def product() -> Example:
    return Product(), (_drawn(32, 64), _drawn(64, 32))


def tf32_product() -> Example:
    return Tf32Product(), (_drawn(32, 64), _drawn(64, 32))


def convolution() -> Example:
    torch.manual_seed(0)
    return Convolution(), (_drawn(8, 128, 28, 28),)


def drops() -> Example:
    return Drops(), (_drawn(32, 64),)


def already_on_cuda() -> Example:
    module, (x,) = layers()
    return module.cuda(), (x.detach().cuda(),)
