"""The layers of a Llama-like model in the few operations that they take.

transformers' modules are written to be read and to fit every use; for one token of a small model, what they do around
the matrix products costs as much as the products. This is the same arithmetic over the same weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaModel, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2Model, Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3DecoderLayer, Qwen3Model, Qwen3RotaryEmbedding

from playground.decoding.cache import KVCache
from playground.decoding.linear import Linear, Packed

KNOWN = (LlamaModel, Qwen2Model, Qwen3Model)
FIXED_ROPE = {"default", "linear", "llama3", "yarn"}  # the others turn by angles that depend on the length
LONGEST_TABLE = 32768  # positions whose angles are kept: at most some tens of megabytes


class LeanStack:
    """The first layers of a base model and its final norm, called with a cache as the model itself would be."""

    def __init__(self, layers: Sequence[_Layer], embedding: Tensor, norm: Tensor, rope: _Rope) -> None:
        self.layers, self.embedding, self.norm, self.rope = layers, embedding, norm, rope

    @classmethod
    def of(cls, base: nn.Module) -> Self | None:
        """The stack of `base`, or None where it is not a plain Llama, Qwen2 or Qwen3 on one device.

        The matrices that read the same input are laid next to each other in memory, and the model's own parameters
        become views of them: nothing is held twice, and the model works as before.
        """
        if not isinstance(base, KNOWN) or type(base) not in KNOWN:
            return None
        config = base.config
        full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        devices = {parameter.device for parameter in base.parameters()}
        hooked = any(hasattr(module, "_hf_hook") for module in base.modules())
        plain = all(type(module) is nn.Linear for module in base.modules() if hasattr(module, "in_features"))
        rope = base.rotary_emb
        if not full or len(devices) > 1 or hooked or not plain or rope.rope_type not in FIXED_ROPE:
            return None
        return cls(
            [_Layer.of(layer) for layer in base.layers],
            base.embed_tokens.weight,
            base.norm.weight,
            _Rope(rope, base.embed_tokens.weight),
        )

    def first(self, layers: int) -> LeanStack:
        """The stack cut after so many layers."""
        return LeanStack(self.layers[:layers], self.embedding, self.norm, self.rope)

    def packed(self) -> LeanStack:
        """The stack over copies of its matrices that are laid out for this processor, see Packed."""
        return LeanStack([layer.packed() for layer in self.layers], self.embedding, self.norm, self.rope)

    def __call__(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache, inner: Collection[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """ids, positions [B, q]; mask bool [B, 1, q, kv], None where all is seen.

        Returns the states [B, q, h] after the final norm, and what layers of the numbers `inner` read."""
        x = F.embedding(ids, self.embedding)
        cos, sin = self.rope(positions, x)
        between: dict[int, Tensor] = {}
        for number, layer in enumerate(self.layers):
            if number in inner:
                between[number] = x
            x = layer(x, cos, sin, mask, cache, number)
        x = F.rms_norm(x, self.norm.shape, self.norm, self.layers[-1].eps)
        if len(self.layers) in inner:  # transformers counts the normed states as what comes after the last layer
            between[len(self.layers)] = x
        return x, between


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's weights. `qkv` [(heads + 2 kv_heads)·d, h] and `gate_up` [2·m, h] are several matrices in one."""

    qkv: Linear | Packed
    out: Linear | Packed
    gate_up: Linear | Packed
    down: Linear | Packed
    head_norm: Tensor | None  # [heads + kv_heads, d]
    before: Tensor  # the norms' weights [h]
    after: Tensor
    eps: float
    act: nn.Module
    heads: int
    kv_heads: int
    width: int
    scale: float

    @classmethod
    def of(cls, layer: nn.Module) -> Self:
        assert isinstance(layer, LlamaDecoderLayer | Qwen2DecoderLayer | Qwen3DecoderLayer)
        attention, mlp = layer.self_attn, layer.mlp
        width = attention.head_dim
        heads, kv_heads = (part.out_features // width for part in (attention.q_proj, attention.k_proj))
        head_norm = None
        if isinstance(attention, Qwen3Attention):
            of_query, of_key = attention.q_norm.weight, attention.k_norm.weight
            head_norm = torch.cat([of_query.expand(heads, width), of_key.expand(kv_heads, width)]).detach()
        return cls(
            Linear.joined(attention.q_proj, attention.k_proj, attention.v_proj),
            Linear.joined(attention.o_proj),
            Linear.joined(mlp.gate_proj, mlp.up_proj),
            Linear.joined(mlp.down_proj),
            head_norm,
            layer.input_layernorm.weight,
            layer.post_attention_layernorm.weight,
            layer.input_layernorm.variance_epsilon,
            mlp.act_fn,
            heads,
            kv_heads,
            width,
            attention.scaling,
        )

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: KVCache, number: int) -> Tensor:
        batch, rows, hidden = x.shape
        turned = self.heads + self.kv_heads
        states = self.qkv(F.rms_norm(x, (hidden,), self.before, self.eps))
        states = states.view(batch, rows, turned + self.kv_heads, self.width)
        facing, values = states[:, :, :turned], states[:, :, turned:]
        if self.head_norm is not None:
            facing = F.rms_norm(facing, (self.width,), None, self.eps) * self.head_norm
        facing = facing * cos + facing.roll(self.width // 2, -1) * sin
        queries, keys = facing[:, :, : self.heads], facing[:, :, self.heads :]
        seen_keys, seen_values = cache.states[number].update(keys.transpose(1, 2), values.transpose(1, 2))
        mixed = F.scaled_dot_product_attention(
            queries.transpose(1, 2),
            seen_keys,
            seen_values,
            attn_mask=mask,
            scale=self.scale,
            enable_gqa=self.heads != self.kv_heads,
        )
        mixed = mixed.transpose(1, 2).reshape(batch, rows, self.heads * self.width)
        x = x + self.out(mixed)
        gate, up = self.gate_up(F.rms_norm(x, (hidden,), self.after, self.eps)).chunk(2, -1)
        return x + self.down(self.act(gate) * up)

    def packed(self) -> _Layer:
        return replace(
            self,
            qkv=self.qkv.packed(),
            out=self.out.packed(),
            gate_up=self.gate_up.packed(),
            down=self.down.packed(),
        )


class _Rope:
    """Rotary angles by position (Su et al. 2021), looked up where the context is short enough for a table.

    The sines carry the sign, so that turning a vector x takes x · cos + roll(x) · sin.
    """

    def __init__(self, rope: LlamaRotaryEmbedding | Qwen2RotaryEmbedding | Qwen3RotaryEmbedding, like: Tensor) -> None:
        self.rope, self.table = rope, None
        if rope.max_seq_len_cached <= LONGEST_TABLE:
            positions = torch.arange(rope.max_seq_len_cached, device=like.device)
            self.table = torch.cat(self._angles(positions.unsqueeze(0), like), -1)[0]

    def __call__(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, q, 1, d] in the number format of `like`."""
        if self.table is None:
            cos, sin = self._angles(positions, like)
        else:
            cos, sin = F.embedding(positions, self.table).chunk(2, -1)
        return cos.unsqueeze(2), sin.unsqueeze(2)

    def _angles(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.rope(like, positions)
        return cos, torch.cat([-sin[..., : sin.shape[-1] // 2], sin[..., sin.shape[-1] // 2 :]], -1)
