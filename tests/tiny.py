"""Tiny transformers models with random weights: real architectures at the cost of a matrix product."""

from __future__ import annotations

from functools import lru_cache

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from playground.decoding.target import TransformersTarget

VOCAB = 96
CONTEXT = 160
WINDOW = 6  # far shorter than any text in the tests, so that a wrong window shows

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": False,
}
MIXED = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}

ARCHITECTURES: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", SHAPE),
    "llama-tied": ("llama", SHAPE | {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    "qwen2": ("qwen2", SHAPE),
    "qwen2-window": ("qwen2", SHAPE | MIXED | {"use_sliding_window": True}),
    "qwen3": ("qwen3", SHAPE),
    "mistral": ("mistral", SHAPE | {"sliding_window": WINDOW}),
    "gemma2": ("gemma2", SHAPE | MIXED | {"query_pre_attn_scalar": 8, "final_logit_softcapping": 5.0}),
    "gemma3": ("gemma3_text", SHAPE | MIXED | {"query_pre_attn_scalar": 8}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "tie_word_embeddings": False}),
    "phi": ("phi", SHAPE),
}


@lru_cache(maxsize=64)
def tiny_model(name: str, seed: int = 1, vocab: int = VOCAB, context: int = CONTEXT) -> PreTrainedModel:
    """A model of the named architecture in float32. Weights are wide enough that its text does not repeat itself."""
    kind, shape = ARCHITECTURES[name]
    length = "n_positions" if kind == "gpt2" else "max_position_embeddings"
    nothing = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    config = CONFIG_MAPPING[kind](**{**shape, length: context, **nothing, "vocab_size": vocab})
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.25, generator=generator)
    return model


def tiny_target(name: str, seed: int = 1, vocab: int = VOCAB, context: int = CONTEXT) -> TransformersTarget:
    """The same as a target, without an end-of-sequence token."""
    return TransformersTarget(tiny_model(name, seed, vocab, context), f"tiny {name}", eos_ids=())
