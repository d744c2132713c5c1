"""From logits to the distribution that is really sampled, and noise that does not depend on how many passes ran."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from playground.errors import UserError

MASK64 = (1 << 64) - 1
LEAST_TEMPERATURE = 0.001  # below it, logits of an ordinary size overflow float32


class Purpose(IntEnum):
    """What a uniform number is for. Each purpose has its own stream, so that no draw is used twice."""

    TARGET = 1  # the target's own token: plain, corrected or bonus
    ACCEPT = 2  # compared with p / q
    RESIDUAL = 3  # the token drawn after a rejection
    INNER = 4  # seeds the draws of a draft
    FILL = 5  # initial contents of a block


def uniform(seed: int, position: int, purpose: Purpose, index: int = 0) -> float:
    """A number in [0, 1) that is a function of its arguments alone: counter-based noise.

    `position` is the absolute position of the token in question; `index` tells siblings apart.
    """
    # 53 bits are what a float holds; 64 would round up to 1.
    return (_hash(seed, position, purpose, index) >> 11) / 2.0**53


def derived_seed(seed: int, purpose: Purpose) -> int:
    """A seed whose streams are independent of those of `seed`."""
    return _hash(seed, 0, purpose, 0)


def _hash(seed: int, position: int, purpose: Purpose, index: int) -> int:
    # SplitMix64's finaliser (Steele, Lea and Flood 2014) chained over the four counters.
    state = 0
    for value in (seed, position, int(purpose), index):
        state = (state + (value & MASK64) + 0x9E3779B97F4A7C15) & MASK64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK64
        state ^= state >> 31
    return state


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen from logits. Temperature 0 is greedy; 0, 1, 0 and 1 switch the rest off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0.0, 100.0)
        if 0 < self.temperature < LEAST_TEMPERATURE:
            raise UserError(
                f"temperature is {self.temperature}, which is too close to 0 to divide by. "
                f"Use 0 for the most probable token, or at least {LEAST_TEMPERATURE}."
            )
        _within("top_k", self.top_k, 0, math.inf)
        _within("top_p", self.top_p, 0.0, 1.0)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        if not -(2**63) <= self.seed < 2**64:
            raise UserError(f"The seed {self.seed} does not fit 64 bits. Choose a smaller whole number.")
        if self.top_p == 0:
            raise UserError("top_p is 0, which leaves no token to choose. Use a value above 0, or temperature 0.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def processed(self, logits: Tensor, seen: Tensor | None) -> Tensor:
        """Logits [n, V] after penalty, temperature, top-k, top-p and min-p, in transformers' order, as float32.

        `seen` (bool [n, V] or None) marks the ids in each row's prefix; it is needed for the penalty only. Greedy
        sampling applies the penalty and nothing else.
        """
        logits = logits.float()
        if seen is not None and self.repetition_penalty != 1:
            penalty = self.repetition_penalty
            logits = torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)
        if self.greedy:
            return logits
        logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            logits = logits.masked_fill(logits < logits.topk(self.top_k).values[..., -1:], -math.inf)
        if self.top_p < 1:
            ordered, order = logits.sort(descending=False)
            drop = ordered.softmax(-1).cumsum(-1) <= 1 - self.top_p
            drop[..., -1] = False
            logits = logits.masked_fill(drop.scatter(-1, order, drop), -math.inf)
        if self.min_p > 0:
            probs = logits.softmax(-1)
            logits = logits.masked_fill(probs < self.min_p * probs.amax(-1, keepdim=True), -math.inf)
        return logits


def draw(p: Tensor, u: float) -> int:
    """The token at `u` in [0, 1) of the cumulated probabilities p [V]: inverse transform sampling in id order.

    `p` need not sum to one. A token without probability is never drawn.
    """
    cumulated = p.double().cumsum(0)
    index = int(torch.searchsorted(cumulated, u * cumulated[-1], right=True))
    return index if index < p.shape[0] else int(p.nonzero()[-1])


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"between {low} and {high}"
        raise UserError(f"{name} is {value}; it must be a number {bounds}.")
