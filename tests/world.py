"""Models on which every method of the registry can run: a table with known law, and tiny random transformers."""

from __future__ import annotations

import torch
from torch import Tensor

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.stopping import Stop
from playground.decoding.table import TableTarget
from playground.decoding.target import TargetModel
from playground.decoding.trace import Step
from playground.methods import METHODS, LaneModels, Method
from playground.models.medusa_trees import OwnTree

TREE = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]

# Settings under which a method has something to do on short texts and few tokens.
SMALL = {
    "lookahead": {"window": 4, "ngram": 3, "guesses": 4, "pool_from_prompt": True},
    "early-exit": {"exit_layer": 1},
    "naive-batching": {"batch": 3},
}


def table_heads(target: TableTarget, heads: int, blur: float = 0.0, seed: int = 0) -> callable:
    """Heads that roll the table forward along its most probable path: head i speaks of the token after the next."""
    noise = torch.randn(heads, target.vocab_size, generator=torch.Generator().manual_seed(seed)) * blur

    def run(hidden: Tensor) -> Tensor:
        context, out = hidden.long(), []
        for head in range(heads):
            token = target.table[tuple(context.unbind(-1))].argmax(-1, keepdim=True)
            context = torch.cat([context, token], -1)[..., 1:]
            out.append(target.table[tuple(context.unbind(-1))] + noise[head])
        return torch.stack(out)

    return run


def table_world(
    vocab: int = 6, order: int = 2, seed: int = 0, sharpness: float = 2.0, context: int = 400
) -> LaneModels:
    """A table target, a draft that disagrees with it now and then, and heads for both."""
    target = TableTarget.random(vocab, order, seed, sharpness, context)
    generator = torch.Generator().manual_seed(seed + 1)
    draft = TableTarget(target.table + 0.7 * torch.randn(target.table.shape, generator=generator), context)
    return LaneModels(
        target,
        draft,
        heads=table_heads(target, 3, 0.5),
        num_heads=3,
        draft_heads=table_heads(draft, 3, 0.5),
        num_draft_heads=3,
        tree=OwnTree(TREE),
        draft_tree=OwnTree(TREE),
    )


def run_method(
    method: Method,
    models: LaneModels,
    prompt: list[int],
    sampling: Sampling,
    *,
    settings: dict[str, object] | None = None,
    max_new_tokens: int = 40,
    stop: Stop | None = None,
    target: TargetModel | None = None,
    detail: bool = False,
) -> tuple[Session, list[Step]]:
    """One sequence of one method, with small settings unless others are given."""
    given = method.check(SMALL.get(method.id, {}) | (settings or {}))
    session = Session(
        Executor(target or models.target),
        method.build(models, given),
        prompt,
        sampling,
        rule=method.rule(given),
        max_new_tokens=max_new_tokens,
        stop=stop,
        detail=detail,
    )
    return session, list(decode([session]))


def baseline(models: LaneModels, prompt: list[int], sampling: Sampling, **rest: object) -> list[int]:
    """What autoregressive decoding emits."""
    session, _ = run_method(METHODS["autoregressive"], models, prompt, sampling, **rest)
    return session.output
