"""The command line: parses, calls, prints. Results go to stdout, progress to stderr; bad input ends with status 2."""

from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import asdict, replace
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playground import __version__
from playground.analysis import commands as analysis_commands
from playground.decoding.trace import throughput
from playground.errors import UserError
from playground.files import check_writable, write_whole
from playground.options import (
    Chat,
    Device,
    Draft,
    DraftHeads,
    Dtype,
    Heads,
    Length,
    MinP,
    Models,
    RepetitionPenalty,
    Seed,
    Set,
    Target,
    Temperature,
    TopK,
    TopP,
)
from playground.settings import parse_pairs
from playground.training import commands as training_commands

if TYPE_CHECKING:  # the command line answers before torch is imported
    from playground.decoding.trace import Summary
    from playground.run import Run

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
models_app = typer.Typer()
app.add_typer(training_commands.app)
app.add_typer(analysis_commands.app)
app.add_typer(models_app, name="models", help="What is in the catalog, what is on this machine; fetch a model.")


def _tell_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """See and measure speculative decoding on real models."""


@analysis_commands.bench_app.command("page")
def bench_page() -> None:
    """Measure in Chromium how soon the page shows what a run yields, that no step is lost, and that memory stays."""
    from playground.ui.bench import measure_page

    measure_page(print)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 7860,
    settings: Annotated[Path | None, typer.Option(help="A file of `tune`, for the settings to start with.")] = None,
) -> None:
    """Open the page."""
    from playground.ui.tuned import VARIABLE, tuned_settings

    if settings is not None:
        os.environ[VARIABLE] = str(settings)
    tuned_settings()  # raises for what is no settings file, before the page is built

    from playground.ui.page import launch

    launch(host=host, port=port)


@app.command()
def generate(
    prompt: Annotated[str, typer.Option(help="The text to continue.")],
    method: Annotated[str, typer.Option(help="A method's id; see `python -m playground methods`.")] = "draft-model",
    models: Models = "built-in",
    target: Target = None,
    draft: Draft = None,
    heads: Heads = None,
    draft_heads: DraftHeads = None,
    settings: Set = None,
    max_new_tokens: Length = 64,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = 1,
    chat: Chat = None,
    system: Annotated[str | None, typer.Option(help="System prompt, with a chat template.")] = None,
    companion: Annotated[list[str] | None, typer.Option(help="Prompt of another row of a batch; repeatable.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given several times.")] = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
    trace: Annotated[Path | None, typer.Option(help="Write every step to this .jsonl file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of the text.")] = False,
) -> None:
    """Continue a prompt with one method, and say what it did."""
    from playground.models.store import ModelStore
    from playground.run import LaneSpec, RunSpec, open_run

    lane = LaneSpec(method, parse_pairs(settings or []), target or models, draft, heads, draft_heads)
    spec = RunSpec(
        prompt,
        (lane,),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        max_new_tokens=max_new_tokens,
        chat=chat,
        system=system,
        stop=tuple(stop or ()),
        companions=tuple(companion or ()),
        dtype=dtype,
        device=device,
        detail=trace is not None,
    )
    if trace is not None:
        check_writable(trace, "The trace")
    with open_run(spec, ModelStore(progress=_progress)) as run:
        try:
            for _, step in run:
                if not as_json and step.row == 0:
                    print("".join(token.text for token in step.emitted), end="", flush=True)
        finally:
            if trace is not None:  # also what there is of a run that failed or was interrupted
                lines = StringIO()
                run.trace.write(lines)
                write_whole(trace, lines.getvalue(), "The trace")
        for notice in run.trace.lanes[0].notices:
            _progress(notice)
        if as_json:
            print(json.dumps(_result(run), ensure_ascii=False))
        else:
            print()
            _progress(_sentence(run))


def _result(run: Run) -> dict[str, object]:
    """What --json prints: the summary of the first sequence, who ran, and the other rows of a batch."""
    lane = run.trace.lanes[0]
    rows = [
        asdict(run.summary(0, row)) | {"text": run.text(0, row)} for row in range(int(lane.settings.get("batch", 1)))
    ]
    return rows[0] | {
        "prompt_token_ids": lane.prompt_ids,
        "method": lane.method,
        "models": lane.models,
        "settings": lane.settings,
        "lossless": lane.lossless,
        "notices": lane.notices,
        "lane_tokens_per_second": throughput([step for _, step in run.trace.order]),
        "other_rows": rows[1:],
    }


def _sentence(run: Run) -> str:
    """The first sequence's summary in a line."""
    summary, rate = run.summary(0), run.summary(0).draft_acceptance_rate
    return (
        f"{len(summary.output_token_ids)} tokens in {summary.target_forwards} target passes "
        f"({summary.tokens_per_target_pass:.2f} a pass, prefill counted), "
        + (f"acceptance rate {rate:.0%}, " if rate is not None else f"{_unproposed(summary)}, ")
        + f"{summary.tokens_per_second:.1f} tokens/s, finish: {summary.finish_reason}"
    )


def _unproposed(summary: Summary) -> str:
    """Why there is no acceptance rate."""
    return "nothing proposed" if summary.num_draft_tokens == 0 else "the server does not tell what it proposed"


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context) -> None:
    """List the families of the catalog and what of them is on this machine."""
    if context.invoked_subcommand is not None:
        return
    from playground.models.catalog import load_catalog

    for family in load_catalog().families.values():
        print(f"{family.id:24} {family.hardware:14} {family.title}")
        for entry in family.entries:
            place = entry.source.find()
            print(f"    {entry.id:32} {entry.licence:16} {place or 'not on this machine'}")


@models_app.command("fetch")
def fetch_model(name: Annotated[str, typer.Argument(help="A family, a model, a hub id, or a GGUF file.")]) -> None:
    """Bring a model, or all models of a family, to this machine."""
    from playground.models.catalog import load_catalog

    for source in load_catalog().sources(name):
        print(source.fetch(_progress))


@app.command()
def deploy(
    method: Annotated[str, typer.Option(help="A method's id.")],
    target: Annotated[str, typer.Option(help="A family or model of the catalog, a hub id, or a path.")],
    draft: Annotated[str | None, typer.Option(help="Likewise, for the draft model; a family brings its own.")] = None,
    heads: Annotated[str | None, typer.Option(help="Medusa heads; a family brings its own.")] = None,
    settings: Set = None,
    engine: Annotated[str | None, typer.Option(help="One engine only; without it, all of them.")] = None,
    tensor_parallel: Annotated[int, typer.Option(help="GPUs that share each layer.")] = 1,
    pipeline_parallel: Annotated[int, typer.Option(help="Groups of GPUs that share the stack of layers.")] = 1,
    draft_tensor_parallel: Annotated[
        int | None, typer.Option(help="GPUs that share the draft: 1, or as the target.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Machines.")] = 1,
    dtype: Dtype = "auto",
    prompt: Annotated[str, typer.Option(help="What the exported scripts continue.")] = "Once upon a time",
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the chat template.")] = False,
    max_new_tokens: Length = 64,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Annotated[int, typer.Option(help="Of the exported scripts.")] = 1,
) -> None:
    """What serving engines take for a method and its settings, as Markdown."""
    from playground.decoding.sampling import Sampling
    from playground.deploy.export import deploy_text
    from playground.deploy.named import chosen
    from playground.models.catalog import load_catalog

    plan, notes = chosen(load_catalog(), method, parse_pairs(settings or []), target, draft, heads)
    plan = replace(
        plan,
        sampling=Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed),
        max_new_tokens=max_new_tokens,
        prompt=prompt,
        chat=chat,
        dtype=dtype,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
        nodes=nodes,
    )
    print(deploy_text(plan, engine, notes))


@app.command()
def export(
    trace: Annotated[Path, typer.Argument(help="A trace file, or a stored reply of a vLLM server.")],
    out: Annotated[Path, typer.Argument(help="The HTML file to write.")],
) -> None:
    """Write a run as one HTML file that plays in any browser, from disk, without internet."""
    from playground.ui.player import export as export_page
    from playground.ui.recordings import read_recording

    write_whole(out, export_page(read_recording(trace)), "The page")


@app.command("record-lessons")
def record_lessons(
    names: Annotated[list[str] | None, typer.Argument(help="Recordings of assets/lessons/recordings.toml.")] = None,
) -> None:
    """Record the runs that the lessons are told on, all or the named ones, and check what the lessons claim of them."""
    from playground.lessons.lessons import broken_claims
    from playground.lessons.recordings import record_all
    from playground.models.store import ModelStore

    record_all(names or [], _progress, ModelStore(progress=_progress))
    broken = broken_claims()
    if broken:
        raise UserError("Not true of the recorded runs:\n" + "\n".join(broken))


@app.command()
def translate(
    command: Annotated[str, typer.Argument(help="An old command or Python call; - reads standard input.")],
) -> None:
    """An old speculative-decoding command in today's words, key by key."""
    from playground.deploy.translate import translate_text

    print(translate_text(sys.stdin.read() if command == "-" else command))


@models_app.command("drafts")
def list_drafts(
    target: Annotated[str, typer.Argument(help="A family, a model, a hub id, a folder or a GGUF file.")],
) -> None:
    """List the catalog's models on this machine that can draft for TARGET, cheapest first."""
    from playground.models.catalog import load_catalog
    from playground.models.drafts import find_drafts

    for draft in find_drafts(load_catalog(), target):
        print(f"{draft.name:32} {draft.cost:.0%} of the target's cost, estimated from the parameters")
        for finding in draft.findings:
            print(f"    {finding.text}")


@app.command()
def methods() -> None:
    """List the methods and their settings."""
    from playground.run import lane_kinds

    for method in lane_kinds().values():
        print(f"{method.id:16} {method.summary}")
        for setting in method.settings:
            print(f"    {setting.name}={setting.default}  {setting.help}")
        for name, preset in method.presets.items():
            print(f"    preset {name}: " + " ".join(f"--set {key}={value}" for key, value in preset.items()))
        if method.note:
            print(f"    {method.note}")


def main() -> None:
    """Run the command line; a UserError becomes its sentence and status 2."""
    # Progress is ours to tell; read by huggingface_hub and transformers when they are imported.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if isinstance(sys.stdout, TextIOWrapper):  # a text may hold what a console or pipe of another encoding cannot
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"The disk is full: {error}. Free some space, or choose another disk, and try again.", file=sys.stderr)
        sys.exit(2)


def _progress(message: str, fraction: float | None = None) -> None:
    share = "" if fraction is None else f" {fraction:.0%}"
    print(f"{message}{share}", file=sys.stderr)
