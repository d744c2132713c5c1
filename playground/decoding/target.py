"""What the loop needs of a model, and the transformers models that give it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from playground.decoding.cache import KVCache
from playground.decoding.lean import LeanStack
from playground.decoding.linear import Linear, can_pack
from playground.errors import UserError

FINAL = -1  # the layer number of the last hidden state, after the final norm: what the language-model head reads


class TargetModel(Protocol):
    """A causal language model that reads rows of tokens with explicit positions and visibility.

    `vocab_size` is the number of logits, `context_length` the number of positions, `eos_ids` what ends a text.
    """

    name: str
    vocab_size: int
    context_length: int
    eos_ids: frozenset[int]
    device: torch.device

    def new_cache(self, rows: int) -> KVCache: ...

    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor, cache: KVCache, layers: Collection[int]
    ) -> dict[int, Tensor]:
        """ids, positions [B, q]; mask bool [B, q, kv]; the cache's slots are announced. Hidden states [B, q, h] of
        `layers` and of FINAL. One row of one sequence sees everything."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, V] of final hidden states [n, h]."""
        ...

    def early_exit(self, layers: int) -> TargetModel:
        """The same model cut after its first `layers` layers, sharing weights and usable on the same cache."""
        ...


class TransformersTarget:
    """A transformers causal language model, run by a LeanStack where it is of a kind that one knows.

    No run's state is kept on it.
    """

    def __init__(self, model: PreTrainedModel, name: str = "", eos_ids: Collection[int] | None = None) -> None:
        self.model = model
        self.name = name or str(model.config.name_or_path)
        self.config = config = model.config.get_text_config()
        self.head: nn.Linear = model.get_output_embeddings()
        self._project: Callable[[Tensor], Tensor] = self.head
        self.device: torch.device = next(model.get_input_embeddings().parameters()).device
        self.vocab_size = int(self.head.weight.shape[0])
        self.eos_ids = frozenset(_eos_ids(model) if eos_ids is None else eos_ids)
        kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)  # GPT-Neo's name
        self.layer_types = set(kinds or ["full_attention"])
        if unknown := self.layer_types - {"full_attention", "sliding_attention", "global"}:
            raise UserError(
                f"{self.name} has layers of the kind {', '.join(sorted(unknown))}, which cannot read a token tree or "
                "be rolled back after a rejected token. Choose a model with full or sliding attention only."
            )
        if getattr(model, "_is_stateful", False):
            raise UserError(
                f"{self.name} ({type(model).__name__}) is recurrent: its state cannot be rolled back after "
                "a rejected token. Choose a model with attention layers only."
            )
        if not (context := getattr(config, "max_position_embeddings", None)):
            raise UserError(
                f"{self.name} ({type(model).__name__}) does not number its positions, which a token tree needs. "
                "Choose a model with position embeddings."
            )
        self.context_length = int(context)
        self.base: nn.Module = model.base_model
        self.stack = LeanStack.of(self.base)
        self.packed_bytes = 0  # what `pack` takes beside the model's own weights
        self.num_layers = int(config.num_hidden_layers)
        multiplied, divided = (getattr(config, name, None) or 1 for name in ("logit_scale", "logits_scaling"))
        self._logit_scale = multiplied / divided  # Cohere's name and Granite's
        self._logit_cap = getattr(config, "final_logit_softcapping", None)  # Gemma

    def new_cache(self, rows: int = 1) -> KVCache:
        return KVCache(self.num_layers, rows)

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor, cache: KVCache, layers: Collection[int] = (FINAL,)
    ) -> dict[int, Tensor]:
        inner = [layer for layer in layers if layer != FINAL]
        if self.stack is not None:
            seen = None if mask.shape[:2] == (1, 1) else mask.unsqueeze(1)
            last, between = self.stack(ids, positions, seen, cache, inner)
            return {FINAL: last} | between
        out = self.base(
            input_ids=ids,
            position_ids=positions,
            attention_mask=self._attention_mask(mask, positions, cache),
            cache=cache,
            use_cache=True,
            output_hidden_states=bool(inner),
        )
        return {FINAL: out.last_hidden_state} | {layer: out.hidden_states[layer] for layer in inner}

    def _attention_mask(self, mask: Tensor, positions: Tensor, cache: KVCache) -> Tensor | dict[str, Tensor]:
        window = getattr(self.config, "sliding_window", None)
        typed = "sliding_attention" in self.layer_types
        full = self._as_model_wants(mask)
        if window is None or (not typed and getattr(self.config, "layer_types", None)):
            return full
        # The cache keeps every token and the window is a mask, so that rolling back needs no second copy.
        key_positions = torch.arange(mask.shape[2], device=mask.device).repeat(mask.shape[0], 1)
        key_positions.scatter_(1, cache.slots.to(mask.device), positions)
        near = key_positions.unsqueeze(1) > positions.unsqueeze(2) - window
        sliding = self._as_model_wants(mask & near)
        return {"full_attention": full, "sliding_attention": sliding} if typed else sliding

    def _as_model_wants(self, mask: Tensor) -> Tensor:
        """[B, 1, q, kv]: bool for SDPA; every other attention adds the mask to its scores."""
        mask = mask.unsqueeze(1)
        if self.config._attn_implementation == "sdpa":
            return mask
        hidden = torch.finfo(self.head.weight.dtype).min
        return torch.zeros_like(mask, dtype=self.head.weight.dtype).masked_fill_(~mask, hidden)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        logits = self._project(hidden.to(self.head.weight.device))[..., : self.vocab_size]
        if self._logit_scale != 1:
            logits = logits * self._logit_scale
        if self._logit_cap is not None:
            logits = torch.tanh(logits / self._logit_cap) * self._logit_cap
        return logits

    def pack(self) -> None:
        """Compute with copies of the matrices that are laid out for this processor, see Packed.

        For models that do not learn any more: the copies stay as they are. Does nothing for a model without a LeanStack
        and where oneDNN does not compute in its number format.
        """
        if self.stack is None or not can_pack(self.head.weight) or type(self.head) is not nn.Linear:
            return
        self.stack, self._project = self.stack.packed(), Linear.joined(self.head).packed()
        matrices = {id(part): part.nbytes for part in self.model.parameters() if part.dim() == 2}
        if self.head.weight is not self.stack.embedding:
            del matrices[id(self.stack.embedding)]
        self.packed_bytes = sum(matrices.values())

    @property
    def way(self) -> str:
        """How passes are made, which their cost depends on: "modules", "lean" or "packed"."""
        return "modules" if self.stack is None else "packed" if self.packed_bytes else "lean"

    def narrowed(self, vocab_size: int) -> TransformersTarget:
        """The same model without the logits from `vocab_size` on, which a partner's padded vocabulary lacks."""
        cut = copy.copy(self)
        cut.vocab_size = min(vocab_size, self.vocab_size)
        return cut

    def early_exit(self, layers: int) -> TransformersTarget:
        if not 1 <= layers < self.num_layers:
            raise UserError(
                f"exit_layer is {layers}, but {self.name} has {self.num_layers} layers: choose a layer "
                f"from 1 to {self.num_layers - 1}."
            )
        stack = getattr(self.base, "layers", None)
        if not isinstance(stack, nn.ModuleList):
            raise UserError(
                f"{self.name} ({type(self.model).__name__}) does not keep its layers as Llama-like models "
                "do, so it cannot exit early. Choose another method or model."
            )
        cut = copy.copy(self)
        cut.stack = self.stack and self.stack.first(layers)
        # A second view of the same modules: the registry of children is copied, the weights are not.
        cut.base = copy.copy(self.base)
        cut.base._modules = dict(self.base._modules)
        cut.base.layers = stack[:layers]
        config = copy.copy(self.config)
        config.num_hidden_layers = layers
        cut.base.config = config  # type: ignore[assignment]
        cut.num_layers = layers
        cut.name = f"{self.name}, first {layers} layers"
        return cut


def check_architecture(target: TransformersTarget) -> None:
    """Raise UserError unless the model honours tree masks, positions, and our reading of its head.

    Reads a token tree in one pass and compares a branch with the model's own plain forward of that branch. Costs two
    passes of a few tokens; run once after loading.
    """
    vocab = target.vocab_size
    ids = [(7 * at + 3) % vocab for at in range(6)]
    # A prefix of three tokens, then two branches of two: 3-4 and 5-6.
    branch = [(11 * at + 5) % vocab for at in range(2)]
    rows = [*ids[:5], *branch]
    positions = [0, 1, 2, 3, 4, 3, 4]
    mask = torch.tril(torch.ones(7, 7, dtype=torch.bool))
    mask[5:, 3:5] = False
    device = target.device
    cache = target.new_cache(1)
    cache.begin(torch.arange(7).unsqueeze(0), 7)
    inputs = (torch.tensor([rows], device=device), torch.tensor([positions], device=device))
    with torch.inference_mode():
        plain = target.model(input_ids=torch.tensor([[*ids[:3], *branch]], device=device), use_cache=False).logits
    theirs = plain[0, 3:].float()
    try:
        hidden = target.forward(*inputs, mask.unsqueeze(0).to(device), cache)[FINAL]
    except (RuntimeError, TypeError, ValueError) as error:  # whatever its modelling code makes of a 4-D mask
        raise UserError(
            f"{target.name} ({type(target.model).__name__}) cannot read a token tree ({error}). "
            "Choose a model of another architecture."
        ) from error
    ours = target.logits(hidden[0, 5:]).float()
    if theirs.isnan().any():
        raise UserError(
            f"{target.name} gives no numbers (NaN) in {str(target.head.weight.dtype).removeprefix('torch.')}: its "
            "weights are damaged, or too large for this number format. Fetch it again, or try float32."
        )
    tolerance = 1e-3 if target.head.weight.dtype == torch.float32 else 0.1
    if not torch.allclose(ours, theirs, atol=tolerance * float(theirs.abs().max()), rtol=0):
        raise UserError(
            f"{target.name} ({type(target.model).__name__}) does not give the same logits for a branch of a "
            "token tree as for the plain sequence, so trees cannot be verified on it. "
            "Choose a model of another architecture."
        )


def _eos_ids(model: PreTrainedModel) -> list[int]:
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None) if config is not None else None
        if ids is not None:
            return [ids] if isinstance(ids, int) else list(ids)
    return []
