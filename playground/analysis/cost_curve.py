"""What a pass costs on this machine: seconds against the number of tokens that it reads and the text before them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from playground.decoding.codec import decode_value
from playground.decoding.executor import Executor, Pass, causal
from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.files import replace_whole
from playground.models.cache import Progress, cache_dir, quiet
from playground.models.loading import LoadedModel
from playground.models.medusa_heads import MedusaHeads
from playground.run import machine

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
CONTEXTS = (64, 512)  # tokens before: where the answer to a short prompt is, and to a long one
TREE_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
KNEE = 1.5  # a pass over so many tokens that it costs this many passes of one token is no longer nearly free
BIG_ARRAY = 1 << 28  # bytes: larger than any processor's cache
BIG_READS = 7
FORMAT = 1  # of the file that keeps a curve


@dataclass(frozen=True)
class Point:
    """Passes that read `tokens` after `context` tokens: median and least seconds of `repeats`."""

    context: int
    tokens: int
    seconds: float
    least: float
    repeats: int


@dataclass(frozen=True)
class CostCurve:
    """The passes of a model on a machine. `bandwidth` is in bytes a second, as a plain read of a big array had it."""

    model: str
    machine: str
    dtype: str
    device: str
    weight_bytes: int
    bandwidth: float
    points: list[Point]

    @property
    def contexts(self) -> list[int]:
        return sorted({point.context for point in self.points})

    @property
    def limit(self) -> float:
        """Seconds that reading the weights once from memory takes. Weights that fit in a processor's cache can be
        faster than this."""
        return self.weight_bytes / self.bandwidth

    def at(self, context: int) -> dict[int, Point]:
        """The points of a measured context, by tokens."""
        return {point.tokens: point for point in self.points if point.context == context}

    def seconds(self, tokens: float, context: float | None = None) -> float:
        """Seconds of a pass over `tokens` after `context` tokens, None for the shortest measured context.

        Straight between what was measured, in both directions, and beyond it as the last piece goes on.
        """
        costs = {
            one: interpolated({size: point.seconds for size, point in self.at(one).items()})(tokens)
            for one in self.contexts
        }
        return interpolated(costs)(self.contexts[0] if context is None else context)

    def relative(self, tokens: float) -> float:
        """What a pass over `tokens` costs, in passes over one token, at the shortest context."""
        return self.seconds(tokens) / self.seconds(1)

    def knee(self, times: float = KNEE) -> float | None:
        """How many tokens make a pass cost `times` a pass over one token, at the shortest context: the first crossing,
        straight between the measured sizes; None where no measured pass costs that much."""
        points = sorted(self.at(self.contexts[0]).items())
        bar = times * points[0][1].seconds
        for (left, low), (right, high) in pairwise(points):
            if high.seconds >= bar:
                return left + (right - left) * (bar - low.seconds) / (high.seconds - low.seconds)
        return None


def interpolated(measured: Mapping[int, float]) -> Callable[[float], float]:
    """A curve through measured points: straight between them, flat before the first, going on after the last as the
    last piece does, but never down."""
    points = sorted(measured.items())

    def value(at: float) -> float:
        if at <= points[0][0] or len(points) == 1:
            return points[0][1]
        for (left, low), (right, high) in pairwise(points):
            if at <= right:
                return low + (high - low) * (at - left) / (right - left)
        (left, low), (right, high) = points[-2:]
        return high + max(0.0, high - low) * (at - right) / (right - left)

    return value


def pass_seconds(
    target: TransformersTarget, heads: MedusaHeads | None = None, sizes: Sequence[int] = TREE_SIZES, rounds: int = 9
) -> dict[int, float]:
    """{n: median seconds of a pass that reads n tokens after a short text}, logits of all n included.

    With `heads`, that of a step: they are asked once, on one row. More tokens never cost less: where they seem to, the
    cheaper measurement counts, since a pass can be padded.
    """
    run = passes_after(target, CONTEXTS[0], max(sizes), heads)
    measured: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    for number in range(rounds + 1):  # round by round, so that a busy moment of the machine hits all sizes
        for tokens in sizes:
            seconds = run(tokens)
            if number:  # first calls pay for what later ones find ready
                measured[tokens].append(seconds)
    typical = {tokens: median(seconds) for tokens, seconds in measured.items()}
    return {tokens: min(typical[more] for more in sizes if more >= tokens) for tokens in sizes}


def passes_after(
    target: TransformersTarget, context: int, most: int, heads: MedusaHeads | None = None
) -> Callable[[int], float]:
    """Seconds of a pass over so many tokens, at most `most`, after a text of `context` tokens; what is read stays out
    of the cache. Logits of all tokens are part of it, and with `heads` their guesses on one row."""
    executor = Executor(target)
    executor.cache.reserve(context + most)

    def run(tokens: int) -> float:
        length = executor.cache.lengths[0]
        ids = [(7 * at + 3) % target.vocab_size for at in range(tokens)]
        began = perf_counter()
        rows = executor.run({0: Pass(ids, range(length, length + tokens), causal(tokens))})[0]
        last = rows.logits(slice(None)).argmax(-1)
        if heads is not None and length:
            with torch.inference_mode():
                heads(next(iter(rows.hidden.values()))[-1:], target.logits).topk(10)
        last.cpu()  # waits for an accelerator
        return perf_counter() - began

    run(context)
    executor.cache.keep(0, range(context))
    return run


def measure_curve(
    model: LoadedModel,
    budget: float = 20.0,
    sizes: Sequence[int] = SIZES,
    contexts: Sequence[int] = CONTEXTS,
    progress: Progress = quiet,
    gate: AbstractContextManager[object] | None = None,
) -> CostCurve:
    """Time passes round by round for `budget` seconds: at least two rounds, after one that is not counted.

    Contexts and sizes that do not fit into the model's context are left out. `gate` is held during a pass.
    """
    target, gate = model.target, gate or nullcontext()
    room = model.context_length
    fitting = [context for context in contexts if context + sizes[0] <= room] or [room // 2]
    wanted = [(context, size) for context in fitting for size in sizes if context + size <= room]
    began = perf_counter()
    with gate:
        passes = {
            context: passes_after(target, context, max(size for one, size in wanted if one == context))
            for context in fitting
        }
    measured: dict[tuple[int, int], list[float]] = {one: [] for one in wanted}
    rounds = -1
    while rounds < 2 or perf_counter() - began < budget:
        for context, size in wanted:
            with gate:
                seconds = passes[context](size)
            if rounds >= 0:
                measured[context, size].append(seconds)
        rounds += 1
        share = min(1.0, (perf_counter() - began) / budget) if budget > 0 else None
        progress(f"What a pass of {model.name} costs, round {max(rounds, 0)}", share)
    weights = {tensor.data_ptr(): tensor.nbytes for tensor in model.model.parameters()}
    with gate:
        bandwidth = read_bandwidth(target.device)
    return CostCurve(
        model=model.name,
        machine=machine(),
        dtype=str(model.model.dtype).removeprefix("torch."),
        device=str(target.device),
        weight_bytes=sum(weights.values()),
        bandwidth=bandwidth,
        points=[
            Point(context, size, median(seconds), min(seconds), len(seconds))
            for (context, size), seconds in measured.items()
        ],
    )


def read_bandwidth(device: torch.device, size: int = BIG_ARRAY) -> float:
    """Bytes a second that a matrix-vector product reads of an array of `size` bytes: the best of some tries."""
    rows = size // (4 * 4096)
    matrix, vector = torch.ones(rows, 4096, device=device), torch.ones(4096, device=device)

    def read() -> float:
        began = perf_counter()
        torch.mv(matrix, vector)[-1].item()  # waits for an accelerator
        return perf_counter() - began

    read()
    return matrix.nbytes / min(read() for _ in range(BIG_READS))


def cost_curve(
    model: LoadedModel,
    budget: float = 20.0,
    again: bool = False,
    progress: Progress = quiet,
    gate: AbstractContextManager[object] | None = None,
) -> CostCurve:
    """The curve of a model on this machine: kept from the last time, or measured; `again` measures in any case.

    It is kept in the model cache, by machine, threads, model, number format, version of torch and way of making passes.
    """
    file = curve_file(model)
    if not again and (kept := _kept(file)) is not None:
        return kept
    curve = measure_curve(model, budget, progress=progress, gate=gate)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(file, json.dumps({"format": FORMAT, "curve": asdict(curve)}))
    except OSError as error:
        raise UserError(f"Cannot write to {file.parent} ({error}). Set SPECPLAY_CACHE to another folder.") from error
    return curve


def curve_file(model: LoadedModel) -> Path:
    """Where the curve of this model on this machine is kept."""
    weights = (
        sorted((*model.folder.glob("*.safetensors"), *model.folder.glob("*.bin")))
        if model.folder.is_dir()
        else [model.folder]
    )
    known = [
        machine(),
        str(torch.get_num_threads()),
        torch.__version__,
        str(model.model.dtype),
        str(model.target.device),
        model.target.way,
        str(model.folder.resolve()),
        *(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in weights),
    ]
    key = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    return cache_dir() / "cost-curves" / f"{model.name.replace('/', '--')}-{key}.json"


def _kept(file: Path) -> CostCurve | None:
    """The curve in `file`; None where there is none that this version can read."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            return None
        return decode_value(CostCurve, held.get("curve"), file.name)
    except (OSError, ValueError, UserError):
        return None
