"""Medusa-2: the base learns together with its heads, so that it becomes easier to foresee, and is held to what it was.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", sections 2.2.2
(combined loss, two learning rates, heads first) and 2.3.2 (the original's distribution as the base's teacher). What
comes out is another model with heads inside: with them it decodes its own text without loss, not the original's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.models.medusa_heads import PREFIX, MedusaHeads, save_tree
from playground.training.gathering import Learned
from playground.training.loop import Schedule, training
from playground.training.make_heads import Made, judge, write_card
from playground.training.medusa import decayed_loss, has_bfloat16, label_ranks
from playground.training.prompts import Prompts
from playground.training.self_distillation import NO_LABEL, Positions, Text, read_texts

VALIDATIONS = 10
READ_AT_ONCE = 16
MAX_FILE_SIZE = "9MB"  # plain git repositories on the hub refuse files of 10 MB and more


@dataclass(frozen=True)
class TogetherPlan:
    """`schedule.peak` is the base's learning rate, with `schedule.warmup`; the heads learn `head_rate` times as fast.

    The loss is the base's cross-entropy on its text, `original_weight` times KL(original || base), and `head_weight`
    times the heads' loss, which grows from nothing along a quarter of a sine over the first `ramp` of the steps.
    """

    schedule: Schedule
    head_weight: float = 0.2
    head_rate: float = 4.0
    original_weight: float = 1.0
    head_decay: float = 0.8
    ramp: float = 0.3

    def head_weight_at(self, step: int) -> float:
        done = step / max(1.0, self.ramp * self.schedule.steps)
        return self.head_weight * math.sin(math.pi / 2 * min(1.0, done))


@dataclass(frozen=True)
class Rows:
    """Texts padded to one width: ids [B, T]; `labels` [B, T - 1, 1 + K], the next token and those of the heads,
    NO_LABEL in prompts and padding; `head_weight` of this step."""

    ids: Tensor
    labels: Tensor
    head_weight: float


class Together(nn.Module):
    """A copy of the base that may learn, and its heads."""

    def __init__(self, base: PreTrainedModel, heads: MedusaHeads) -> None:
        super().__init__()
        self.base = copy.deepcopy(base).float().requires_grad_(True)
        self.heads = copy.deepcopy(heads).float().requires_grad_(True)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids [B, T] -> the base's logits [B, T, V] and the heads' [K, B, T, V]."""
        hidden = self.base.base_model(input_ids=ids, use_cache=False).last_hidden_state
        lm_head = cast(nn.Linear, self.base.get_output_embeddings())
        logits = self.heads(hidden.flatten(0, 1), lm_head)
        return lm_head(hidden), logits.unflatten(1, ids.shape)


def train_together(
    target: TransformersTarget,
    heads: MedusaHeads,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    plan: TogetherPlan,
    work: Path,
    out: Path,
    nodes: int | None = None,
) -> Iterator[Learned | Made]:
    """Base and trained `heads` go on learning together on the text in `work`, where make_heads left it.

    `target` stays as it is; `out` becomes a full checkpoint in the official layout, heads inside. Resumable in `work`.
    """
    model, original = Together(target.model, heads).train(), target.model
    seen, held_out = read_texts(work / "seen"), read_texts(work / "held_out")
    if not seen or not held_out:
        raise UserError(f"There is no text in {work}: train heads there first.")
    count, device = heads.num_heads, target.device

    def batches(step: int) -> Rows:
        size = max(1, plan.schedule.batch_tokens // plan.schedule.row_tokens)
        epoch, start = divmod(step * size, max(size, len(seen) // size * size))
        order = np.random.default_rng(epoch).permutation(len(seen))[start : start + size]
        return _rows([seen[at] for at in order], count, plan.schedule.row_tokens, plan.head_weight_at(step), device)

    @torch.no_grad()
    def validate() -> dict[str, float]:
        model.eval()
        parts = [held_out[at : at + READ_AT_ONCE] for at in range(0, len(held_out), READ_AT_ONCE)]
        found = [_losses(model, original, _rows(part, count, 10**6, plan.head_weight, device), plan) for part in parts]
        model.train()
        base, away, ours = (sum(losses[i].item() for losses in found) / len(found) for i in range(3))
        return {"held_out_base": base, "held_out_kl": away, "held_out_heads": ours}

    def loss(rows: Rows) -> Tensor:
        base, away, ours = _losses(model, original, rows, plan)
        return base + plan.original_weight * away + rows.head_weight * ours

    for line in training(
        model,
        loss,
        batches,
        plan.schedule,
        work / "together",
        validate=validate,
        validate_every=max(1, plan.schedule.steps // VALIDATIONS),
        checkpoint_seconds=20.0,
        compiled=False,
        rates=lambda name: plan.head_rate if name.startswith("heads.") else 1.0,
    ):
        yield Learned(line, plan.schedule.steps)
    model.eval().requires_grad_(False).to(target.head.weight.dtype)
    trained = TransformersTarget(model.base, f"{target.name}, trained with its heads", target.eos_ids)
    positions = read_again(trained, held_out, count)
    ranks = label_ranks(model.heads, trained.head, positions)
    made = judge(trained, model.heads, ranks, positions.greedy, nodes, prompts, out)
    _save(model, tokenizer, made, out)
    kl = validate()["held_out_kl"]
    write_card(
        made,
        trained.name,
        f"A full checkpoint: the base learned together with {count} heads (Medusa-2) on {len(seen):,} texts that the "
        f"original wrote itself. On held-out text KL(original || base) is {kl:.4f} nats a token: its greedy text is "
        "not always the original's.",
    )
    yield made


def _losses(
    model: Together, original: PreTrainedModel, rows: Rows, plan: TogetherPlan
) -> tuple[Tensor, Tensor, Tensor]:
    """The base's cross-entropy, KL(original || base), and the heads' decayed loss, where there are labels."""
    ids = rows.ids[:, :-1]
    with torch.no_grad():
        wanted = original(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)
    with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=has_bfloat16(ids.device)):
        base, heads = model(ids)
    said = base.float().log_softmax(-1).flatten(0, 1)
    labels = rows.labels.flatten(0, 1)
    written = labels[:, 0] != NO_LABEL
    away = F.kl_div(said, wanted.flatten(0, 1), reduction="none", log_target=True).sum(-1)[written].mean()
    text = F.nll_loss(said, labels[:, 0], ignore_index=NO_LABEL)
    return text, away, decayed_loss(heads.flatten(1, 2), labels[:, 1:], plan.head_decay)


def _rows(texts: list[Text], num_heads: int, most: int, head_weight: float, device: torch.device) -> Rows:
    width = min(most + 1, max(len(text.ids) for text in texts))
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    labels = torch.full((len(texts), width - 1, 1 + num_heads), NO_LABEL)
    for row, text in enumerate(texts):
        tokens = torch.tensor(text.ids)
        ids[row, : len(tokens)] = tokens[:width]
        tokens[: text.prompt] = NO_LABEL
        for column in range(1 + num_heads):
            ahead = tokens[1 + column :][: width - 1]
            labels[row, : len(ahead), column] = ahead
    return Rows(ids.to(device), labels.to(device), head_weight)


@torch.inference_mode()
def read_again(target: TransformersTarget, texts: list[Text], num_heads: int) -> Positions:
    """Positions of `texts` with the hidden states that `target` has in them now."""
    hidden, labels, greedy = [], [], []
    for at in range(0, len(texts), READ_AT_ONCE):
        part = texts[at : at + READ_AT_ONCE]
        rows = _rows(part, num_heads, 10**6, 0.0, target.device)
        states = target.model.base_model(input_ids=rows.ids[:, :-1], use_cache=False).last_hidden_state
        wanted = rows.labels[..., 1:]
        used = (wanted != NO_LABEL).any(-1)
        hidden.append(states[used].cpu())
        labels.append(wanted[used].cpu())
        heat = torch.tensor([text.temperature for text in part]) == 0
        greedy.append(heat.unsqueeze(1).expand(used.shape)[used.cpu()])
    return Positions(torch.cat(hidden), torch.cat(labels), torch.cat(greedy))


def _save(model: Together, tokenizer: PreTrainedTokenizerBase, made: Made, out: Path) -> None:
    """One checkpoint of base and heads, `medusa_head.` before the heads' names, and the tree beside it."""
    config = model.base.config
    config.medusa_num_heads, config.medusa_num_layers = model.heads.num_heads, model.heads.num_layers
    out.mkdir(parents=True, exist_ok=True)
    config.update(save_tree(made.tree.own, out))
    inside = {PREFIX + name: weight for name, weight in model.heads.state_dict().items()}
    model.base.save_pretrained(out, state_dict={**model.base.state_dict(), **inside}, max_shard_size=MAX_FILE_SIZE)
    tokenizer.save_pretrained(out)
