"""What a pass costs on this machine, by the number of tokens that it reads."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import torch

from playground.decoding.executor import Executor, Pass, causal
from playground.decoding.target import TransformersTarget
from playground.models.medusa_heads import MedusaHeads

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
CONTEXT = 64  # tokens before: where the answer to a short prompt is


def pass_seconds(
    target: TransformersTarget, heads: MedusaHeads | None = None, sizes: tuple[int, ...] = SIZES, rounds: int = 9
) -> dict[int, float]:
    """{n: median seconds of a pass that reads n tokens after a short text}, logits of all n included.

    With `heads`, that of a step: they are asked once, on one row. More tokens never cost less: where they seem to, the
    cheaper measurement counts, since a pass can be padded.
    """
    executor = Executor(target)
    executor.cache.reserve(CONTEXT + max(sizes))

    def run(tokens: int) -> torch.Tensor:
        length = executor.cache.lengths[0]
        ids = [(7 * at + 3) % target.vocab_size for at in range(tokens)]
        rows = executor.run({0: Pass(ids, range(length, length + tokens), causal(tokens))})[0]
        last = rows.logits(slice(None)).argmax(-1)
        if heads is not None and length:
            with torch.inference_mode():
                heads(next(iter(rows.hidden.values()))[-1:], target.logits).topk(10)
        return last.cpu()  # waits for an accelerator

    run(CONTEXT)
    executor.cache.keep(0, range(CONTEXT))
    measured: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    for number in range(rounds + 1):  # round by round, so that a busy moment of the machine hits all sizes
        for tokens in sizes:
            began = perf_counter()
            run(tokens)
            if number:  # first calls pay for what later ones find ready
                measured[tokens].append(perf_counter() - began)
    typical = {tokens: median(seconds) for tokens, seconds in measured.items()}
    return {tokens: min(typical[more] for more in sizes if more >= tokens) for tokens in sizes}
