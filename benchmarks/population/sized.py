"""Programs that take more than 10 ms forward and backward on one thread: what the gate's cost is measured on.

The usual kinds, built from operators of torch alone, with random weights. Nothing is drawn in a call. Factories of
``(module, inputs)``, as in ``specimens.py``.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from specimens import Made, integers, normal, wanted

VOCABULARY, WIDTH, HEADS = 1024, 128, 4


class Block(torch.nn.Module):
    """Attention and a perceptron. ``before`` says on which side of them the norms are."""

    def __init__(self, *, before: bool, causal: bool = False) -> None:
        super().__init__()
        self.before, self.causal = before, causal
        self.attended, self.fed = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mixed, self.joined = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.before:
            x = x + self._attention(self.attended(x))
            return x + self._perceptron(self.fed(x))
        x = self.attended(x + self._attention(x))
        return self.fed(x + self._perceptron(x))

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.mixed(x).split(WIDTH, -1)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.joined(seen.transpose(1, 2).reshape(batch, length, WIDTH))

    def _perceptron(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.causal else "none"))


class Words(torch.nn.Module):
    """An encoder that gives hidden states and a pooled vector, or a causal decoder that gives logits."""

    def __init__(self, layers: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.words, self.places = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(512, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(before=causal, causal=causal) for _ in range(layers))
        self.norm, self.pooler = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return (F.linear(x, self.words.weight),) if self.causal else (x, torch.tanh(self.pooler(x[:, 0])))


class Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(hidden)))


class Pixels(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.early = torch.nn.Conv2d(3, 32, 3, padding=1), Residual(32)
        self.wider, self.late = torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), Residual(64)
        self.head = torch.nn.Linear(64, 100)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.early(F.max_pool2d(F.relu(self.stem(pixels)), 2))
        return self.head(self.late(F.relu(self.wider(x))).mean((2, 3)))


class Speech(torch.nn.Module):
    """Two convolutions over a spectrogram, sinusoids for places, and an encoder."""

    def __init__(self, layers: int, length: int) -> None:
        super().__init__()
        self.heard = torch.nn.Conv1d(80, WIDTH, 3, padding=1)
        self.halved = torch.nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.blocks = torch.nn.ModuleList(Block(before=True) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(WIDTH)
        steps = torch.exp(-math.log(10000.0) / (WIDTH // 2 - 1) * torch.arange(WIDTH // 2))
        angles = torch.arange(length)[:, None] * steps
        self.sinusoids = torch.nn.Buffer(torch.cat([angles.sin(), angles.cos()], -1))

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.halved(F.gelu(self.heard(spectrum)))).transpose(1, 2) + self.sinusoids
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def bert() -> Made:
    torch.manual_seed(0)
    return Words(4, causal=False), (integers(70, 0, VOCABULARY, 4, 128),)


def gpt2() -> Made:
    torch.manual_seed(0)
    return Words(4, causal=True), (integers(71, 0, VOCABULARY, 4, 128),)


def residual() -> Made:
    torch.manual_seed(0)
    return Pixels(), (wanted(normal(72, 8, 3, 64, 64)),)


def speech() -> Made:
    torch.manual_seed(0)
    return Speech(4, 150), (normal(73, 2, 80, 300),)


def wide_batch() -> Made:
    """The encoder on a batch that keeps it busy for longer than its weights are large."""
    torch.manual_seed(0)
    return Words(4, causal=False), (integers(74, 0, VOCABULARY, 16, 128),)
