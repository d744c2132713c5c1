"""Something fresh in use: what heads or a draft are really worth, before anybody else uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from playground.decoding.drafting import Drafter
from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode, race
from playground.decoding.target import TransformersTarget
from playground.decoding.trace import Step, throughput
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.medusa import Medusa
from playground.models.medusa_heads import MedusaHeads
from playground.training.tree_search import Path

PROMPTS = 8


@dataclass(frozen=True)
class Trial:
    """Greedy runs over held-out prompts, `tokens` in all. `speedup`: tokens per second over those of autoregressive
    decoding, which ran side by side."""

    prompts: int
    tokens: int
    mean_acceptance_length: float
    tokens_per_pass: float
    speedup: float

    def __str__(self) -> str:
        return (
            f"tried on {self.prompts} held-out prompts, greedy, {self.tokens} tokens: mean acceptance length "
            f"{self.mean_acceptance_length:.2f}, {self.tokens_per_pass:.2f} tokens a pass, prefill counted; "
            f"{self.speedup:.2f} times the tokens per second of autoregressive decoding"
        )


def medusa(target: TransformersTarget, heads: MedusaHeads, tree: Sequence[Path]) -> Callable[[], Drafter]:
    """What makes drafters of these heads, which lie where the target does and in its number format."""

    def guess(hidden: Tensor) -> Tensor:
        logits: Tensor = heads(hidden, target.logits)
        return logits

    return lambda: Medusa(guess, heads.num_heads, tree)


def try_out(
    target: TransformersTarget, drafter: Callable[[], Drafter], prompts: Sequence[list[int]], new_tokens: int = 48
) -> Trial:
    """Decode the first PROMPTS of `prompts` greedily with a drafter, and without."""

    def lane(drafter: Drafter, prompt: list[int]) -> Session:
        room = target.context_length - new_tokens
        return Session(Executor(target), drafter, prompt[-room:], max_new_tokens=new_tokens)

    prompts = prompts[:PROMPTS]
    fast, plain = list[Step](), list[Step]()
    for prompt in prompts:
        ours, theirs = lane(drafter(), prompt), lane(Autoregressive(), prompt)
        for which, step in race([decode([ours]), decode([theirs])]):
            (fast, plain)[which].append(step)
    guessed = [step.accepted for step in fast if step.nodes]
    tokens = sum(len(step.emitted) for step in fast)
    return Trial(
        len(prompts),
        tokens,
        1 + sum(guessed) / max(1, len(guessed)),
        tokens / max(1, sum(step.forwards for step in fast)),
        throughput(fast) / throughput(plain) if plain else 1.0,
    )
