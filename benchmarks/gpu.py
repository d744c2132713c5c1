"""The engine on a GPU: the same tokens from every method, their speed against what memory allows, the cost of a pass.

    python -m benchmarks.gpu --out gpu.json      # Markdown on stdout; under eight minutes
    python -m benchmarks.gpu --dry-run           # the same on tiny models, anywhere: its figures mean nothing

The built-in family runs in float32 and bfloat16. Models of 1B and 7B shape have random weights in bfloat16: nothing is
downloaded, and what they tell is what a step costs, not how much of what is drafted is right. Every round has a prompt
of its own and asks all methods in turn; the first is not counted. Ends with status 1 if a method's greedy tokens differ
from those of autoregressive decoding by more than rounding, with 2 if it cannot run.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, cast

import torch
import typer
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from playground.analysis.bench import BASELINE
from playground.analysis.cost_curve import pass_seconds, read_bandwidth
from playground.analysis.divergence import compare
from playground.analysis.questions import BUILT_IN, read_questions
from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode
from playground.decoding.target import TransformersTarget
from playground.drafters.medusa import Heads
from playground.errors import UserError
from playground.methods import METHODS, LaneModels, Method
from playground.models.catalog import load_catalog
from playground.models.medusa_heads import MedusaHeads
from playground.models.medusa_trees import OwnTree, load_tree
from playground.models.placement import DTYPES
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, machine, open_run

HEADS, TREE = 4, "mc_sim_7b_63"  # the published tree for four heads
PROMPT_TOKENS = 64  # of a model with random weights
LATEST = 0.75  # of the time allowed: later than that, nothing new is begun


@dataclass(frozen=True)
class Scale:
    """How much is done: `shapes` are (target, draft) as a LlamaConfig has them, by name; `rounds` without the first."""

    shapes: dict[str, tuple[dict[str, int], dict[str, int]]]
    random_dtype: str
    length: int
    rounds: int
    pass_sizes: tuple[int, ...]


def _shape(hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocab: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
    }


FULL = Scale(
    {
        # Llama 3.2 1B and Llama 2 7B; as drafts what people take: two layers of width 768.
        "1B": (_shape(2048, 8192, 16, 32, 8, 128256), _shape(768, 3072, 2, 12, 12, 128256)),
        "7B": (_shape(4096, 11008, 32, 32, 32, 32000), _shape(768, 3072, 2, 12, 12, 32000)),
    },
    random_dtype="bfloat16",
    length=64,
    rounds=3,
    pass_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
)
DRY = Scale(
    {"tiny": (_shape(64, 96, 4, 4, 2, 256), _shape(32, 48, 1, 2, 2, 256))},
    random_dtype="float32",
    length=8,
    rounds=1,
    pass_sizes=(1, 8),
)


@dataclass(frozen=True)
class Bed:
    """Models on which every method can run. `sessions` begins the sequences of a method on the prompt of a round."""

    name: str
    dtype: str
    target: TransformersTarget
    sessions: Callable[[Method, int], AbstractContextManager[list[Session]]]


@dataclass
class Line:
    """A method on a bed: all tokens and seconds of the rounds that count (prompts included), and its passes.

    `tokens` are of all sequences of a batch, `passes` those that they share. `differs` says in which round its greedy
    tokens first left those of autoregressive decoding, and whether that is a tie or a bug.
    """

    method: str
    tokens: int = 0
    seconds: float = 0.0
    passes: int = 0
    differs: str = ""

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.seconds / self.passes


@dataclass(frozen=True)
class Report:
    """A bed's lines. `limit` is the tokens a second of a model that reads its weights once for each of them; `passes`
    the seconds of a pass by the tokens that it reads."""

    name: str
    dtype: str
    weight_bytes: int
    limit: float
    passes: dict[int, float]
    lines: list[Line]


@contextmanager
def built_in(dtype: str, device: str, scale: Scale) -> Iterator[Bed]:
    """The family that comes with the project, as a user runs it."""
    store, catalog = ModelStore(), load_catalog()
    prompts = [question.turns[0] for question in read_questions(BUILT_IN)]

    @contextmanager
    def sessions(method: Method, number: int) -> Iterator[list[Session]]:
        spec = RunSpec(
            prompts[number % len(prompts)],
            (LaneSpec(method.id),),
            max_new_tokens=scale.length,
            dtype=dtype,
            device=device,
        )
        with open_run(spec, store, catalog) as run:
            yield list(run.local(0).sessions)

    with store.lease(catalog.families["built-in"].target.source, dtype, device) as model:
        yield Bed("built-in", dtype, model.target, sessions)


@contextmanager
def random_weights(name: str, device: str, scale: Scale) -> Iterator[Bed]:
    """A target, a draft and Medusa heads for both, all with random weights of the shapes of `name`."""
    dtype = DTYPES[scale.random_dtype]
    torch.manual_seed(0)
    target, draft = (_llama(shape, dtype, device, f"random {name}") for shape in scale.shapes[name])
    tree = OwnTree(load_tree(TREE))
    models = LaneModels(
        target,
        draft,
        heads=_heads(target),
        num_heads=HEADS,
        draft_heads=_heads(draft),
        num_draft_heads=HEADS,
        tree=tree,
        draft_tree=tree,
    )

    @contextmanager
    def sessions(method: Method, number: int) -> Iterator[list[Session]]:
        settings = method.check({})
        generator = torch.Generator().manual_seed(number)
        prompt = torch.randint(target.vocab_size, (PROMPT_TOKENS,), generator=generator).tolist()
        rows = int(settings["batch"])
        executor = Executor(target, rows)
        yield [
            Session(
                executor,
                method.build(models, settings),
                prompt,
                rule=method.rule(settings),
                max_new_tokens=scale.length,
                row=row,
            )
            for row in range(rows)
        ]

    yield Bed(f"random {name}", scale.random_dtype, target, sessions)


def _llama(shape: dict[str, int], dtype: torch.dtype, device: str, name: str) -> TransformersTarget:
    config = LlamaConfig.from_dict(shape | {"max_position_embeddings": 2048})
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return TransformersTarget(model.eval().requires_grad_(False), name, eos_ids=())


def _heads(target: TransformersTarget) -> Heads:
    weight = target.head.weight
    heads = MedusaHeads(weight.shape[1], HEADS).to(weight.device, weight.dtype).requires_grad_(False)
    for parameter in heads.parameters():
        nn.init.normal_(parameter, std=0.02)
    return lambda hidden: heads(hidden, target.logits)


def measure(bed: Bed, scale: Scale, bandwidth: float, until: float) -> Report:
    """Every method on `bed`, round by round: at least one that counts, no other begun after `until`."""
    lines = {method: Line(method) for method in METHODS}
    for number in range(scale.rounds + 1):
        if number > 1 and perf_counter() > until:
            break
        plain: list[int] = []
        for method in METHODS.values():  # the baseline first
            line = lines[method.id]
            with bed.sessions(method, number) as sessions:
                _wait(bed.target.device)
                began = perf_counter()
                passes = sum(step.row == 0 for step in decode(sessions))
                _wait(bed.target.device)
                seconds = perf_counter() - began
            plain = plain or sessions[0].output
            line.differs = line.differs or _difference(bed.target, sessions, plain, number)
            if number:
                line.tokens += sum(len(session.output) for session in sessions)
                line.seconds, line.passes = line.seconds + seconds, line.passes + passes
    size = _read_in_a_pass(bed.target)
    costs = pass_seconds(bed.target, sizes=scale.pass_sizes, rounds=5)
    return Report(bed.name, bed.dtype, size, bandwidth / size, costs, list(lines.values()))


def _difference(target: TransformersTarget, sessions: list[Session], plain: list[int], number: int) -> str:
    """Where one of the sequences, which all have one prompt, first leaves `plain`; empty where none does."""
    for session in sessions:
        found = compare(target, session.ids[: session.prompt], plain, session.output)
        if found is not None:
            return (
                f"{found.verdict}: round {number}, token {found.position}, behind by {found.lag:.3g}, "
                f"rounding {found.tolerance:.3g}"
            )
    return ""


def _read_in_a_pass(target: TransformersTarget) -> int:
    """Bytes of the weights that a pass over one token reads: all but a table of embeddings that is not the head too."""
    weights = {weight.data_ptr(): weight.nbytes for weight in target.model.parameters()}
    table = cast(nn.Embedding, target.model.get_input_embeddings()).weight
    return sum(weights.values()) - (0 if table.data_ptr() == target.head.weight.data_ptr() else table.nbytes)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run(scale: Scale, device: str, bandwidth: float, minutes: float) -> Iterator[Report]:
    """A report for each bed. Beds for which no time or memory is left are left out, which is told."""
    began = perf_counter()
    until = began + LATEST * 60 * minutes
    beds: dict[str, Callable[[], AbstractContextManager[Bed]]] = {
        **{f"built-in, {dtype}": partial(built_in, dtype, device, scale) for dtype in ("float32", "bfloat16")},
        **{f"random {name}": partial(random_weights, name, device, scale) for name in scale.shapes},
    }
    for name, open_bed in beds.items():
        if perf_counter() > until:
            _tell(f"{name} is left out: {minutes:g} minutes are nearly over.")
            continue
        _tell(f"{perf_counter() - began:.0f} s: {name}")
        try:
            with open_bed() as bed:
                report = measure(bed, scale, bandwidth, until)
                del bed
            yield report
        except torch.OutOfMemoryError:
            _tell(f"{name} is left out: it does not fit into the memory of {device}.")
        gc.collect()  # modules and hooks refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def to_markdown(reports: list[Report], head: str) -> str:
    """The reports as tables."""
    parts = [head]
    for report in reports:
        plain = next(line for line in report.lines if line.method == BASELINE)
        parts += [
            f"## {report.name}, {report.dtype}\n",
            f"A pass reads {report.weight_bytes / 1e9:.3f} GB of weights: at most {report.limit:.0f} passes a second "
            "at the measured bandwidth, as many tokens without speculation.\n",
            "| method | tokens/s | of the limit | against autoregressive | tokens a step | ms a step | "
            "step against autoregressive | greedy tokens |",
            "|---|---:|---:|---:|---:|---:|---:|---|",
            *(
                f"| {line.method} | {line.speed:.1f} | {line.speed / report.limit:.0%} | "
                f"{line.speed / plain.speed:.2f} | {line.tokens / line.passes:.2f} | {line.step * 1e3:.2f} | "
                f"{line.step / plain.step:.2f} | {line.differs or 'the same'} |"
                for line in report.lines
            ),
            "",
            "| tokens in a pass | " + " | ".join(str(size) for size in report.passes) + " |",
            "|---|" + "---:|" * len(report.passes),
            "| ms | " + " | ".join(f"{seconds * 1e3:.2f}" for seconds in report.passes.values()) + " |",
            "| passes of one token | "
            + " | ".join(f"{seconds / min(report.passes.values()):.2f}" for seconds in report.passes.values())
            + " |",
            "",
        ]
    return "\n".join(parts)


def main(
    out: Annotated[Path, typer.Option(help="Where the JSON goes.")] = Path("gpu.json"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tiny models on the CPU: shows that all of it runs.")
    ] = False,
    minutes: Annotated[float, typer.Option(help="How long it may take.", min=0.1)] = 8.0,
) -> None:
    """Check and time every method on the GPU of this machine."""
    try:
        if not dry_run and not torch.cuda.is_available():
            raise UserError("There is no CUDA device here. Run this on a machine with one, or add --dry-run.")
        device = "cpu" if dry_run else "cuda:0"
        bandwidth = read_bandwidth(torch.device(device))
        head = (
            f"# {'Dry run: these figures mean nothing. ' if dry_run else ''}{machine()}\n\n"
            f"torch {torch.__version__}, memory read at {bandwidth / 1e9:.0f} GB/s.\n"
        )
        reports = list(run(DRY if dry_run else FULL, device, bandwidth, minutes))
    except UserError as error:
        _tell(str(error))
        raise typer.Exit(2) from error
    print(to_markdown(reports, head))
    whole = {"machine": machine(), "torch": torch.__version__, "dry_run": dry_run, "bandwidth": bandwidth}
    out.write_text(json.dumps(whole | {"beds": [asdict(report) for report in reports]}, indent=1), encoding="utf-8")
    if any(line.differs.startswith("bug") for report in reports for line in report.lines):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
