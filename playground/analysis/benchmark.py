"""Measuring methods against each other: the same questions to every contender, in turn, several rounds.

A contender answers a question; a `Sample` is what that took. Samples go to a file one by one, so that a killed
benchmark goes on where it stopped, and reports are made of them alone (see report.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Protocol

from playground.analysis.memory import Memory, memory, watch
from playground.analysis.questions import Question
from playground.decoding.codec import decode_value
from playground.errors import UserError
from playground.methods import Method
from playground.models.store import ModelStore
from playground.run import LaneSpec, Run, RunSpec, get_kind

DRAFT = ("draft",)
FORWARD = ("prefill", "forward")
OTHER = ("acceptance", "bookkeeping")


@dataclass(frozen=True)
class Answer:
    """One turn's output and what it took.

    `seconds` is wall time, prefill and text included, warm-up and loading not. `passes` counts forwards of the target,
    the prefill's too. `accepted` is a histogram: how many steps accepted 0, 1, 2, ... tokens. `shares` splits the
    engine's own time into draft, forward and other; it is empty where nobody knows. `rows` counts the passes of the
    target after the prompt's by the tokens that they read, `draft_rows` those of a draft model. `phases` are the
    engine's seconds: prefill, draft_prefill, draft, forward, other. `memory` is None where nobody knows. `beside` is
    how many tokens the other sequences of a batch wrote; everything else is of the first sequence. `notices` are
    what the lane had to say of itself.
    """

    prompt_ids: list[int]
    output_ids: list[int]
    text: str
    seconds: float
    passes: int
    accepted: list[int] = field(default_factory=list)
    drafted: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    draft_rows: dict[int, int] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    memory: Memory | None = None
    beside: int = 0
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """A question answered by a contender in a round."""

    lane: str
    round: int
    question: str
    category: str
    answers: list[Answer]

    @property
    def tokens(self) -> int:
        """All that were written, in a batch by all of its sequences."""
        return sum(len(answer.output_ids) + answer.beside for answer in self.answers)

    @property
    def seconds(self) -> float:
        return sum(answer.seconds for answer in self.answers)


class Contender(Protocol):
    """Who is measured. Those of one `group` are settings of one thing, of which the best is looked for."""

    name: str
    group: str

    def answer(self, prompt: str, earlier: Sequence[str]) -> Answer:
        """Continue `earlier`, texts of the user and answers by turns, and `prompt`."""
        ...


class OwnLane:
    """A method of the playground. `spec` is everything about the run but lane and prompt; `open_run` opens it.

    `store` holds its models; without it nobody knows what memory an answer took.
    """

    def __init__(
        self,
        name: str,
        lane: LaneSpec,
        spec: RunSpec,
        open_run: Callable[[RunSpec], Run],
        store: ModelStore | None = None,
    ) -> None:
        self.name, self.group, self._open, self._store = name, lane.method, open_run, store
        kind = get_kind(lane.method)
        self.promise, self._local = kind.promise(lane.settings, spec.sampling.greedy), isinstance(kind, Method)
        self._spec = replace(spec, lanes=(lane,))

    def answer(self, prompt: str, earlier: Sequence[str]) -> Answer:
        with self._open(replace(self._spec, prompt=prompt, earlier=tuple(earlier))) as run:
            run.warm()
            watch()
            began = perf_counter()
            for _ in run:
                pass
            seconds = perf_counter() - began
            summary, steps = run.summary(0), run.trace.steps(0)
            took = memory(self._store, run.local(0).sessions) if self._store and self._local else None
        phases = {name: sum(getattr(step.seconds, name) for step in steps) for name in (*DRAFT, *FORWARD, *OTHER)}
        whole = sum(phases.values())
        shares = {"draft": DRAFT, "forward": FORWARD, "other": OTHER}
        drafting = [child for step in steps for child in step.children]
        draft_prefill = sum(child.seconds.prefill for child in drafting)
        return Answer(
            prompt_ids=run.trace.lanes[0].prompt_ids,
            output_ids=summary.output_token_ids,
            text=run.text(0),
            seconds=seconds,
            passes=summary.target_forwards,
            accepted=summary.acceptance_histogram or [],  # a server that does not count
            drafted=summary.num_draft_tokens or 0,
            shares={name: sum(phases[phase] for phase in of) / whole for name, of in shares.items()} if whole else {},
            rows=dict(Counter(step.rows for step in steps)),
            draft_rows=dict(Counter(child.rows for child in drafting)),
            phases={
                "prefill": phases["prefill"],
                "draft_prefill": draft_prefill,
                "draft": phases["draft"] - draft_prefill,
                "forward": phases["forward"],
                "other": phases["acceptance"] + phases["bookkeeping"],
            },
            memory=took,
            beside=sum(len(step.emitted) for _, step in run.trace.order if step.row),
            notices=run.trace.lanes[0].notices,
        )


def run_benchmark(
    questions: Sequence[Question],
    contenders: Sequence[Contender],
    rounds: int,
    file: Path,
    progress: Callable[[str, float], None] = lambda message, fraction: None,
    hopeless: float = 0.0,
    take: Callable[[Sample], None] = lambda sample: None,
    more: Callable[[Sequence[Sample]], bool] = lambda samples: False,
) -> list[Sample]:
    """Every contender answers every question in every round; returns all samples, those already in `file` too.

    `take` gets each of them as soon as it is there. After `rounds` there is another round as long as `more`, asked with
    all samples of those before, says so.

    For a question the contenders take turns one right after the other, each time another first, so that whatever else
    the machine does meets all alike. A contender whose tokens per second are below `hopeless` times those of the best
    of its group sits out the rounds that follow. Raises UserError before any work: nothing to measure, two contenders
    of one name, a file that holds something else.
    """
    names = [contender.name for contender in contenders]
    if not questions or not contenders or rounds < 1:
        raise UserError(
            f"Nothing to measure: {len(questions)} questions, {len(names)} lanes, {rounds} rounds. "
            "Give at least one of each."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"Two lanes are called {twice[0]}. Leave one out, or change its settings.")
    samples = read_samples(file) if file.exists() else []
    for sample in samples:
        take(sample)
    done = {(sample.lane, sample.round, sample.question) for sample in samples}
    asked = {question.id for question in questions}

    def before(number: int) -> list[Sample]:
        return [one for one in samples if one.lane in names and one.round < number and one.question in asked]

    number = 0
    with file.open("a", encoding="utf-8") as lines:
        while number < rounds or more(before(number)):
            wanted = max(rounds, number + 1) * len(questions) * len(names)
            for question, contender in _turns(number, questions, contenders, samples, hopeless):
                if (contender.name, number, question.id) in done:
                    continue
                progress(f"Round {number + 1}, question {question.id}: {contender.name}", len(done) / wanted)
                answers: list[Answer] = []
                said: list[str] = []
                for turn in question.turns:
                    answers.append(contender.answer(turn, said))
                    said += turn, answers[-1].text
                sample = Sample(contender.name, number, question.id, question.category, answers)
                lines.write(json.dumps(asdict(sample)) + "\n")
                lines.flush()
                samples.append(sample)
                take(sample)
                done.add((sample.lane, sample.round, sample.question))
            number += 1
    return before(number)


def read_samples(file: Path) -> list[Sample]:
    """The samples of a benchmark's file; a last line that a kill left half written is cut off."""
    samples, kept = [], 0
    text = file.read_bytes()
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            samples.append(decode_value(Sample, json.loads(line), f"line {number}"))
        except ValueError as error:
            raise UserError(
                f"Line {number} of {file} is not a sample of a benchmark: {error} Choose another folder."
            ) from error
        kept += len(line)
    if kept < len(text):
        with file.open("r+b") as cut:
            cut.truncate(kept)
    return samples


def _turns(
    number: int,
    questions: Sequence[Question],
    contenders: Sequence[Contender],
    samples: Sequence[Sample],
    hopeless: float,
) -> Iterator[tuple[Question, Contender]]:
    """Who answers what in a round, in order."""
    before = [one for one in samples if one.round < number]
    running = [one for one in contenders if _rate(before, one.name) >= hopeless * _best(before, contenders, one)]
    for at, question in enumerate(questions):
        first = (number + at) % len(running)
        for contender in (*running[first:], *running[:first]):
            yield question, contender


def _best(samples: Sequence[Sample], contenders: Sequence[Contender], one: Contender) -> float:
    return max(_rate(samples, other.name) for other in contenders if other.group == one.group)


def _rate(samples: Sequence[Sample], lane: str) -> float:
    """Tokens per second of all answers together; 0 without any."""
    seconds = sum(sample.seconds for sample in samples if sample.lane == lane)
    return sum(sample.tokens for sample in samples if sample.lane == lane) / seconds if seconds else 0.0
