"""The commands that train: parse, call, tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playground.errors import UserError
from playground.options import Device, Dtype

if TYPE_CHECKING:  # the command line answers before torch is imported
    from playground.models.loading import LoadedModel
    from playground.training.loop import Schedule
    from playground.training.make_draft import MadeDraft
    from playground.training.make_heads import Event
    from playground.training.prompts import Prompts

app = typer.Typer()

BOOKS = "Folder with the training text of the built-in family; the model cards name its source."
Target = Annotated[str, typer.Option(help="A family or model of the catalog, a hub id, a folder or a GGUF file.")]
Out = Annotated[Path, typer.Option(help="Folder that the result is written to.")]
Work = Annotated[Path | None, typer.Option(help="Folder for what is needed to resume; by default beside --out.")]
PromptFile = Annotated[Path | None, typer.Option("--prompts", help=".jsonl with prompt or turns, or a prompt a line.")]
Books = Annotated[Path | None, typer.Option(help="Continue passages of this folder's books and of Python source.")]
Code = Annotated[bool, typer.Option("--code", help="Continue passages of Python source alone.")]
Tasks = Annotated[
    bool, typer.Option("--tasks", help="Answer tasks as users give them; with --books some about their passages.")
]
Avoid = Annotated[
    list[Path] | None, typer.Option(help="Leave out prompts that share 8 words in a row with this file; repeatable.")
]
Texts = Annotated[int, typer.Option(help="Texts to write.")]
NewTokens = Annotated[int, typer.Option(help="Tokens that the target writes after each prompt.")]
Temperatures = Annotated[str, typer.Option(help="Temperatures of the texts in turn; 0 is greedy.")]
Steps = Annotated[int, typer.Option(help="Most steps; training ends earlier when held-out text gains nothing.")]
Rate = Annotated[float, typer.Option(help="Learning rate at its peak.")]

Minutes = Annotated[float | None, typer.Option(help="Time for everything; by default as long as it takes.")]


@app.command("train-family")
def train_family_command(
    books: Annotated[Path, typer.Option(help=BOOKS)],
    work: Annotated[Path, typer.Option(help="Folder for checkpoints; run again with the same one to resume.")],
    out: Annotated[Path, typer.Option(help="Folder that the finished models are written to.")],
) -> None:
    """Train the built-in family: target, draft, small target. Three hours on two CPU cores; killed, it goes on."""
    from playground.training.family import train_family

    train_family(books, work, out)


@app.command("train-medusa")
def train_medusa_command(
    out: Out,
    target: Target = "built-in",
    work: Work = None,
    prompts: PromptFile = None,
    books: Books = None,
    code: Code = False,
    tasks: Tasks = False,
    avoid: Avoid = None,
    texts: Texts = 2000,
    new_tokens: NewTokens = 64,
    temperatures: Temperatures = "0,1",
    heads: Annotated[int, typer.Option(help="Number of heads.")] = 4,
    layers: Annotated[int, typer.Option(help="Residual blocks per head.")] = 1,
    variant: Annotated[str, typer.Option(help="shared-head, own-vocabulary or linear.")] = "shared-head",
    nodes: Annotated[str, typer.Option(help="Nodes of the tree; auto: as many as are fastest here.")] = "auto",
    learn_prompts: Annotated[bool, typer.Option(help="Learn from the prompts themselves too.")] = False,
    steps: Steps = 2000,
    epochs: Annotated[int, typer.Option(help="Times that a position is read at most.")] = 5,
    batch: Annotated[int, typer.Option(help="Positions per step.")] = 512,
    rate: Rate = 3e-3,
    candidates: Annotated[
        int | None, typer.Option(help="Let labels compete with so many tokens, drawn anew each step, not with all.")
    ] = None,
    minutes: Minutes = None,
    together: Annotated[
        int, typer.Option(help="Medusa-2: steps in which base and heads then learn together. Changes the base.")
    ] = 0,
    base_rate: Annotated[float, typer.Option(help="The base's learning rate at its peak, with --together.")] = 2e-4,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Train Medusa heads for a target on text that it writes itself, and find their tree. Run again to resume.

    Without --prompts, --books, --code or --tasks the target writes its own prompts.
    """
    from playground.models.medusa_heads import load_heads
    from playground.training.make_heads import Recipe, make_heads
    from playground.training.medusa import HeadsPlan
    from playground.training.self_distillation import Writing
    from playground.training.together import TogetherPlan, train_together

    if nodes != "auto" and not nodes.isdigit():
        raise UserError(f"--nodes is {nodes!r}; give a whole number, or auto.")
    plan = HeadsPlan(_schedule(steps, rate, batch), heads, layers, variant, epochs=epochs, candidates=candidates)
    recipe = Recipe(
        plan,
        Writing(new_tokens, _temperatures(temperatures)),
        None if nodes == "auto" else int(nodes),
        learn_prompts,
        minutes,
    )
    folder = _work(work, out)
    with _loaded(target, dtype, device) as model:
        beginnings = _prompts(model, folder, prompts, books, code, tasks, avoid or [], texts)
        first = folder / "heads" if together else out
        for event in make_heads(model.target, beginnings, recipe, folder, first):
            _tell(event)
        if together:
            both = TogetherPlan(_schedule(together, base_rate, batch, row_tokens=128))
            found = load_heads(first).heads.to(model.target.device)
            for later in train_together(
                model.target, found, model.tokenizer, beginnings, both, folder, out, recipe.nodes
            ):
                _tell(later)


@app.command("train-draft")
def train_draft_command(
    out: Out,
    target: Target = "built-in",
    work: Work = None,
    prompts: PromptFile = None,
    books: Books = None,
    code: Code = False,
    tasks: Tasks = False,
    avoid: Avoid = None,
    texts: Texts = 2000,
    new_tokens: NewTokens = 64,
    temperatures: Temperatures = "0,1",
    layers: Annotated[int, typer.Option(help="Layers of the draft, 1 to 4.")] = 1,
    width: Annotated[int | None, typer.Option(help="Its width; by default the target's.")] = None,
    embeddings: Annotated[
        str, typer.Option(help="trained or frozen: the target's at the start; fresh: random.")
    ] = "trained",
    steps: Steps = 2000,
    batch: Annotated[int, typer.Option(help="Tokens per step.")] = 2048,
    row: Annotated[int, typer.Option(help="Tokens per row of a batch.")] = 128,
    rate: Rate = 2e-3,
    minutes: Minutes = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Distil a small Llama draft with the target's tokenizer from text that the target writes. Run again to resume.

    Without --prompts, --books, --code or --tasks the target writes its own prompts.
    """
    from playground.training.make_draft import DraftPlan, DraftRecipe, make_draft
    from playground.training.self_distillation import Writing

    plan = DraftPlan(_schedule(steps, rate, batch, row), layers, width, embeddings)
    recipe = DraftRecipe(plan, Writing(new_tokens, _temperatures(temperatures)), minutes)
    folder = _work(work, out)
    with _loaded(target, dtype, device) as model:
        beginnings = _prompts(model, folder, prompts, books, code, tasks, avoid or [], texts)
        for event in make_draft(model.target, model.tokenizer, beginnings, recipe, folder, out):
            _tell(event)


def _tell(event: Event | MadeDraft) -> None:
    from playground.training.gathering import Learned, Wrote
    from playground.training.make_draft import MadeDraft
    from playground.training.make_heads import Made

    match event:
        case Wrote(count, wanted):
            print(f"text {count.all}/{wanted}: {count.cut} cut, {count.dropped} left out", file=sys.stderr)
        case Learned(line, steps):
            if "held_out_kl" in line:
                print(
                    f"step {line['step'] + 1:.0f}/{steps}: loss {line['loss']:.3f}, held out: base "
                    f"{line['held_out_base']:.3f}, away from the original {line['held_out_kl']:.4f}, heads "
                    f"{line['held_out_heads']:.3f}",
                    file=sys.stderr,
                )
            if "held_out_loss" in line:
                right = " ".join(f"{share:.1%}" for name, share in line.items() if name.startswith("accuracy_"))
                print(
                    f"step {line['step'] + 1:.0f}/{steps}: loss {line['loss']:.3f}, held out "
                    f"{line['held_out_loss']:.3f}, top-1 right {right}",
                    file=sys.stderr,
                )
        case Made():
            for name, table in event.accuracy.items():
                for number, head in enumerate(table, start=1):
                    tops = ", ".join(f"top-{top} {sum(head[:top]):.1%}" for top in (1, 3, 5, 10))
                    print(f"held-out {name} text, head {number}: {tops}")
            if event.cost is not None:
                print("tokens in a pass: ms  " + "  ".join(f"{n}: {1e3 * s:.1f}" for n, s in event.cost.items()))
            chosen = "" if event.cost is None else ", the fastest on this machine"
            print(
                f"tree: {len(event.tree.paths)} nodes{chosen}, {event.tree.tokens_per_pass:.2f} tokens a pass expected"
            )
            print(event.trial)
            print(event.folder)
        case MadeDraft():
            print(
                f"{event.parameters:,} parameters; on held-out text sum(min(p, q)) {event.overlap:.3f}, same most "
                f"probable token {event.same_top:.1%}"
            )
            print(event.trial)
            print(event.folder)


def _schedule(steps: int, rate: float, batch: int, row_tokens: int = 256) -> Schedule:
    """A third of the steps is the decay."""
    from playground.training.loop import Schedule

    if steps < 3:
        raise UserError(f"--steps is {steps}; a training needs at least 3.")
    decay = steps // 3
    return Schedule(steps - decay, decay, max(1, min(50, steps // 10)), rate, batch, row_tokens, row_tokens)


def _temperatures(given: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in given.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 <= heat <= 10 for heat in found):
        raise UserError(f"--temperatures is {given!r}; give numbers from 0 to 10 separated by commas, such as 0,1.")
    return found


def _work(work: Path | None, out: Path) -> Path:
    return out.with_name(f"{out.name}-work") if work is None else work


@contextmanager
def _loaded(target: str, dtype: str, device: str) -> Iterator[LoadedModel]:
    from playground.models.catalog import load_catalog
    from playground.models.store import ModelStore

    with ModelStore().lease(load_catalog().source(target), dtype, device) as model:
        yield model


def _prompts(
    model: LoadedModel,
    work: Path,
    file: Path | None,
    books: Path | None,
    code: bool,
    tasks: bool,
    avoid: list[Path],
    count: int,
) -> Prompts:
    """The prompts that were asked for; those of a run that is resumed are found in `work`."""
    from playground.training.prompts import Prompts, apart_from, corpus_prompts, file_prompts, own_prompts
    from playground.training.self_distillation import Writing
    from playground.training.tasks import task_prompts

    if sum((file is not None, books is not None and not tasks, code, tasks)) > 1:
        raise UserError("Give one of --prompts, --books, --code and --tasks; --tasks alone goes with --books.")
    kept = work / "prompts.json"
    if not kept.is_file():
        if file is not None:
            found = file_prompts(model.tokenizer, file)
        elif tasks:
            found = task_prompts(model.tokenizer, books, count)
        elif books is not None or code:
            found = corpus_prompts(model.tokenizer, books, count)
        else:
            found = own_prompts(model.target, model.tokenizer, count)
        apart_from(found, model.tokenizer, avoid).alike(Writing.batch).write(kept)
    return Prompts.read(kept)
