"""The commands that measure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from playground.analysis.questions import BUILT_IN
from playground.errors import UserError
from playground.files import check_writable, write_whole
from playground.options import (
    Chart,
    Chat,
    Device,
    Draft,
    DraftHeads,
    Dtype,
    Heads,
    Length,
    Models,
    Seed,
    Set,
    Target,
    Temperature,
)
from playground.settings import parse_pairs

app = typer.Typer()
bench_app = typer.Typer()
app.add_typer(bench_app, name="bench", help="Measure methods on a file of questions; measure the page.")

LANES = ("draft-model", "prompt-lookup", "lookahead")


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    questions: Annotated[
        Path | None, typer.Option(help="JSON lines of question_id, category, turns (Spec-Bench's format).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for samples and reports; the same one again goes on.")] = Path(
        "benchmark"
    ),
    lane: Annotated[
        list[str] | None,
        typer.Option(
            help='A method with settings: "draft-model k=4", or a sweep: "draft-model k=2|4|8"; temperature=0.7 is a '
            "lane's own. Repeatable; autoregressive always runs."
        ),
    ] = None,
    models: Models = "built-in",
    target: Target = None,
    draft: Draft = None,
    heads: Heads = None,
    draft_heads: DraftHeads = None,
    reference: Annotated[bool, typer.Option("--reference", help="Measure transformers' generate as well.")] = False,
    rounds: Annotated[int, typer.Option(help="How often every question is answered.")] = 5,
    until: Annotated[
        float,
        typer.Option(
            help="After --rounds go on until speed-ups are known to ± this share, such as 0.05, or --minutes are over."
        ),
    ] = 0.0,
    minutes: Annotated[float, typer.Option(help="With --until: after how long no further round begins.")] = 15.0,
    limit: Annotated[int | None, typer.Option(help="Questions per category.")] = None,
    turns: Annotated[int | None, typer.Option(help="Turns per question; without it, all.")] = None,
    loops: Annotated[
        float, typer.Option(help="Leave questions out whose plain answer repeats more than this share of its 4-grams.")
    ] = 1.0,
    hopeless: Annotated[
        float, typer.Option(help="Stop a sweep's lanes that are slower than this share of its fastest after a round.")
    ] = 0.0,
    curve: Annotated[
        float, typer.Option(help="Seconds for what a pass costs, per model not measured before; 0: no prediction.")
    ] = 10.0,
    max_new_tokens: Length = 128,
    temperature: Temperature = 0.0,
    seed: Seed = 1,
    chat: Chat = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Measure methods side by side: tokens per second with intervals, acceptance, identity, and why."""
    if context.invoked_subcommand is not None:
        return
    from playground.analysis.bench import Plan, measure

    if questions is None:
        raise UserError("Say what to ask: --questions FILE, JSON lines of question_id, category and turns.")
    plan = Plan(
        questions=questions,
        lanes=tuple(lane or LANES),
        target=target or models,
        draft=draft,
        heads=heads,
        draft_heads=draft_heads,
        reference=reference,
        rounds=rounds,
        until=until,
        minutes=minutes,
        limit=limit,
        turns=turns,
        loops=loops,
        hopeless=hopeless,
        curve=curve,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        chat=chat,
        dtype=dtype,
        device=device,
    )
    print(measure(plan, out, TimeLeft()))


@app.command("batch-curve")
def measure_batches(
    method: Annotated[str, typer.Option(help="A method's id.")] = "draft-model",
    models: Models = "built-in",
    prompt: Annotated[str, typer.Option(help="The first row's prompt.")] = "Once upon a time",
    companion: Annotated[list[str] | None, typer.Option(help="Prompt of another row; repeatable.")] = None,
    settings: Set = None,
    sizes: Annotated[str, typer.Option(help="Batch sizes, separated by commas.")] = "1,2,4,8",
    rounds: Annotated[int, typer.Option(help="Races per size; the median counts.")] = 3,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens per row.")] = 64,
    temperature: Temperature = 0.0,
    html: Chart = None,
) -> None:
    """Measure how a method's speed-up shrinks as sequences share the pass."""
    from playground.analysis.batching import batch_curve, batch_figure
    from playground.models.store import ModelStore
    from playground.run import LaneSpec, RunSpec

    numbers = [part.strip() for part in sizes.split(",")]
    if not all(number.isdigit() for number in numbers):
        raise UserError(f"--sizes is {sizes!r}; give whole numbers separated by commas, such as 1,2,4,8.")
    lane = LaneSpec(method, parse_pairs(settings or []), models)
    spec = RunSpec(
        prompt,
        (lane,),
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        companions=tuple(companion or ()),
    )
    points = batch_curve(spec, [int(number) for number in numbers], ModelStore(progress=_progress), rounds)
    print("batch  autoregressive tokens/s  method tokens/s  speed-up")
    for point in points:
        print(f"{point.batch:5}  {point.baseline:23.1f}  {point.method:15.1f}  {point.speedup:8.2f}")
    if html is not None:
        write_whole(html, batch_figure(points, method).to_html(), "The figure")


@app.command("cost-curve")
def measure_cost(
    models: Models = "built-in",
    target: Target = None,
    draft: Annotated[bool, typer.Option("--draft", help="Measure the family's draft model as well.")] = False,
    seconds: Annotated[float, typer.Option(help="Time to measure for, per model.")] = 20.0,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what has been measured here.")] = False,
    dtype: Dtype = "auto",
    device: Device = "auto",
    html: Chart = None,
) -> None:
    """Measure what a pass costs by the number of tokens that it reads; kept for this machine."""
    from playground.analysis.cost_curve import cost_curve
    from playground.analysis.cost_report import cost_figure, cost_markdown
    from playground.models.catalog import load_catalog
    from playground.models.store import ModelStore

    if not 0 < seconds <= 3600:
        raise UserError(f"--seconds is {seconds:g}; give 1 to 3600.")
    parts, store = load_catalog().parts(target or models), ModelStore(progress=_progress)
    if draft and parts.draft is None:
        raise UserError(f"{target or models} comes without a draft model. Leave --draft out.")
    curves = []
    for source in (parts.target, parts.draft if draft else None):
        if source is not None:
            with store.lease(source, dtype, device) as model:
                curves.append(cost_curve(model, seconds, again, _progress))
    print(cost_markdown(curves))
    if html is not None:
        write_whole(html, cost_figure(curves).to_html(), "The figure")


@app.command()
def tune(
    models: Models = "built-in",
    target: Target = None,
    draft: Draft = None,
    heads: Heads = None,
    draft_heads: DraftHeads = None,
    method: Annotated[list[str] | None, typer.Option(help="Tune this one only; repeatable.")] = None,
    questions: Annotated[Path, typer.Option(help="JSON lines of question_id, category, turns.")] = BUILT_IN,
    minutes: Annotated[float, typer.Option(help="How long to measure.")] = 3.0,
    out: Annotated[Path, typer.Option(help="The settings file to write.")] = Path("settings.toml"),
    max_new_tokens: Length = 64,
    temperature: Temperature = 0.0,
    seed: Seed = 1,
    chat: Chat = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Find the best settings per method for this machine and these questions; the page can start with them."""
    from playground.analysis.bench import Bench, Plan
    from playground.analysis.tuned import write_tuned
    from playground.analysis.tuner import to_markdown
    from playground.analysis.tuner import tune as find_settings
    from playground.models.store import ModelStore

    plan = Plan(
        questions=questions,
        lanes=(),
        target=target or models,
        draft=draft,
        heads=heads,
        draft_heads=draft_heads,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        chat=chat,
        dtype=dtype,
        device=device,
    )
    check_writable(out, "The settings")
    found = find_settings(plan, method or (), minutes, Bench(ModelStore(progress=_progress)), TimeLeft())
    write_tuned(found.tuned, out)
    print(to_markdown(found, out))


@app.command()
def advise(
    target: Annotated[float, typer.Option(help="Size of the model, in billions of parameters.")],
    draft: Annotated[float | None, typer.Option(help="Size of a smaller model with the same tokenizer.")] = None,
    heads: Annotated[bool, typer.Option("--heads", help="There are Medusa heads for the model.")] = False,
    may_train: Annotated[bool, typer.Option("--may-train", help="Something may be trained.")] = False,
    batch: Annotated[int, typer.Option(help="Sequences that share a pass.")] = 1,
    gpu: Annotated[bool, typer.Option("--gpu/--cpu", help="Where it runs.")] = True,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Answers copy from their prompts: summaries, edits.")
    ] = False,
    throughput: Annotated[
        bool, typer.Option("--throughput/--latency", help="What counts: many answers together, or one soon.")
    ] = False,
    alpha: Annotated[float | None, typer.Option(help="Chance that a drafted token is accepted, if measured.")] = None,
    measured: Annotated[Path | None, typer.Option(help="report.json of a benchmark made here.")] = None,
) -> None:
    """Which method to use with which settings, and why: rules, formulas, published results, and what was measured."""
    from playground.analysis.advisor import Situation, read_measured, to_markdown
    from playground.analysis.advisor import advise as find_advice

    have = Situation(target, draft, heads, may_train, batch, gpu, repeats, alpha, throughput)
    rows = read_measured(measured) if measured is not None else {}
    print(to_markdown(find_advice(have, rows), rows))


class TimeLeft:
    """A progress line with the time left, reckoned from how fast the fraction has grown since the first call."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.first: tuple[float, float] | None = None

    def __call__(self, message: str, fraction: float | None = None) -> None:
        _progress(message + self.left(fraction), fraction)

    def left(self, fraction: float | None) -> str:
        """ ", about 3 min left", or nothing where that cannot be told yet."""
        if fraction is None:
            return ""
        now = self.clock()
        if self.first is None:
            self.first = now, fraction
        began, done = self.first
        if fraction <= done:
            return ""
        seconds = (now - began) * (1 - fraction) / (fraction - done)
        return f", about {seconds / 60:.0f} min left," if seconds >= 90 else f", about {seconds:.0f} s left,"


def _progress(message: str, fraction: float | None = None) -> None:
    print(message if fraction is None else f"{message} {fraction:.0%}", file=sys.stderr)
