"""A small Llama that drafts for any target: it learns the target's own distribution on what the target wrote.

Leviathan et al. 2023 accept a draft's token with probability sum(min(p, q)); Zhou et al. 2023, "DistillSpec",
section 4, get there by distilling on text of the models themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from playground.decoding.drafting import Drafter
from playground.decoding.target import TransformersTarget
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.draft_model import DraftModel
from playground.errors import UserError
from playground.training.family import TEXT_WEIGHT, start_from
from playground.training.gathering import Clock, Learned, Wrote, gather
from playground.training.loop import Batches, Schedule, read_log, training
from playground.training.medusa import has_bfloat16
from playground.training.prompts import Prompts
from playground.training.publish import save_half
from playground.training.self_distillation import TextCount, Writing, read_texts
from playground.training.trial import Trial, try_out

EMBEDDINGS = ("trained", "frozen", "fresh")
MOST_LAYERS = 4
HEAD_SIZE = 64
INNER_RATIO = 2.5
VALIDATIONS = 20
GUESSES = 4  # tokens per draft in the trial


@dataclass(frozen=True)
class DraftPlan:
    """How large, and how it learns.

    `embeddings`: "trained" and "frozen" ones are the target's at the start, and tied to the draft's head; "fresh" ones
    are random. `width` None is the target's own, without which its embeddings cannot be taken over.
    """

    schedule: Schedule
    layers: int = 1
    width: int | None = None
    embeddings: str = "trained"
    patience: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.layers <= MOST_LAYERS:
            raise UserError(f"A draft of {self.layers} layers was asked for; give 1 to {MOST_LAYERS}.")
        if self.embeddings not in EMBEDDINGS:
            raise UserError(f"Embeddings cannot be {self.embeddings!r}. Choose one of {', '.join(EMBEDDINGS)}.")
        if self.width is not None and (self.width < HEAD_SIZE or self.width % HEAD_SIZE):
            raise UserError(f"The width {self.width} is no multiple of {HEAD_SIZE}. Choose one that is.")


@dataclass(frozen=True)
class DraftRecipe:
    plan: DraftPlan
    writing: Writing = field(default_factory=Writing)
    minutes: float | None = None


@dataclass(frozen=True)
class MadeDraft:
    """The draft lies in `folder`. On held-out text `overlap` is the mean sum(min(p, q)), `same_top` the share of
    positions where target and draft have the same most probable token."""

    folder: Path
    parameters: int
    overlap: float
    same_top: float
    trial: Trial


def build_draft(target: TransformersTarget, plan: DraftPlan) -> LlamaForCausalLM:
    """A float32 draft with the target's vocabulary and context; layers of a Llama target of the same width are copied.

    Raises UserError where the target's embeddings were asked for and do not fit.
    """
    theirs = target.model
    embedding = cast(Tensor, theirs.get_input_embeddings().weight)
    own_width = embedding.shape[1]
    width = plan.width or own_width
    alike = width == own_width and isinstance(theirs, LlamaForCausalLM)
    if alike:
        config = cast(LlamaConfig, copy.deepcopy(theirs.config))
        config.num_hidden_layers = plan.layers
        config.__dict__.pop("exit_layer", None)  # the target's own, and deeper than the draft
    else:
        heads = max(1, int(width) // HEAD_SIZE)
        config = LlamaConfig(
            vocab_size=len(embedding),
            hidden_size=width,
            num_hidden_layers=plan.layers,
            intermediate_size=int(INNER_RATIO * width) // 64 * 64,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=width // heads,
            max_position_embeddings=target.context_length,
            bos_token_id=target.config.bos_token_id,
            eos_token_id=sorted(target.eos_ids) or None,
        )
    config.tie_word_embeddings = True
    config.dtype = torch.float32
    torch.manual_seed(0)
    draft = LlamaForCausalLM(config)
    if plan.embeddings != "fresh":
        if width != own_width:
            raise UserError(
                f"The embeddings of {target.name} are {own_width} wide and cannot be those of a draft of width "
                f"{width}. Leave the width out, or ask for fresh embeddings."
            )
        draft.model.embed_tokens.weight.data.copy_(embedding)
        if alike and isinstance(theirs, LlamaForCausalLM):
            start_from(draft, theirs)
    draft.model.embed_tokens.weight.requires_grad_(plan.embeddings != "frozen")
    return nn.Module.to(draft, target.device)  # transformers hides the types of its own


def make_draft(
    target: TransformersTarget,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    recipe: DraftRecipe,
    work: Path,
    out: Path,
) -> Iterator[Wrote | Learned | MadeDraft]:
    """A draft for `target` in the folder `out`. Resumable in `work`, closed or killed at any moment."""
    clock, plan = Clock(recipe.minutes, work), recipe.plan
    count = TextCount()
    for wrote in gather(target, prompts, recipe.writing, work, clock):
        count = wrote.count
        yield wrote
    draft = build_draft(target, plan)
    seen, held_out = (_stream(work / part, target) for part in ("seen", "held_out"))
    loss = _distillation(draft, target)

    def once() -> None:
        loss(Batches(seen, plan.schedule, seed=1)(0).to(target.device)).backward()
        draft.zero_grad(set_to_none=True)

    _check_length(seen, plan.schedule, work)
    schedule = clock.fitting(plan.schedule, once)
    batches = Batches(seen, schedule, seed=1)

    def validate() -> dict[str, float]:
        found = agreement(draft, target, held_out, schedule.row_tokens)
        return {"held_out_loss": found[0], "overlap": found[1], "accuracy_1": found[2]}

    for line in training(
        draft,
        loss,
        lambda step: batches(step).to(target.device),
        schedule,
        work,
        validate=validate,
        validate_every=max(1, schedule.steps // VALIDATIONS),
        patience=plan.patience,
        checkpoint_seconds=20.0,
        compiled=False,
    ):
        yield Learned(line, schedule.steps)
    draft.eval().requires_grad_(False)
    _, overlap, same_top = agreement(draft, target, held_out, schedule.row_tokens)
    nn.Module.to(draft, target.head.weight.dtype)
    quick = TransformersTarget(draft, f"draft of {target.name}", target.eos_ids)

    def drafter() -> Drafter:
        return DraftModel(quick, Autoregressive, GUESSES, target.vocab_size)

    trial = try_out(target, drafter, prompts.held_out)
    parameters = sum(weight.numel() for weight in draft.parameters())
    made = MadeDraft(out, parameters, overlap, same_top, trial)
    save_half(draft, tokenizer, out)
    _write_card(made, target, plan, count, work)
    yield made


def _distillation(draft: LlamaForCausalLM, target: TransformersTarget) -> Callable[[Tensor], Tensor]:
    """KL(target || draft) per position, and a little of the text's own cross-entropy."""
    narrow = has_bfloat16(target.device)

    def loss(ids: Tensor) -> Tensor:
        inputs, labels = ids[:, :-1], ids[:, 1:]
        wanted = F.log_softmax(target_logits(target, inputs), dim=-1)
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=narrow):
            logits = draft(input_ids=inputs, use_cache=False).logits
        said = F.log_softmax(logits.float(), dim=-1)
        divergence = F.kl_div(said, wanted, reduction="none", log_target=True).sum(-1).mean()
        return divergence + TEXT_WEIGHT * F.nll_loss(said.flatten(0, 1), labels.flatten())

    return loss


@torch.no_grad()
def target_logits(target: TransformersTarget, ids: Tensor) -> Tensor:
    """Logits [B, T, V] in float32."""
    logits: Tensor = target.model(input_ids=ids, use_cache=False).logits
    return logits.float()


@torch.no_grad()
def agreement(
    draft: LlamaForCausalLM, target: TransformersTarget, ids: NDArray[np.int64], row_tokens: int
) -> tuple[float, float, float]:
    """Over a text, read in rows: mean KL(target || draft) in nats, mean sum(min(p, q)), share of the same most
    probable token."""
    divergence = overlap = same = 0.0
    for start in range(0, len(ids), row_tokens):
        row = torch.from_numpy(ids[None, start : start + row_tokens]).to(target.device)
        wanted = F.log_softmax(target_logits(target, row), dim=-1)
        said = F.log_softmax(draft(input_ids=row, use_cache=False).logits.float(), dim=-1)
        divergence += F.kl_div(said, wanted, reduction="sum", log_target=True).item()
        overlap += torch.minimum(wanted, said).exp().sum().item()
        same += (wanted.argmax(-1) == said.argmax(-1)).sum().item()
    return divergence / len(ids), overlap / len(ids), same / len(ids)


def _stream(folder: Path, target: TransformersTarget) -> NDArray[np.int64]:
    """All texts one after the other, an end-of-sequence token after each."""
    end = sorted(target.eos_ids)[:1]
    return np.array([token for text in read_texts(folder) for token in (*text.ids, *end)], dtype=np.int64)


def _check_length(ids: NDArray[np.int64], schedule: Schedule, work: Path) -> None:
    needed = schedule.batch_tokens + 2 * schedule.row_tokens
    if len(ids) < needed:
        raise UserError(
            f"The text in {work} has {len(ids):,} tokens, but a step reads {needed:,}. Ask for more texts, or for "
            "smaller batches."
        )


def _write_card(made: MadeDraft, target: TransformersTarget, plan: DraftPlan, count: TextCount, work: Path) -> None:
    log = read_log(work)
    (made.folder / "README.md").write_text(
        f"---\nlicense: apache-2.0\nlibrary_name: transformers\ntags: [speculative-decoding]\n---\n"
        f"# Draft for {target.name}\n\n{plan.layers} layers, {made.parameters:,} parameters, embeddings "
        f"{plan.embeddings}. Distilled on {count.kept:,} texts that {target.name} wrote itself ({count.cut:,} cut "
        f"where they began to repeat themselves): {len(log):,} steps, {sum(line['tokens'] for line in log):,.0f} "
        "tokens read.\n\n"
        f"On held-out text: sum(min(p, q)) {made.overlap:.3f}, same most probable token {made.same_top:.1%}.\n\n"
        f"In use, {GUESSES} tokens a draft: {made.trial}.\n",
        encoding="utf-8",
    )
