"""Programs of the bisection benchmark: one in which compiling is most of what a probe costs, and a small one."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel


class Hidden(torch.nn.Module):
    """A BERT's last hidden state."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=1000,
            hidden_size=128,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=256,
            max_position_embeddings=64,
        )
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=input_ids).last_hidden_state


def deep_bert() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Eight narrow layers, 2 x 32 tokens, random weights."""
    torch.manual_seed(0)
    return Hidden(8).eval(), (torch.randint(0, 1000, (2, 32)),)


class Residual(torch.nn.Module):
    """Three residual blocks: every sum is of two computed values."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(x)
        for block in self.blocks:
            x = self.norm(x) + torch.relu(block(x))
        return x


def residual() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Three blocks over 8 x 32."""
    torch.manual_seed(0)
    return Residual().eval(), (torch.randn(8, 32),)
