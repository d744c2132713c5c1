"""Medusa heads learn on what the base model wrote; the base stays as it is.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", section 2.2.1
(Medusa-1).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from playground.errors import UserError
from playground.models.medusa_heads import MedusaHeads
from playground.training.loop import Schedule, training
from playground.training.self_distillation import NO_LABEL, Positions

MOST_HEADS = 10
RANKS = 32  # guesses of a head that are looked at
VALIDATIONS = 20  # of a run that is not stopped early
VARIANTS = ("shared-head", "own-vocabulary", "linear")


@dataclass(frozen=True)
class HeadsPlan:
    """What heads, and how they learn.

    `variant`: "shared-head" heads end with the base's vocabulary matrix (the "v2" layout), "own-vocabulary" heads with
    one of their own ("v1"); "linear" heads are that matrix alone. Later heads count less: head i by `head_decay ** i`.
    With `candidates`, a step's labels compete with so many other tokens of the vocabulary, drawn anew each step, in
    place of all: of a large vocabulary that is most of the work.
    No position is read more than `epochs` times: after that heads only learn by heart, and the schedule's decay would
    come too late. Training ends earlier once the held-out loss has not fallen for `patience` validations.
    """

    schedule: Schedule
    num_heads: int = 4
    blocks: int = 1
    variant: str = "shared-head"
    head_decay: float = 0.8
    epochs: int = 5
    patience: int = 4
    candidates: int | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise UserError(f"There are no {self.variant!r} heads. Choose one of {', '.join(VARIANTS)}.")
        if not 1 <= self.num_heads <= MOST_HEADS or not 0 <= self.blocks <= 8:
            raise UserError(
                f"{self.num_heads} heads of {self.blocks} layers were asked for; give 1 to {MOST_HEADS} heads of "
                "at most 8."
            )
        if self.variant == "shared-head" and self.blocks == 0:
            raise UserError("A shared head without a layer is the base's own: ask for at least one layer.")
        if self.candidates is not None and (self.candidates < 1 or self.variant != "shared-head"):
            raise UserError(
                f"{self.candidates} candidates were asked for with {self.variant} heads; give at least 1, and "
                "shared-head: matrices of their own have to learn about every token."
            )

    @property
    def layers(self) -> int:
        """Blocks per head."""
        return 0 if self.variant == "linear" else self.blocks


def new_heads(lm_head: nn.Linear, plan: HeadsPlan) -> MedusaHeads:
    """Float32 heads for the base whose vocabulary matrix is `lm_head`'s; matrices of their own start as its copies."""
    vocab_size, hidden_size = lm_head.weight.shape
    own = plan.variant != "shared-head"
    heads = MedusaHeads(hidden_size, plan.num_heads, plan.layers, vocab_size if own else None)
    if own:
        heads.start_from(lm_head.weight)
    return heads.to(lm_head.weight.device)


def learn(
    heads: MedusaHeads, lm_head: nn.Linear, seen: Positions, held_out: Positions, plan: HeadsPlan, work: Path
) -> Iterator[dict[str, float]]:
    """Train `heads` in place on `seen`; yields the log line of every step, resumable in `work`.

    `plan.schedule.batch_tokens` counts positions. Validations add the held-out loss and each head's top-1 accuracy
    (`accuracy_1`, ...), that on greedy text where there is some. At the end the heads are those of the lowest
    held-out loss.
    """
    size, device = plan.schedule.batch_tokens, lm_head.weight.device
    weight = lm_head.weight.detach().float()
    narrow = has_bfloat16(device)

    def losses(positions: Positions, among: Candidates | None = None) -> tuple[Tensor, Tensor]:
        rows, bias, labels = weight, None, positions.labels
        if among is not None:
            rows, bias, labels = weight[among.tokens], among.bias, among.labels
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=narrow):
            logits = heads(positions.hidden.float(), lambda features: F.linear(features, rows, bias))
        return decayed_loss(logits, labels, plan.head_decay), logits

    def loss(positions: Positions) -> Tensor:
        size = plan.candidates
        if size is None or size + positions.labels.numel() >= len(weight):
            return losses(positions)[0]
        return losses(positions, draw_candidates(positions.labels, len(weight), size))[0]

    batches = _Shuffled(seen, size, device)
    judged = held_out.greedy if held_out.greedy.any() else ~held_out.greedy

    @torch.no_grad()
    def validate() -> dict[str, float]:
        total, hits, counts = 0.0, torch.zeros(heads.num_heads), torch.zeros(heads.num_heads)
        for part, counted in zip(held_out.parts(size), judged.split(size), strict=True):
            one, logits = losses(part.to(device))
            total += one.item() * len(part)
            wanted = part.labels[counted].T
            hits += (logits.argmax(-1).cpu()[:, counted] == wanted).sum(1)
            counts += (wanted != NO_LABEL).sum(1)
        shares = (hits / counts.clamp(min=1)).tolist()
        return {"held_out_loss": total / len(held_out)} | {f"accuracy_{i}": one for i, one in enumerate(shares, 1)}

    yield from training(
        heads,
        loss,
        batches,
        plan.schedule,
        work,
        validate=validate,
        validate_every=max(1, plan.schedule.steps // VALIDATIONS),
        patience=plan.patience,
        checkpoint_seconds=10.0,
        compiled=False,
    )
    heads.eval()


class _Shuffled:
    """Batches of positions in an order that depends on the step alone, each position once an epoch."""

    def __init__(self, positions: Positions, size: int, device: torch.device) -> None:
        self._positions, self._size, self._device = positions, size, device
        self._order: tuple[int, Tensor] | None = None

    def __call__(self, step: int) -> Positions:
        count = len(self._positions)
        epoch, start = divmod(step * self._size, max(self._size, count // self._size * self._size))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, torch.from_numpy(np.random.default_rng(epoch).permutation(count))
        return self._positions.rows(self._order[1][start : start + self._size]).to(self._device)


@dataclass(frozen=True)
class Candidates:
    """`tokens` [C] of the vocabulary, the `bias` [C] of their logits, and the labels [N, K] as places among them."""

    tokens: Tensor
    bias: Tensor
    labels: Tensor


def draw_candidates(labels: Tensor, vocab_size: int, size: int) -> Candidates:
    """The labels' own tokens and `size` of the others, of which there are more; each stands for its share of them.

    With the logarithm of that share added to its logit, the sum under the softmax is right in expectation (importance
    sampling of the normaliser: Bengio and Senecal 2008, "Adaptive Importance Sampling to Accelerate Training of a
    Neural Probabilistic Language Model", section II, with a uniform proposal).
    """
    known = labels != NO_LABEL
    own, places = labels[known].unique(return_inverse=True)
    others = torch.ones(vocab_size, dtype=torch.bool, device=labels.device)
    others[own] = False
    rest = others.nonzero().squeeze(1)
    drawn = rest[torch.randperm(len(rest))[:size].to(rest.device)]
    bias = torch.zeros(len(own) + len(drawn), device=labels.device)
    bias[len(own) :] = math.log(len(rest) / size)
    relabelled = torch.full_like(labels, NO_LABEL)
    relabelled[known] = places
    return Candidates(torch.cat([own, drawn]), bias, relabelled)


def decayed_loss(logits: Tensor, labels: Tensor, decay: float) -> Tensor:
    """Sum over the heads i of `decay ** i` times the mean cross-entropy where there is a label.

    Logits [heads, N, V], labels [N, heads]; a head without any label counts nothing.
    """
    total = logits.new_zeros((), dtype=torch.float32)
    for i, head in enumerate(logits):
        labelled = (labels[:, i] != NO_LABEL).sum().clamp(min=1)
        total = (
            total
            + decay**i * F.cross_entropy(head.float(), labels[:, i], ignore_index=NO_LABEL, reduction="sum") / labelled
        )
    return total


@torch.no_grad()
def label_ranks(heads: MedusaHeads, lm_head: nn.Linear, positions: Positions) -> Tensor:
    """ranks [N, K]: which guess of head i is the text's token, RANKS where none of the first is; NO_LABEL without one.

    As in use: heads and hidden states in the number format of the base.
    """
    weight = lm_head.weight
    heads = copy.deepcopy(heads).to(weight)
    found = []
    for part in positions.parts(2048):
        guesses = heads(part.hidden.to(weight), lm_head).topk(min(RANKS, len(weight))).indices.cpu()  # [K, n, RANKS]
        hits = guesses == part.labels.T[..., None]
        ranks = torch.where(hits.any(-1), hits.int().argmax(-1), RANKS).T
        found.append(torch.where(part.labels == NO_LABEL, NO_LABEL, ranks))
    return torch.cat(found)


def accuracy_by_rank(ranks: Tensor) -> list[list[float]]:
    """accuracy[i][r]: share of positions where head i's guess number r is the text's token, r < RANKS.

    Each head is divided by the positions that have a label for it, which are fewer for later heads.
    """
    counts = (ranks != NO_LABEL).sum(0).clamp(min=1)
    hits = torch.stack([(ranks == rank).sum(0) for rank in range(RANKS)], 1)
    accuracy: list[list[float]] = (hits / counts.unsqueeze(1)).tolist()
    return accuracy


def has_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are quicker there than in float32; CPUs without the instructions emulate them."""
    return device.type != "cpu" or bool(torch.cpu.get_capabilities().get("avx512_bf16"))
