"""Fresh heads in use: what they are really worth, before anybody else uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from playground.decoding.drafting import Drafter
from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode, race
from playground.decoding.target import TransformersTarget
from playground.decoding.trace import Step, summarize, throughput
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.medusa import Medusa
from playground.models.medusa_heads import MedusaHeads
from playground.training.tree_search import Path


@dataclass(frozen=True)
class Trial:
    """Greedy runs over held-out prompts, `tokens` in all. `speedup`: tokens per second over those of autoregressive
    decoding, which ran side by side."""

    prompts: int
    tokens: int
    mean_acceptance_length: float
    tokens_per_pass: float
    speedup: float


def try_heads(
    target: TransformersTarget,
    heads: MedusaHeads,
    tree: Sequence[Path],
    prompts: Sequence[list[int]],
    new_tokens: int = 48,
) -> Trial:
    """Decode `prompts` greedily with heads and tree, and without."""

    def guess(hidden: Tensor) -> Tensor:
        logits: Tensor = heads(hidden, target.logits)
        return logits

    def lane(drafter: Drafter, prompt: list[int]) -> Session:
        room = target.context_length - new_tokens
        return Session(Executor(target), drafter, prompt[-room:], max_new_tokens=new_tokens)

    fast, plain = list[Step](), list[Step]()
    tokens = passes = accepted = speculated = 0
    for prompt in prompts:
        ours, theirs = lane(Medusa(guess, heads.num_heads, tree), prompt), lane(Autoregressive(), prompt)
        ran: tuple[list[Step], list[Step]] = ([], [])
        for which, step in race([decode([ours]), decode([theirs])]):
            ran[which].append(step)
        summary = summarize(ran[0])
        tokens += len(summary.output_token_ids)
        passes += summary.target_forwards
        accepted += summary.num_accepted_draft_tokens
        speculated += summary.num_spec_steps
        fast += ran[0]
        plain += ran[1]
    return Trial(
        len(prompts),
        tokens,
        1 + accepted / max(1, speculated),
        tokens / max(1, passes),
        throughput(fast) / throughput(plain) if plain else 1.0,
    )
