"""Small programs that faults are planted in and honest variants are made of: each takes under 5 ms in eager torch.

Sizes are unequal primes, so that a wrong axis shows in a shape; ``square`` and ``square_attention`` are the exception,
where only the values can show it. Factories of ``(module, inputs)``; programs with state are in ``stateful.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

Tensors = tuple[torch.Tensor, ...]
Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def normal(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def integers(seed: int, low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def wanted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.requires_grad_()


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(13, 29)
        self.down = torch.nn.Linear(29, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x))) - x[:, :7] / 3


def mlp() -> Made:
    torch.manual_seed(0)
    return Mlp(), (wanted(normal(1, 11, 13)),)


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LayerNorm(19)
        self.root = torch.nn.RMSNorm(19, eps=1e-5)

    def forward(self, x: torch.Tensor) -> Tensors:
        return self.layer(x) + x, self.root(x), x.var(-1)


def normed() -> Made:
    torch.manual_seed(0)
    return Normed(), (wanted(normal(2, 3, 11, 19)),)


def faint() -> Made:
    """Inputs so small that an epsilon is not small beside their variance."""
    torch.manual_seed(0)
    return Normed(), (wanted(normal(3, 5, 19, scale=1e-3)),)


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(17, 23)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Tensors:
        scores = self.head(x)
        return F.cross_entropy(scores, labels), torch.softmax(scores, -1), F.log_softmax(scores, -1).mean(0)


def classifier() -> Made:
    torch.manual_seed(0)
    return Classifier(), (wanted(normal(4, 13, 17)), integers(5, 0, 23, 13))


class Attention(torch.nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.project = torch.nn.Linear(heads * width, 3 * heads * width)

    def forward(self, x: torch.Tensor) -> Tensors:
        batch, length, _ = x.shape
        split = self.project(x).reshape(batch, length, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.width**0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        spelled = torch.matmul(torch.softmax(scores.masked_fill(future, -torch.inf), -1), v)
        return spelled, F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention() -> Made:
    torch.manual_seed(0)
    return Attention(3, 5), (wanted(normal(6, 2, 7, 15)),)


def square_attention() -> Made:
    """As many tokens as heads, and as heads are wide."""
    torch.manual_seed(0)
    return Attention(5, 5), (wanted(normal(7, 2, 5, 25)),)


class Pooling(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> Tensors:
        overhanging = F.avg_pool2d(pixels, 3, stride=2, ceil_mode=True)
        return overhanging, F.max_pool2d(pixels, 2), F.adaptive_avg_pool2d(pixels, 3), pixels.amax((2, 3))


def pooling() -> Made:
    return Pooling(), (wanted(normal(8, 2, 3, 10, 14)),)


class Embedding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(31, 11)
        self.places = torch.nn.Embedding(7, 11)

    def forward(self, tokens: torch.Tensor) -> Tensors:
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return hidden.sum(1), hidden.mean(-1) * 3


def embedding() -> Made:
    torch.manual_seed(0)
    return Embedding(), (integers(9, 0, 31, 5, 7),)


class Selection(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Tensors:
        values, places = x.topk(3, -1)
        ordered, order = x.sort(-1)
        return (
            values, places, ordered, order, x.argmax(-1), torch.maximum(x, y), torch.minimum(x, y),
            x.amax(-1), x.max(0).values,
        )  # fmt: skip


def selection() -> Made:
    """Repeated values: gradients of extrema are then a matter of rule."""
    x, y = integers(10, -4, 5, 7, 11).float(), integers(11, -4, 5, 7, 11).float()
    return Selection(), (wanted(x), wanted(y))


class Integers(torch.nn.Module):
    def forward(self, n: torch.Tensor, small: torch.Tensor) -> Tensors:
        return (
            n * 1_000_003 + torch.arange(n.shape[-1]) * 3_000_000_000,
            (small * 7 + small) // 3,
            (n ^ (n << 3)) & 0x7FFF,
            n.cumsum(-1) - small.sum(-1, keepdim=True),
            n // 7,
            n.argmax(-1),
        )


def integer_arithmetic() -> Made:
    return Integers(), (integers(12, -9_000, 9_000, 5, 11), integers(13, -120, 120, 5, 7).to(torch.int8))


class Broadcasting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(normal(14, 13))
        self.gain = torch.nn.Parameter(normal(15, 7, 1))

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> Tensors:
        return (x + self.bias) * self.gain - row, torch.outer(self.bias, row[0, 0]) / (1 + x[0, 0, :].abs().sum())


def broadcasting() -> Made:
    return Broadcasting(), (wanted(normal(16, 3, 7, 13)), wanted(normal(17, 3, 1, 13)))


class Square(torch.nn.Module):
    """Every axis has one size."""

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> Tensors:
        return x.sum(0), x.mean(1) * 2, torch.softmax(x, 0), x - row, x @ x, x * row, x.cumsum(1)


def square() -> Made:
    return Square(), (wanted(normal(18, 11, 11)), wanted(normal(19, 11)))


class Mixed(torch.nn.Module):
    def forward(self, n: torch.Tensor, flags: torch.Tensor, half: torch.Tensor, scalar: torch.Tensor) -> Tensors:
        return n * half, flags * scalar + half, (n + flags) / 2, half * scalar, flags.sum(0) * 0.5


def mixed_dtypes() -> Made:
    return Mixed(), (
        integers(20, -50, 50, 5, 7),
        integers(21, 0, 2, 5, 7).bool(),
        normal(22, 5, 7).half(),
        normal(23)[()],
    )


class Scattering(torch.nn.Module):
    def forward(self, x: torch.Tensor, where: torch.Tensor) -> Tensors:
        sums = torch.zeros(5, x.shape[1]).index_add(0, where, x)
        spread = torch.zeros_like(x).scatter_add(0, where[:, None].expand_as(x) % x.shape[0], x)
        return sums, spread, x.index_select(0, where), x.gather(0, where[:, None].expand_as(x)) * 2


def scattering() -> Made:
    return Scattering(), (wanted(normal(24, 13, 7)), integers(25, 0, 5, 13))


class Views(torch.nn.Module):
    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> Tensors:
        turned = x.transpose(1, 2) * 2
        return turned, wide[:, 1::2].tanh(), x.permute(2, 0, 1) + 1, wide.t().exp(), x[:, 2:].sum(-1), wide.flip(0) * 3


def views() -> Made:
    return Views(), (wanted(normal(26, 3, 5, 7)), wanted(normal(27, 11, 13)))


class Totals(torch.nn.Module):
    """Contractions of inputs with inputs: on small integers every order of adding gives the same bits."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Tensors:
        return x @ y, x.sum(-1), y.mean(0) * 61, F.linear(x, y.t()) - 1


def totals() -> Made:
    return Totals(), (wanted(normal(28, 17, 61)), wanted(normal(29, 61, 13)))


def half_totals() -> Made:
    """The same in bfloat16, accumulated in float32."""
    return Totals(), (wanted(normal(30, 17, 61).bfloat16()), wanted(normal(31, 61, 13).bfloat16()))


class LongSum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Tensors:
        return x.sum(), x.mean(), x.sum(0)


def long_sum() -> Made:
    return LongSum(), (normal(32, 1_048_583).abs() + 0.5,)


class Special(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Tensors:
        return (
            torch.relu(x), x.clamp(-1, 1), torch.maximum(x, y), x * 0, (x - x) + y, x + 0,
            torch.log1p(y * 1e-4) * 1e4, torch.softmax(x * 50, -1), torch.logsumexp(y * 50, -1),
            x.sigmoid() / (y * y + 1),
        )  # fmt: skip


def special() -> Made:
    x, y = normal(33, 7, 13), normal(34, 7, 13)
    x[0, :4], y[1, :4] = torch.tensor([torch.nan, -0.0, torch.inf, 200.0]), torch.tensor([0.0, -0.0, 3.0, -200.0])
    return Special(), (wanted(x), wanted(y.abs()))


class Casting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Tensors:
        scaled = x * 3
        return x.bfloat16(), x.half().float() * 3, x.round(), scaled.round().to(torch.int32), scaled, x.half()


def casting() -> Made:
    """Values half-way between two numbers of bfloat16 and between two integers are among them."""
    x = normal(35, 5, 17)
    x[0, :8] = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8])
    return Casting(), (wanted(x),)


class Rows(torch.nn.Module):
    """Each row alone: what is beside it in its batch may not change a bit."""

    def forward(self, x: torch.Tensor) -> Tensors:
        return x.sum(-1), x.mean(-1) * 3, torch.softmax(x, -1), (x * x).sum(-1)


def rows() -> Made:
    return Rows(), (wanted(normal(37, 7, 61)),)


class Twins(torch.nn.Module):
    """One expression in two spellings."""

    def forward(self, x: torch.Tensor) -> Tensors:
        return torch.sigmoid(x).sum(-1), torch.sigmoid(x.t()).sum(0), (1 / (1 + torch.exp(-x))).mean(-1)


def twins() -> Made:
    return Twins(), (wanted(normal(36, 11, 17)),)
