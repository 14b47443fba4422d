"""Programs of several families and sizes, to fit a cost model to some and ask it about the others.

A factory is called ``family_number``; the sizes of each family spread its times over about three decades. Seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Chain(nn.Module):
    """Pointwise functions one after the other, with a second operand that is broadcast."""

    def __init__(self, width: int, names: str) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.functions = [getattr(torch, name) for name in names.split()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for function in self.functions:
            x = function(x * self.scale) + 1.0
        return x


class Reductions(nn.Module):
    def __init__(self, dim: int, steps: int) -> None:
        super().__init__()
        self.dim, self.steps = dim, steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            x = x - x.mean(self.dim, keepdim=True)
            x = x / (x.abs().amax(self.dim, keepdim=True) + 1.0)
        return x.sum(self.dim)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, *, ffn: bool, layers: int = 1, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.ffn = heads, causal, ffn
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mixers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers if ffn else 0))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers if ffn else 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        for number, (mix, out) in enumerate(zip(self.mixers, self.outs, strict=True)):
            parts = mix(self.norms[2 * number](x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
            x = x + out(mixed.transpose(1, 2).reshape(batch, length, width))
            if self.ffn:
                x = x + self.narrow[number](functional.gelu(self.wide[number](self.norms[2 * number + 1](x))))
        return x


class Norms(nn.Module):
    def __init__(self, width: int, kind: str, layers: int) -> None:
        super().__init__()
        self.kind = kind
        made = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}.get(kind, nn.LayerNorm)
        self.norms = nn.ModuleList(made(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            x = functional.softmax(x, -1) if self.kind == "softmax" else norm(x)
            x = x + 0.5 * x
        return x


class Picks(nn.Module):
    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(rows, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.table(ids) + self.places(torch.arange(ids.shape[1])))


class Residual(nn.Module):
    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2 * layers))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2 * layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first in range(0, len(self.convolutions), 2):
            y = functional.relu(self.norms[first](self.convolutions[first](x)))
            x = functional.relu(x + self.norms[first + 1](self.convolutions[first + 1](y)))
        return x.mean((2, 3))


class Gated(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.ups = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down, norm in zip(self.ups, self.downs, self.norms, strict=True):
            gate, value = up(norm(x)).chunk(2, -1)
            x = x + down(functional.silu(gate) * value)
        return x


class Moves(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            left, right = x.chunk(2, -1)
            x = torch.cat([right, -left], -1).transpose(-1, -2).contiguous().transpose(-1, -2) + x
        return x


def mlp(batch: int, width: int, depth: int) -> Made:
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(batch, width),)


def product(batch: int, rows: int, depth: int, columns: int) -> Made:
    class Product(nn.Module):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return torch.matmul(left, right).mul(0.5)

    return Product(), (torch.randn(batch, rows, depth), torch.randn(batch, depth, columns))


def conv(batch: int, channels: int, extent: int, depth: int, grouped: bool = False) -> Made:
    layers = [
        layer
        for _ in range(depth)
        for layer in (nn.Conv2d(channels, channels, 3, padding=1, groups=channels if grouped else 1), nn.ReLU())
    ]
    return nn.Sequential(*layers), (torch.randn(batch, channels, extent, extent),)


def attention(batch: int, length: int, width: int, heads: int) -> Made:
    return Attention(width, heads, ffn=False, causal=length % 3 == 0), (torch.randn(batch, length, width),)


def block(batch: int, length: int, width: int, layers: int) -> Made:
    return Attention(width, max(1, width // 32), ffn=True, layers=layers), (torch.randn(batch, length, width),)


def norm(rows: int, width: int, kind: str, layers: int) -> Made:
    return Norms(width, kind, layers), (torch.randn(rows, width),)


def pointwise(rows: int, width: int, names: str) -> Made:
    return Chain(width, names), (torch.rand(rows, width) + 0.1,)


def reduction(rows: int, width: int, dim: int, steps: int) -> Made:
    return Reductions(dim, steps), (torch.randn(rows, width),)


def embedding(rows: int, width: int, batch: int, length: int) -> Made:
    return Picks(rows, width), (torch.randint(0, rows, (batch, length)),)


def residual(batch: int, channels: int, extent: int, layers: int) -> Made:
    return Residual(channels, layers).eval(), (torch.randn(batch, channels, extent, extent),)


def gated(rows: int, width: int, layers: int) -> Made:
    return Gated(width, layers), (torch.randn(rows, width),)


def move(rows: int, width: int, steps: int) -> Made:
    return Moves(steps), (torch.randn(rows, width),)


FAMILIES: dict[str, tuple[Callable[..., Made], list[tuple[Any, ...]]]] = {
    "mlp": (
        mlp,
        [(1, 64, 2), (8, 64, 6), (1, 256, 4), (16, 128, 4), (64, 128, 8), (32, 256, 4), (4, 512, 3), (128, 256, 4),
         (1, 1024, 3), (64, 512, 6), (256, 512, 4), (512, 512, 6), (16, 1024, 4), (256, 128, 12)],
    ),
    "product": (
        product,
        [(1, 16, 16, 16), (8, 32, 32, 32), (1, 64, 256, 64), (4, 128, 64, 128), (32, 16, 64, 16), (1, 256, 256, 256),
         (16, 64, 64, 64), (1, 512, 512, 512), (8, 128, 256, 128), (2, 512, 64, 512), (64, 64, 32, 64)],
    ),
    "conv": (
        conv,
        [(1, 4, 8, 2), (1, 8, 16, 3), (1, 16, 16, 4), (2, 16, 32, 2), (1, 32, 32, 3), (4, 32, 16, 4), (1, 64, 28, 3),
         (2, 64, 28, 4), (1, 16, 16, 3, True), (2, 32, 32, 3, True), (4, 64, 28, 3, True), (8, 64, 14, 2),
         (1, 128, 28, 3)],
    ),
    "attention": (
        attention,
        [(1, 8, 32, 2), (1, 16, 64, 4), (2, 32, 64, 2), (1, 64, 128, 4), (4, 48, 64, 4), (1, 128, 128, 8),
         (2, 96, 256, 4), (4, 128, 128, 4), (1, 256, 256, 8), (1, 384, 128, 4), (8, 64, 256, 8), (1, 512, 256, 4)],
    ),
    "block": (
        block,
        [(1, 8, 32, 1), (1, 16, 64, 2), (2, 16, 64, 4), (1, 32, 128, 2), (1, 64, 128, 4), (4, 32, 64, 3),
         (2, 64, 128, 3), (1, 128, 128, 6), (1, 64, 256, 3), (2, 96, 256, 2), (4, 128, 128, 2), (8, 16, 96, 4)],
    ),
    "norm": (
        norm,
        [(4, 32, "layer", 1), (16, 64, "softmax", 3), (64, 64, "rms", 4), (64, 256, "layer", 4), (32, 1024, "rms", 2),
         (256, 256, "softmax", 3), (512, 256, "layer", 6), (128, 768, "softmax", 4), (1024, 512, "layer", 3),
         (1024, 512, "rms", 3), (2048, 256, "softmax", 4), (2048, 768, "layer", 2)],
    ),
    "pointwise": (
        pointwise,
        [(4, 16, "relu"), (8, 64, "exp relu abs"), (64, 64, "tanh sigmoid"), (64, 256, "abs neg relu sqrt"),
         (128, 256, "sigmoid sin log1p"), (256, 256, "tanh"), (256, 512, "relu abs"), (512, 512, "exp neg"),
         (64, 64, "abs relu neg abs relu neg abs relu"), (512, 512, "erf sqrt"), (1024, 512, "relu"),
         (1024, 1024, "abs neg relu"), (1024, 512, "tanh erf"), (16, 512, "sigmoid tanh exp neg relu")],
    ),
    "reduction": (
        reduction,
        [(8, 16, 1, 1), (32, 64, 0, 2), (64, 64, 1, 4), (128, 256, 0, 2), (256, 256, 1, 3), (512, 256, 0, 3),
         (64, 2048, 1, 2), (2048, 64, 1, 2), (512, 1024, 1, 2), (1024, 512, 0, 2), (1024, 1024, 1, 3)],
    ),
    "embedding": (
        embedding,
        [(100, 16, 1, 8), (1000, 64, 2, 32), (1000, 128, 4, 64), (5000, 64, 8, 128), (10000, 128, 4, 256),
         (5000, 256, 8, 256), (20000, 256, 16, 128), (2000, 512, 8, 256), (30000, 64, 32, 256)],
    ),
    "residual": (
        residual,
        [(1, 8, 8, 1), (1, 16, 14, 2), (2, 16, 28, 1), (1, 32, 28, 2), (2, 32, 28, 3), (1, 64, 28, 2), (4, 32, 14, 4),
         (1, 96, 14, 2), (4, 64, 14, 3)],
    ),
    "gated": (
        gated,
        [(1, 64, 1), (8, 64, 4), (32, 128, 2), (1, 512, 2), (64, 128, 6), (128, 256, 2), (64, 512, 2), (256, 256, 4),
         (512, 256, 3)],
    ),
    "move": (
        move,
        [(8, 16, 1), (32, 64, 2), (64, 128, 4), (128, 256, 3), (256, 512, 2), (512, 512, 3), (1024, 512, 2),
         (1024, 1024, 2)],
    ),
}  # fmt: skip

NAMES = tuple(f"{family}_{number}" for family, (_, sizes) in FAMILIES.items() for number in range(len(sizes)))


def family_of(name: str) -> str:
    return name.rpartition("_")[0]


def __getattr__(name: str) -> Callable[[], Made]:
    """The factory called ``family_number``, as ``population.families:mlp_3`` asks for it."""
    if name not in NAMES:
        raise AttributeError(name)
    make, sizes = FAMILIES[family_of(name)]

    def factory() -> Made:
        torch.manual_seed(0)
        return make(*sizes[int(name.rpartition("_")[2])])

    return factory
