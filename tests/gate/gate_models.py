"""Factories of real models for the gate's tests: one layer, random weights."""

import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM


def _tokens() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 64, (2, 8), generator=torch.Generator().manual_seed(10))}


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config, add_pooling_layer=False).eval(), _tokens()


def llama() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        use_cache=False,
    )
    return LlamaForCausalLM(config).eval(), _tokens()
