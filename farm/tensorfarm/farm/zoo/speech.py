"""Speech: the encoder half of Whisper, tiny, random weights."""

from __future__ import annotations

import torch
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder


def whisper_encoder() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Two strided convolutions and 2 transformer layers of 64. Input: log-mel features [2, 16, 64]."""
    torch.manual_seed(0)
    config = WhisperConfig(
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        num_mel_bins=16,
        max_source_positions=32,
        dropout=0.0,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=128,
    )
    features = torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(7))
    return WhisperEncoder(config).eval(), (features,)
