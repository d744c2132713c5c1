"""All there is to do for Medusa heads: write text, learn, measure, find the tree, publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from playground.analysis.cost_curve import interpolated, pass_seconds
from playground.decoding.target import TransformersTarget
from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.training.gathering import Clock, Judging, Learned, Wrote, gather
from playground.training.loop import read_log
from playground.training.medusa import (
    RANKS,
    HeadsPlan,
    accuracy_by_rank,
    decayed_loss,
    label_ranks,
    learn,
    new_heads,
)
from playground.training.prompts import Prompts
from playground.training.self_distillation import NO_LABEL, Positions, TextCount, Writing, read_positions
from playground.training.tree_search import Chances, FoundTree, by_paths, fastest_tree, search_tree, where_steps_begin
from playground.training.trial import Trial, medusa, try_out

ACCURACY_FILE = "medusa_accuracy.json"

Accuracy = list[list[float]]


@dataclass(frozen=True)
class Made:
    """The heads lie in `folder`. `accuracy` on held-out text, "greedy" and "sampled", by head and rank. `cost` is the
    seconds of a step by the tokens in its pass, where the number of nodes was chosen by it."""

    folder: Path
    tree: FoundTree
    accuracy: dict[str, Accuracy]
    cost: dict[int, float] | None
    trial: Trial


Event = Wrote | Learned | Judging | Made


@dataclass(frozen=True)
class Recipe:
    """`nodes` of the tree, None for the number that is fastest on this machine. `learn_prompts` takes the prompts
    themselves as examples too. `minutes` is the time for everything, None for as long as it takes."""

    plan: HeadsPlan
    writing: Writing = field(default_factory=Writing)
    nodes: int | None = None
    learn_prompts: bool = False
    minutes: float | None = None


def make_heads(
    target: TransformersTarget, prompts: Prompts, recipe: Recipe, work: Path, out: Path
) -> Generator[Event, None, None]:
    """Heads for `target` in the folder `out`. Resumable in `work`: closed or killed at any moment, it goes on there."""
    clock, plan, head = Clock(recipe.minutes, work), recipe.plan, target.head
    count = TextCount()
    for wrote in gather(target, prompts, recipe.writing, work, clock):
        count = wrote.count
        yield wrote
    seen = read_positions(work / "seen", plan.num_heads, recipe.learn_prompts)
    held_out = read_positions(work / "held_out", plan.num_heads)

    sample = seen.rows(slice(0, plan.schedule.batch_tokens)).to(target.device)
    spare, weight = new_heads(head, plan), head.weight.float()

    def once() -> None:
        logits = spare(sample.hidden.float(), lambda features: F.linear(features, weight))
        decayed_loss(logits, sample.labels, plan.head_decay).backward()

    enough = plan.schedule.shortened(max(10, plan.epochs * len(seen) // plan.schedule.batch_tokens))
    plan = replace(plan, schedule=clock.fitting(enough, once))
    heads = new_heads(head, plan)
    for line in learn(heads, head, seen, held_out, plan, work):
        yield Learned(line, plan.schedule.steps)
    yield Judging()
    heads.to(head.weight)
    made = judge(target, heads, label_ranks(heads, head, held_out), held_out.greedy, recipe.nodes, prompts, out)
    save_heads(heads.half(), out, target.name, made.tree.own, pickled=False)
    write_card(made, target.name, _story(seen, count, recipe, work))
    yield made


def judge(
    target: TransformersTarget,
    heads: MedusaHeads,
    ranks: Tensor,
    greedy: Tensor,
    nodes: int | None,
    prompts: Prompts,
    out: Path,
) -> Made:
    """Accuracies and tree from the `ranks` [N, K] of held-out labels, and a trial of both. `greedy` [N] tells greedy
    text from sampled.

    The tree is searched on greedy text, where there is some: greedy is what is most asked for. It is searched twice,
    the second time over the positions from which steps with the first one set out.
    """
    kinds = {"greedy": ranks[greedy], "sampled": ranks[~greedy]}
    kinds = {name: part for name, part in kinds.items() if len(part)}
    judged = kinds.get("greedy", ranks)
    right = [tuple(path) for path in judged[(judged != NO_LABEL).all(1)].tolist()]
    cost: dict[int, float] | None = None
    find: Callable[[Chances], FoundTree]
    if nodes is None:
        cost = pass_seconds(target, heads)
        find = partial(fastest_tree, seconds=interpolated(cost))
    else:
        find = partial(search_tree, nodes=nodes)

    def search(positions: list[tuple[int, ...]]) -> FoundTree:
        return find(by_paths(positions, min(RANKS, target.vocab_size)))

    tree = search(where_steps_begin(right, search(right).paths))
    accuracy = {name: accuracy_by_rank(part) for name, part in kinds.items()}
    return Made(out, tree, accuracy, cost, try_out(target, medusa(target, heads, tree.paths), prompts.held_out))


def _story(seen: Positions, count: TextCount, recipe: Recipe, work: Path) -> str:
    """How the heads came about, for their card."""
    plan, log = recipe.plan, read_log(work)
    losses = [line["held_out_loss"] for line in log if "held_out_loss" in line]
    temperatures = " and ".join(f"{heat:g}" for heat in recipe.writing.temperatures)
    return (
        f"{plan.num_heads} heads ({plan.variant}, {plan.layers} layers each), trained on {len(seen):,} positions of"
        f"{' prompts and' if recipe.learn_prompts else ''} text that the model wrote itself after them, in turn at "
        f"temperature {temperatures}; {seen.greedy.float().mean():.0%} of the positions are greedy. Of {count.all:,} "
        f"texts, {count.cut:,} were cut where they began to repeat themselves, and of {count.dropped:,} nothing was "
        f"left. {len(log):,} steps of {plan.schedule.batch_tokens:,} positions; lowest held-out loss "
        f"{min(losses):.3f} (sum over the heads, head i counted {plan.head_decay:g}^i times)."
    )


def write_card(made: Made, base: str, story: str) -> None:
    """Write accuracies and a card beside the heads; `base` is what they were trained for."""
    rounded = {name: [[round(share, 4) for share in head] for head in table] for name, table in made.accuracy.items()}
    (made.folder / ACCURACY_FILE).write_text(json.dumps(rounded) + "\n", encoding="utf-8")
    rows = "\n".join(
        f"| {i} | {name} | " + " | ".join(f"{sum(head[:top]):.1%}" for top in (1, 3, 5, 10)) + " |"
        for name, table in made.accuracy.items()
        for i, head in enumerate(table, start=1)
    )
    (made.folder / "README.md").write_text(
        f"---\nlicense: apache-2.0\n---\n# Medusa heads for {base}\n\n{story}\n\n"
        f"| head | text | top 1 | top 3 | top 5 | top 10 |\n|---|---|---|---|---|---|\n{rows}\n\n"
        f"Shares of held-out positions, each head divided by the positions it has. Tree: {len(made.tree.paths)} nodes, "
        f"found by counting which of its paths were right there: {made.tree.tokens_per_pass:.2f} tokens a pass. The "
        f"file holds {len(made.tree.own.paths)}, best first: the first n are the best tree of n nodes.\n\n"
        f"In use: {made.trial}.\n",
        encoding="utf-8",
    )
