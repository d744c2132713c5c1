"""All there is to do for Medusa heads: write text, learn, measure, find the tree, publish."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from playground.decoding.target import TransformersTarget
from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.training.cost_curve import pass_seconds
from playground.training.loop import Schedule, read_log
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
from playground.training.self_distillation import (
    NO_LABEL,
    Positions,
    TextCount,
    Writing,
    read_positions,
    write_text,
)
from playground.training.tree_search import FoundTree, by_paths, fastest_tree, interpolated, search_tree
from playground.training.trial import Trial, try_heads

ACCURACY_FILE = "medusa_accuracy.json"
SCHEDULE_FILE = "schedule.json"
WRITING_SHARE = 0.5  # of the time given
MARGIN = 0.85  # of the time left for learning: what a few steps measured is not what all will take
TRIED = 8  # held-out prompts on which finished heads are tried


@dataclass(frozen=True)
class Wrote:
    """So many of the texts that are wanted are written."""

    count: TextCount
    wanted: int


@dataclass(frozen=True)
class Learned:
    """A step of `steps` is done; `line` is its line of the log."""

    line: dict[str, float]
    steps: int


@dataclass(frozen=True)
class Made:
    """The heads lie in `folder`. `accuracy` by head and rank on held-out text: greedy, and sampled; None without such
    text. `cost` is the seconds of a step by the tokens in its pass, where the number of nodes was chosen by it."""

    folder: Path
    tree: FoundTree
    greedy: list[list[float]] | None
    sampled: list[list[float]] | None
    cost: dict[int, float] | None
    trial: Trial


Event = Wrote | Learned | Made


@dataclass(frozen=True)
class Recipe:
    """`nodes` of the tree, None for the number that is fastest on this machine. `learn_prompts` takes the prompts
    themselves as examples too. `minutes` is the time for everything, None as long as it takes; a run that is resumed
    keeps the number of steps that it once found to fit."""

    plan: HeadsPlan
    writing: Writing = field(default_factory=Writing)
    nodes: int | None = None
    learn_prompts: bool = False
    minutes: float | None = None


def make_heads(target: TransformersTarget, prompts: Prompts, recipe: Recipe, work: Path, out: Path) -> Iterator[Event]:
    """Heads for `target` in the folder `out`. Resumable in `work`: closed or killed at any moment, it goes on there.

    The tree is searched on the greedy half of the held-out text, where there is one: greedy is what is most asked for.
    """
    began = time.monotonic()
    # Held-out text first: without it nothing that follows can be judged.
    kinds = replace(recipe.writing, batch=min(recipe.writing.batch, max(2, len(prompts.held_out))))
    for _ in write_text(target, prompts.held_out, work / "held_out", kinds):
        pass
    count, wanted = TextCount(), prompts.seen
    if (work / SCHEDULE_FILE).is_file():  # learning has begun: more text would change its steps
        wanted = wanted[: recipe.writing.batch * len(list((work / "seen").glob("*.safetensors")))]
    for count in write_text(target, wanted, work / "seen", recipe.writing):
        yield Wrote(count, len(wanted))
        if recipe.minutes and time.monotonic() - began > WRITING_SHARE * 60 * recipe.minutes:
            break
    plan, head = recipe.plan, target.head
    seen = read_positions(work / "seen", plan.num_heads, recipe.learn_prompts)
    held_out = read_positions(work / "held_out", plan.num_heads)
    heads = new_heads(head, plan)
    if recipe.minutes:
        left = MARGIN * (60 * recipe.minutes - (time.monotonic() - began))
        plan = replace(plan, schedule=_fitting(plan, new_heads(head, plan), head, seen, left, work))
    for line in learn(heads, head, seen, held_out, plan, work):
        yield Learned(line, plan.schedule.steps)

    ranks = label_ranks(heads, head, held_out)
    kept = {"greedy": ranks[held_out.greedy], "sampled": ranks[~held_out.greedy]}
    accuracy = {name: accuracy_by_rank(part) if len(part) else None for name, part in kept.items()}
    judged = kept["greedy"] if len(kept["greedy"]) else kept["sampled"]
    right = [tuple(path) for path in judged[(judged != NO_LABEL).all(1)].tolist()]
    chances = by_paths(right, RANKS)
    heads = heads.to(head.weight)
    cost = None
    if recipe.nodes is None:
        cost = pass_seconds(target, heads)
        tree = fastest_tree(chances, interpolated(cost))
    else:
        tree = search_tree(chances, recipe.nodes)
    trial = try_heads(target, heads, tree.paths, prompts.held_out[:TRIED])
    made = Made(out, tree, accuracy["greedy"], accuracy["sampled"], cost, trial)
    _publish(heads, target.name, made, _story(seen, count, recipe, work))
    yield made


def _fitting(
    plan: HeadsPlan, heads: MedusaHeads, head: torch.nn.Linear, seen: Positions, seconds: float, work: Path
) -> Schedule:
    """The plan's schedule, shortened to what `seconds` allow; found once, then kept in `work`."""
    kept = work / SCHEDULE_FILE
    if kept.is_file():
        return replace(plan.schedule, **json.loads(kept.read_text(encoding="utf-8")))
    batch = seen.rows(slice(0, plan.schedule.batch_tokens)).to(head.weight.device)
    times = []
    for _ in range(4):
        began = time.monotonic()
        decayed_loss(heads(batch.hidden.float(), head.float()), batch.labels, plan.head_decay).backward()
        times.append(time.monotonic() - began)
    steps = min(plan.schedule.steps, max(10, int(seconds / min(times))))
    decay = max(1, steps * plan.schedule.decay // max(1, plan.schedule.steps))
    found = {"stable": steps - decay, "decay": decay, "warmup": min(plan.schedule.warmup, max(1, steps // 10))}
    kept.write_text(json.dumps(found), encoding="utf-8")
    return replace(plan.schedule, **found)


def _story(seen: Positions, count: TextCount, recipe: Recipe, work: Path) -> str:
    """How the heads came about, for their card."""
    plan, log = recipe.plan, read_log(work)
    losses = [line["held_out_loss"] for line in log if "held_out_loss" in line]
    temperatures = " and ".join(f"{heat:g}" for heat in recipe.writing.temperatures)
    lowest = f"{min(losses):.3f}" if losses else "not measured"
    return (
        f"{plan.num_heads} heads ({plan.variant}, {plan.layers} layers each), trained on {len(seen):,} positions of"
        f"{' prompts and' if recipe.learn_prompts else ''} text that the model wrote itself after them, in turn at "
        f"temperature {temperatures}; {seen.greedy.float().mean():.0%} of the positions are greedy. Of {count.all:,} "
        f"texts, {count.cut:,} were cut where they began to repeat themselves, and of {count.dropped:,} nothing was "
        f"left. {len(log):,} steps of {plan.schedule.batch_tokens:,} positions; lowest held-out loss "
        f"{lowest} (sum over the heads, head i counted {plan.head_decay:g}^i times)."
    )


def _publish(heads: MedusaHeads, base: str, made: Made, story: str) -> None:
    """Write heads, tree, accuracies and a card; `base` is what the heads were trained for."""
    save_heads(heads.half(), made.folder, base, made.tree.paths, pickled=False)
    tables = {
        name: [[round(share, 4) for share in head] for head in table]
        for name, table in (("greedy", made.greedy), ("sampled", made.sampled))
        if table is not None
    }
    (made.folder / ACCURACY_FILE).write_text(json.dumps(tables) + "\n", encoding="utf-8")
    rows = "\n".join(
        f"| {i} | {name} | " + " | ".join(f"{sum(head[:top]):.1%}" for top in (1, 3, 5, 10)) + " |"
        for name, table in tables.items()
        for i, head in enumerate(table, start=1)
    )
    trial = made.trial
    (made.folder / "README.md").write_text(
        f"---\nlicense: apache-2.0\n---\n# Medusa heads for {base}\n\n{story}\n\n"
        f"| head | text | top 1 | top 3 | top 5 | top 10 |\n|---|---|---|---|---|---|\n{rows}\n\n"
        f"Shares of held-out positions, each head divided by the positions it has. Tree: {len(made.tree.paths)} nodes, "
        f"found by counting which of its paths were right there: {made.tree.tokens_per_pass:.2f} tokens a pass.\n\n"
        f"Tried on {trial.prompts} held-out prompts, greedy, {trial.tokens} tokens in all: mean acceptance length "
        f"{trial.mean_acceptance_length:.2f}.\n",
        encoding="utf-8",
    )
