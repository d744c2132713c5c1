"""Tiny random models of several architectures, saved as folders with a tokenizer."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
MIXED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
ARCHITECTURES: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", SHAPE),
    "llama-tied": ("llama", SHAPE | {"tie_word_embeddings": True}),
    "qwen2": ("qwen2", SHAPE),
    "qwen3": ("qwen3", SHAPE),
    "gemma3": ("gemma3_text", SHAPE | MIXED | {"query_pre_attn_scalar": 8}),
    "gemma2": ("gemma2", SHAPE | MIXED | {"query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0}),
    "mistral": ("mistral", SHAPE | {"sliding_window": None}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}


def save_checkpoint(
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    name: str = "llama",
    vocab_size: int | None = None,
    max_shard_size: str = "5GB",
    dtype: torch.dtype = torch.float32,
    **changes: object,
) -> PreTrainedModel:
    """Saves a model with `tokenizer` into `folder` and returns it, in evaluation mode."""
    torch.manual_seed(0)
    kind, shape = ARCHITECTURES[name]
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    config = CONFIG_MAPPING[kind](**{**shape, **ids, "vocab_size": vocab_size or len(tokenizer), **changes})
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(folder)
    return model
