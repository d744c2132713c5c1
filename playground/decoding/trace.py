"""The record of a run: one `Step` per target pass. Page, files, metrics and tests read nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, TextIO, TypeAlias

from playground.decoding.codec import JSON, Between, decode_value
from playground.errors import UserError

FORMAT = "speculative-decoding-trace"
VERSION = 1
DEEPEST = 64  # levels of lists and objects in a line; a run of ours nests a dozen


class Status(StrEnum):
    """The fate of a proposed node (first four) or the role of an emitted token (accepted and the last four)."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NEVER_REACHED = "never-reached"
    CORRECTED = "corrected"
    BONUS = "bonus"
    PLAIN = "plain"
    UNKNOWN = "unknown"


FATES = (Status.ACCEPTED, Status.REJECTED, Status.NEVER_REACHED)
ROLES = (Status.ACCEPTED, Status.CORRECTED, Status.BONUS, Status.PLAIN, Status.UNKNOWN)

# What a file may hold; in memory they are plain values.
Fate: TypeAlias = Annotated[Status, FATES]
Role: TypeAlias = Annotated[Status, ROLES]
Count: TypeAlias = Annotated[int, Between(0)]
NodeIndex: TypeAlias = Annotated[int, Between(-1)]
Time: TypeAlias = Annotated[float, Between(0)]


@dataclass(slots=True)
class Node:
    """A proposed token. `parent` indexes the Step's nodes; -1 is a child of the last committed token.

    `p` and `q` are the processed probabilities of target and draft, `u` the uniform draw that was compared, and
    `threshold` what it (or `p`, under typical acceptance) was compared with. None means: not asked, or not known.
    """

    parent: NodeIndex
    token: Count
    status: Fate
    source: str = ""
    p: float | None = None
    q: float | None = None
    u: float | None = None
    threshold: float | None = None
    reason: str = ""


@dataclass(slots=True)
class Emitted:
    """A token added to the output. `text` is its piece of the running text: empty until a character is complete."""

    token: Count
    status: Role
    text: str = ""


@dataclass(slots=True)
class Seconds:
    """Seconds of a step by phase.

    `wait` is time spent queueing for the device and is not the lane's own. `others` is what the pass took for the
    other sequences of its batch: not this sequence's share, but it could not go on before that.
    """

    wait: Time = 0.0
    prefill: Time = 0.0
    draft: Time = 0.0
    forward: Time = 0.0
    acceptance: Time = 0.0
    bookkeeping: Time = 0.0
    others: Time = 0.0

    @property
    def own(self) -> float:
        """This sequence's share of the pass: what the lane's clock advances by."""
        return self.prefill + self.draft + self.forward + self.acceptance + self.bookkeeping

    @property
    def elapsed(self) -> float:
        """What this sequence took for the step, waiting for the device left out: the latency of a batched row."""
        return self.own + self.others


@dataclass(slots=True)
class Visited:
    """Full detail at a node that verification visited (-1: the last committed token).

    Each list holds (token, probability) pairs: up to eight, most probable first, then the token that the step emitted
    there where it is none of them. `*_rest` is the mass left over.
    """

    node: NodeIndex
    p: list[tuple[Count, float]]
    p_rest: float
    q: list[tuple[Count, float]] = field(default_factory=list)
    q_rest: float = 0.0
    residual: list[tuple[Count, float]] = field(default_factory=list)
    residual_rest: float = 0.0


@dataclass(slots=True)
class Counts:
    """What was proposed and accepted in a whole sequence, in vLLM's names and with its formulas. None: not told.

    `source` is "steps" where the steps were counted here, "request" for the metrics of a server's reply, "counters"
    for the difference of the server's Prometheus counters before and after the request.
    """

    num_spec_steps: Count
    num_draft_tokens: Count
    num_accepted_draft_tokens: Count
    mean_acceptance_length: float | None = None
    draft_acceptance_rate: float | None = None
    acceptance_histogram: list[Count] | None = None
    num_spec_tokens: Count | None = None
    per_step_accepted: list[Count] | None = None
    per_step_drafted: list[Count] | None = None
    source: str = "request"


@dataclass(slots=True)
class Step:
    """What one pass of the target did for one sequence.

    `forwards` counts the target forwards spent, 1 plus those of the prefill in the first step. `rows` is the number
    of token rows in the pass, `side_rows` those that were not verified. `batch` sequences shared the pass and its
    time is split evenly among them. `finish` is set on the last step. `pieces` labels ids not seen before. `counts` is
    set on the last step of a server's reply.
    """

    index: Count
    nodes: list[Node]
    emitted: list[Emitted]
    cache_before: Count
    cache_after: Count
    rows: Count
    side_rows: Count = 0
    forwards: Count = 1
    row: Count = 0
    batch: Count = 1
    seconds: Seconds = field(default_factory=Seconds)
    reason: str = ""
    finish: str | None = None
    view: dict[str, JSON] = field(default_factory=dict)
    children: list[Step] = field(default_factory=list)
    detail: list[Visited] = field(default_factory=list)
    pieces: dict[Count, str] = field(default_factory=dict)
    counts: Counts | None = None

    @property
    def accepted(self) -> int:
        """Number of proposed tokens that entered the output."""
        return sum(token.status is Status.ACCEPTED for token in self.emitted)

    @property
    def drafted(self) -> int:
        """Number of proposed tokens."""
        return len(self.nodes)

    @property
    def depth(self) -> int:
        """Greatest depth of a proposed node; 0 without a proposal."""
        depths: list[int] = []
        for node in self.nodes:
            depths.append(1 + (depths[node.parent] if node.parent >= 0 else 0))
        return max(depths, default=0)

    @property
    def untold(self) -> bool:
        """Whether the server that made the step does not tell what it proposed."""
        known = {token.status for token in self.emitted}
        return Status.UNKNOWN in known or (Status.ACCEPTED in known and not self.nodes)

    @property
    def rows_discarded(self) -> int:
        """Rows of the pass (and of the cache) that did not stay."""
        return self.cache_before + self.rows - self.cache_after


@dataclass(slots=True)
class Summary:
    """Totals of one sequence. Names and formulas of the first group are those of vLLM's per-request metrics.

    mean_acceptance_length = 1 + accepted / speculative steps; draft_acceptance_rate = accepted / proposed.
    tokens_per_target_pass = emitted / target_forwards, the prefill's forwards counted.
    The first group is None where a server tells neither steps nor counts.
    acceptance_histogram[n] counts the speculative steps that accepted n tokens, up to the deepest proposal.
    seconds is what the sequence took (prefill counted, waiting for the device not), tokens_per_second = emitted /
    seconds; in a batch that is the rate of one row.
    """

    num_spec_steps: int | None
    num_draft_tokens: int | None
    num_accepted_draft_tokens: int | None
    mean_acceptance_length: float | None
    draft_acceptance_rate: float | None
    acceptance_histogram: list[int] | None
    per_step_accepted: list[int] | None
    per_step_drafted: list[int] | None
    per_step_emitted: list[int]
    target_forwards: int
    tokens_per_target_pass: float
    seconds: float
    tokens_per_second: float
    output_token_ids: list[int]
    finish_reason: str | None


def summarize(steps: Sequence[Step]) -> Summary:
    """Totals over the steps of one sequence, in order. Ratios with nothing to divide by are None."""
    counts = _counts(steps)
    output = [token.token for step in steps for token in step.emitted]
    forwards = sum(step.forwards for step in steps)
    if counts is not None:  # a server may send several passes at once; each gives one token that was not proposed
        forwards = max(forwards, len(output) - counts.num_accepted_draft_tokens)
    seconds = sum(step.seconds.elapsed for step in steps)
    return Summary(
        num_spec_steps=counts.num_spec_steps if counts else None,
        num_draft_tokens=counts.num_draft_tokens if counts else None,
        num_accepted_draft_tokens=counts.num_accepted_draft_tokens if counts else None,
        mean_acceptance_length=counts.mean_acceptance_length if counts else None,
        draft_acceptance_rate=counts.draft_acceptance_rate if counts else None,
        acceptance_histogram=counts.acceptance_histogram if counts else None,
        per_step_accepted=counts.per_step_accepted if counts else None,
        per_step_drafted=counts.per_step_drafted if counts else None,
        per_step_emitted=[len(step.emitted) for step in steps],
        target_forwards=forwards,
        tokens_per_target_pass=len(output) / forwards if forwards else 0.0,
        seconds=seconds,
        tokens_per_second=len(output) / seconds if seconds else 0.0,
        output_token_ids=output,
        finish_reason=steps[-1].finish if steps else None,
    )


def _counts(steps: Sequence[Step]) -> Counts | None:
    """What a server counted, or else what the steps say; None where they do not know either."""
    if steps and steps[-1].counts is not None:
        return steps[-1].counts
    if any(step.untold for step in steps):
        return None
    speculative = [step for step in steps if step.nodes]
    accepted = [step.accepted for step in speculative]
    drafted = [step.drafted for step in speculative]
    histogram = [0] * (max((step.depth for step in speculative), default=-1) + 1)
    for count in accepted:
        histogram[count] += 1
    return Counts(
        num_spec_steps=len(speculative),
        num_draft_tokens=sum(drafted),
        num_accepted_draft_tokens=sum(accepted),
        mean_acceptance_length=1 + sum(accepted) / len(speculative) if speculative else None,
        draft_acceptance_rate=sum(accepted) / sum(drafted) if speculative else None,
        acceptance_histogram=histogram,
        per_step_accepted=accepted,
        per_step_drafted=drafted,
        source="steps",
    )


def throughput(steps: Sequence[Step]) -> float:
    """Tokens per second of a whole lane: of all its sequences together, waiting for the device left out."""
    seconds = sum(step.seconds.own for step in steps)
    return sum(len(step.emitted) for step in steps) / seconds if seconds else 0.0


Value: TypeAlias = str | int | float | bool


@dataclass(slots=True)
class Lane:
    """Who ran. `lossless` is what the method promises of its output: 'ids', 'distribution', 'lossy', or 'unknown'.

    `chat` says that the prompt went through the chat template.
    """

    method: str
    title: str
    settings: dict[str, Value]
    models: dict[str, str]
    sampling: dict[str, int | float]  # int first: a 64-bit seed must not pass through a float
    lossless: str
    prompt_ids: list[Count]
    prompt_pieces: list[str] = field(default_factory=list)
    prompt: str = ""
    dtype: str = "float32"
    device: str = "cpu"
    chat: bool = False
    notices: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Trace:
    """One run of one or more lanes: with its lanes' settings, enough to run it again.

    `order` is the sequence of (lane, step) in which the steps happened.
    """

    lanes: list[Lane]
    machine: str = ""
    recorded: str = ""
    title: str = ""
    order: list[tuple[int, Step]] = field(default_factory=list)
    max_new_tokens: Count = 0
    stop: list[str] = field(default_factory=list)
    chat: bool | None = None
    system: str | None = None
    companions: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)

    def steps(self, lane: int, row: int = 0) -> list[Step]:
        """The steps of one sequence of one lane."""
        return [step for at, step in self.order if at == lane and step.row == row]

    def header(self) -> dict[str, JSON]:
        """Everything but the steps, as JSON."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self) if item.name != "order"}

    def write(self, file: TextIO) -> None:
        """One JSON object a line: the header, every step, and a closing line that tells a whole file from a cut one."""
        file.write(_line({"format": FORMAT, "version": VERSION, **self.header()}))
        for lane, step in self.order:
            file.write(_line({"lane": lane, "step": asdict(step)}))
        file.write(_line({"end": len(self.order)}))


def read_trace(lines: Iterable[str]) -> Trace:
    """Read what `Trace.write` wrote. Raises UserError, naming the line, for a foreign, broken or cut file."""
    rows = _numbered(lines)
    number, first = next(rows, (0, ""))
    if not number:
        raise UserError("The trace file is empty. Choose a .jsonl file that the playground wrote.")
    header = _parse(first, number)
    if header.get("format") != FORMAT:
        raise UserError(
            "This is not a trace of the playground: its first line does not say "
            f'"format": "{FORMAT}". Choose a .jsonl file that the playground wrote.'
        )
    if header.get("version") != VERSION:
        raise UserError(f"The trace has version {header.get('version')!r}; this playground reads version {VERSION}.")
    known = {key: value for key, value in header.items() if key not in ("format", "version", "order")}
    trace = decode_value(Trace, known, f"line {number}")
    if not trace.lanes:
        raise UserError(f"Line {number} of the trace names no lane, so there is nothing to show. Save the run again.")
    for number, line in rows:
        row = _parse(line, number)
        if "end" in row:
            if row["end"] != len(trace.order):
                break
            return trace
        lane = row.get("lane")
        if type(lane) is not int or not 0 <= lane < len(trace.lanes):
            raise UserError(f"Line {number} of the trace names lane {lane!r}, but it has {len(trace.lanes)} lanes.")
        step = decode_value(Step, row.get("step"), f"line {number}, step")
        _check_step(step, number)
        trace.order.append((lane, step))
    raise UserError(
        f"The trace is cut off after {len(trace.order)} steps: its closing line is missing or does not "
        "match. Save the run again."
    )


def _plain(value: object) -> JSON:
    """A header field as JSON."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value  # type: ignore[return-value]


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, counted from 1."""
    try:
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    except UnicodeDecodeError as error:
        raise UserError(
            "This is not a trace of the playground: it is no text. Choose a .jsonl file that the playground wrote."
        ) from error


def _check_step(step: Step, number: int) -> None:
    for at, node in enumerate(step.nodes):
        if not -1 <= node.parent < at:
            raise UserError(f"Line {number} of the trace: node {at} has parent {node.parent}; parents come first.")
    for child in step.children:
        _check_step(child, number)


def _line(value: dict[str, object]) -> str:
    # ASCII: lone surrogates and the line ends of Unicode travel as escapes, whoever opens the file.
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


def _parse(line: str, number: int) -> dict[str, JSON]:
    try:
        value = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"Line {number} of the trace is not a JSON object ({type(error).__name__}). "
            "The file is cut off or is not a trace."
        ) from error
    if not isinstance(value, dict):
        raise UserError(f"Line {number} of the trace is not a JSON object. The file is not a trace.")
    if _deeper(value, DEEPEST):
        raise UserError(
            f"Line {number} of the trace is nested more than {DEEPEST} levels deep. The file is not a trace."
        )
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a JSON number")
    return value


def _deeper(value: JSON, most: int) -> bool:
    """Whether a value nests deeper than `most` levels; found without recursion, which is what is at stake."""
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
        if not level:
            return False
    return True
