"""Language models of ``transformers``, tiny, with random weights: real graphs at the price of a test."""

from __future__ import annotations

import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

VOCABULARY, BATCH, LENGTH = 512, 2, 16
Factory = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def _tokens(seed: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(seed))


def bert() -> Factory:
    """Encoder, 2 layers of 64, post-norm, gelu. Input: token ids [2, 16]."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config, add_pooling_layer=False).eval(), {"input_ids": _tokens(1)}


def gpt2() -> Factory:
    """Causal decoder, 2 layers of 64, pre-norm, tied embedding. Input: token ids [2, 16]."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval(), {"input_ids": _tokens(2)}


def llama() -> Factory:
    """Causal decoder, 2 layers of 64, rotary positions, rms-norm, grouped keys. Input: token ids [2, 16]."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
    )
    return LlamaForCausalLM(config).eval(), {"input_ids": _tokens(3)}


def t5() -> Factory:
    """Encoder and decoder, 1 layer each of 64, relative positions. Inputs: token ids [2, 16] for both sides."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=4,
        dropout_rate=0.0,
        use_cache=False,
    )
    inputs = {"input_ids": _tokens(4), "decoder_input_ids": _tokens(5)}
    return T5ForConditionalGeneration(config).eval(), inputs
