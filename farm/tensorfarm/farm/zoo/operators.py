"""The operators that models are made of, in one program: a fault in any of them shows in an output of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class _Operators(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer_norm = torch.nn.LayerNorm(48)
        self.rms_weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 48))
        self.up = torch.nn.Linear(48, 96)
        self.down = torch.nn.Linear(96, 48)
        self.convolution = torch.nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = x.reshape(4, 8, 4, 12).transpose(1, 2)
        return (
            torch.softmax(x * 3.0, dim=-1),
            self.layer_norm(x),
            F.rms_norm(x, (48,), self.rms_weight),
            self.down(F.gelu(self.up(x))),
            F.scaled_dot_product_attention(heads, heads.roll(1, 2), heads, is_causal=True),
            self.convolution(x),
            x.sum(dim=1) + x.amax(dim=1) - x.var(dim=1) * x.mean(dim=(1, 2)).unsqueeze(-1),
            torch.logsumexp(x, dim=(1, 2)),
            x.gather(2, index),
        )


def suite() -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """softmax, layer_norm, rms_norm, gelu-MLP, attention, conv, reductions, gather.

    Inputs: [4, 8, 48], which requires a gradient, and an index, int64 [4, 8, 6].
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(4, 8, 48, generator=generator).requires_grad_()
    return _Operators(), (x, torch.randint(0, 48, (4, 8, 6), generator=generator))
