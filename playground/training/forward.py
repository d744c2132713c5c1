"""One way through a model for training and measuring: hidden states and logits behind any layer."""

import torch
from torch import Tensor
from transformers import LlamaForCausalLM


def trunk(model: LlamaForCausalLM, ids: Tensor, *layers: int) -> list[Tensor]:
    """Hidden states [B, T, h] after the final norm, taken behind each of `layers` (1 = behind the first layer).

    The layers are walked by hand because the hooks with which transformers collects hidden states break compilation.
    """
    inner = model.model
    hidden = inner.embed_tokens(ids)
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    rotary = inner.rotary_emb(hidden, positions)
    future = torch.full(2 * ids.shape[1:], -torch.inf, dtype=hidden.dtype, device=ids.device).triu(1)
    found: dict[int, Tensor] = {}
    for number, layer in enumerate(inner.layers[: max(layers)], start=1):
        hidden = layer(hidden, attention_mask=future[None, None], position_ids=positions, position_embeddings=rotary)
        if number in layers:
            found[number] = inner.norm(hidden)
    return [found[layer] for layer in layers]


def next_token_logits(model: LlamaForCausalLM, ids: Tensor, layer: int | None = None) -> Tensor:
    """Logits [B, T, V] in float32, of the whole model or of an early exit behind `layer`."""
    (hidden,) = trunk(model, ids, layer or model.config.num_hidden_layers)
    logits: Tensor = model.lm_head(hidden)
    return logits.float()
