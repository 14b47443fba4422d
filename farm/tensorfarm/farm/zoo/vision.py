"""Vision models: a transformer and a small convolutional network, random weights."""

from __future__ import annotations

import torch
from transformers import ViTConfig, ViTModel


def _pixels(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(6))


def vit() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Vision transformer, 2 layers of 64 on 8×8 patches. Input: pixels [2, 3, 32, 32]."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTModel(config, add_pooling_layer=False).eval(), {"pixel_values": _pixels(2, 3, 32, 32)}


class _ConvNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(16)
        self.depthwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = torch.nn.Conv2d(16, 32, 1)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.stem(pixels)))
        hidden = torch.nn.functional.max_pool2d(hidden, 2)
        hidden = torch.nn.functional.hardswish(self.pointwise(self.depthwise(hidden)))
        return self.head(hidden.mean(dim=(2, 3)))


def convnet() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Convolution, batch norm in training mode (its running statistics are written), pooling, a linear head.

    Input: pixels [4, 3, 16, 16].
    """
    torch.manual_seed(0)
    return _ConvNet().train(), (_pixels(4, 3, 16, 16),)
