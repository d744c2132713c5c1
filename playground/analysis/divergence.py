"""Where two greedy outputs part, and whether rounding explains it.

Half precision rounds differently for passes of different widths, so a lossless method may part from the
autoregressive output where the target's first two choices lie closer together than its rounding: a tie. Anywhere
else a difference is a bug.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import torch

from playground.decoding.acceptance import TargetView
from playground.decoding.drafting import Outcome
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session
from playground.decoding.target import TargetModel
from playground.drafters.autoregressive import Autoregressive

# Rounding of the lead of one token over another between passes of width 1, 5, 27 and whole texts, in units of
# eps * max|logit|: at most 2.0 on SmolLM2-135M and 1.2 on the built-in family, bfloat16 and float16, on a CPU.
UNITS = 4.0
# In float32 the sums round too: at most 3e-5 on the same models, so the bound is that of the cache's own invariant.
LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between two outputs.

    `left` and `right` are the tokens there (None: that output has ended). `margin` is the lead of the target's first
    choice over its second, `lag` that of its first choice over the worse of the two tokens, both in processed logits
    of one plain pass over the common text; `tolerance` is how far rounding may move a lead.
    """

    position: int
    left: int | None
    right: int | None
    margin: float
    lag: float
    tolerance: float

    @property
    def verdict(self) -> Literal["tie", "bug"]:
        return "tie" if self.lag <= self.tolerance else "bug"


def compare(
    target: TargetModel, prompt_ids: Sequence[int], left: Sequence[int], right: Sequence[int], penalty: float = 1.0
) -> Divergence | None:
    """The first difference between two greedy outputs of `target` for a prompt; None if they are the same.

    `penalty` is the repetition penalty that both ran with. Costs one pass over prompt and common output.
    """
    parted = (at for at, (a, b) in enumerate(zip_longest(left, right)) if a != b)
    if (position := next(parted, None)) is None:
        return None
    listener = _Listener()
    text = [*prompt_ids, *left[:position]]
    Session(Executor(target), listener, text, Sampling(repetition_penalty=penalty), eos=False).step()
    logits = listener.view.logits(-1)
    first, second = logits.topk(2).values.tolist()
    ours, theirs = (output[position] if position < len(output) else None for output in (left, right))
    lag = max(math.inf if token is None else first - float(logits[token]) for token in (ours, theirs))
    raw = listener.view.raw
    tolerance = max(LEAST, UNITS * torch.finfo(raw.dtype).eps * float(raw[0].abs().max()))
    return Divergence(position, ours, theirs, first - second, lag, tolerance)


class _Listener(Autoregressive):
    """Guesses nothing and keeps what the target says."""

    view: TargetView

    def observe(self, outcome: Outcome) -> None:
        if outcome.judged is not None:
            self.view = outcome.judged
