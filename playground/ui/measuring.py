"""A benchmark for those who watch: one at a time, in the background; it can be stopped, gone on with, and looked at."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Literal

from playground.analysis.bench import BASELINE, PLAIN, Bench, Plan, measure, prepare
from playground.analysis.benchmark import Sample, read_samples
from playground.analysis.questions import BUILT_IN
from playground.analysis.report import Row, make_rows, noise, remarks
from playground.analysis.sweep import Sweep, direction, find_sweeps, sweep_figure
from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.jobs import HaltedError, Jobs
from playground.methods import METHODS
from playground.models.cache import cache_dir
from playground.ui.limits import at_most

KIND = "benchmark"
REPORTS = {"json": "report.json", "md": "report.md", "html": "report.html"}
LARGEST_FILE = 500_000  # characters of an uploaded question file
DRAW_SECONDS = 1.0  # between two tables while samples come in


@dataclass(frozen=True)
class BenchLimits:
    """The most that may be asked for: of rounds, questions, tokens an answer, lanes, and minutes in one go."""

    rounds: int
    questions: int
    tokens: int
    lanes: int
    minutes: float


OWN_MACHINE = BenchLimits(rounds=20, questions=500, tokens=1024, lanes=24, minutes=600)
STRANGERS = BenchLimits(rounds=3, questions=16, tokens=96, lanes=8, minutes=10)


@dataclass(frozen=True)
class Order:
    """What a visitor asks for. `questions` is the uploaded file's name, empty for the built-in questions."""

    lanes: list[str]
    target: str = "built-in"
    draft: str | None = None
    heads: str | None = None
    draft_heads: str | None = None
    questions: str = ""
    rounds: int = 3
    limit: int | None = None
    max_new_tokens: int = 64
    reference: bool = False
    hopeless: float = 0.0

    def plan(self, questions: Path) -> Plan:
        """The benchmark of these questions: greedy."""
        given = {name: value for name, value in vars(self).items() if name not in ("questions", "lanes")}
        return Plan(questions=questions, lanes=tuple(self.lanes), **given)


@dataclass
class State:
    """What there is to see. `phase`: idle, loading, measuring, judging, done, paused, failed.

    `done` of `of` answers are there; `left` is a guess in seconds, None while there is nothing to guess from.
    """

    run: str = ""
    phase: Literal["idle", "loading", "measuring", "judging", "done", "paused", "failed"] = "idle"
    order: Order | None = None
    round: int = 0
    done: int = 0
    of: int = 0
    seconds: int = 0
    left: int | None = None
    rows: list[Row] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False
    error: str = ""


class Measuring:
    """Benchmarks lanes on the models of `bench` within `limits`; what was measured lies in the folder `home`."""

    def __init__(
        self, bench: Bench, home: Path | None = None, jobs: Jobs | None = None, limits: BenchLimits | None = None
    ) -> None:
        self.bench, self._jobs = bench, jobs or Jobs()
        self.home = home or cache_dir() / "measured-here"
        self.limits = limits or (OWN_MACHINE if bench.allow_local else STRANGERS)
        self._lock = Lock()
        self._samples: list[Sample] = []
        self._began = self._drawn = 0.0
        self._earlier = 0
        self._state = State()
        self._restore()

    def start(self, order: Order, questions: str | None, visitor: str, afresh: bool = False) -> None:
        """Begin, or go on with what was paused unless `afresh`. `questions` are the lines of an uploaded file.

        Raises UserError for what cannot be measured, before any work, and while another job runs.
        """
        kept = None if afresh else self.paused()
        chosen = kept or order
        with tempfile.TemporaryDirectory() as folder:
            file = self._questions(chosen)
            if kept is None and questions is not None:
                file = _write(questions, Path(folder))
            wanted = self._check(chosen, file)

            def begin() -> Callable[[], None]:
                if kept is None:
                    shutil.rmtree(self.home, ignore_errors=True)
                    self.home.mkdir(parents=True)
                    if questions is not None:
                        shutil.move(file, self._questions(chosen))
                    (self.home / "order.json").write_text(json.dumps(asdict(chosen)), encoding="utf-8")
                with self._lock:
                    self._state = State(token_hex(4), "loading", chosen, of=wanted)
                    self._samples, self._began = [], time.monotonic()
                return lambda: self._work(chosen)

            what = f"A benchmark of {chosen.target} runs"
            self._jobs.start(KIND, what, visitor, begin, lambda wrong: self._change(phase="failed", error=wrong))

    def stop(self, visitor: str) -> None:
        """Pause after the answer in flight. Raises UserError for a benchmark that somebody else watches over."""
        self._jobs.stop(KIND, visitor)

    def paused(self) -> Order | None:
        """What was begun and not finished."""
        return None if (self.home / REPORTS["json"]).exists() else self._order()

    def watch(self, visitor: str) -> Iterator[dict[str, JSON]]:
        """The state now, and after every change while a benchmark runs."""
        return self._jobs.watch(KIND, visitor, lambda: self.view(visitor))

    def view(self, visitor: str) -> dict[str, JSON]:
        """The state for a visitor, who is told whether the benchmark is theirs and what could be gone on with."""
        with self._lock:
            now = self._state
        state, paused = asdict(now), self.paused()
        return state | {
            "mine": self._jobs.owns(KIND, visitor),
            "paused": asdict(paused) if paused else None,
            "baselines": [BASELINE, PLAIN],
            "noise": (noise(now.rows) if now.phase == "done" else None) or "",
            "sweeps": self._sweeps(),
        }

    def report(self, form: str) -> str:
        """The finished report as "json", "md" or "html". Raises UserError where there is none."""
        name = REPORTS.get(form)
        try:
            if name is not None:
                return (self.home / name).read_text(encoding="utf-8")
        except OSError:
            pass  # said below
        raise UserError("There is no such report here. Reports come as json, md and html when a benchmark is finished.")

    @property
    def facts(self) -> dict[str, str]:
        """What the finished benchmark was made on: models, machine, questions."""
        with self._lock:
            return dict(self._state.facts)

    def samples(self) -> tuple[list[Sample], list[Row], str]:
        """What was measured so far, the rows that it makes, and the target."""
        with self._lock:
            order = self._state.order
            return list(self._samples), list(self._state.rows), order.target if order else ""

    def measured(self) -> Path | None:
        """The report.json of the finished benchmark."""
        file = self.home / REPORTS["json"]
        return file if file.exists() else None

    def _check(self, order: Order, questions: Path) -> int:
        """How many answers the order takes. Raises UserError for what is wrong with it, or too much."""
        for lane in order.lanes:
            if not self.bench.allow_local and lane.split()[:1] and lane.split()[0] not in METHODS:
                raise UserError(f"This page is open to strangers and measures no lane {lane.split()[0]!r}.")
        try:
            asked, contenders = prepare(order.plan(questions), self.bench)
        except UserError as error:  # files are called by the names that visitors know
            raise UserError(str(error).replace(str(questions), order.questions or questions.name)) from error
        most = self.limits
        for count, allowed, what in (
            (order.rounds, most.rounds, "rounds"),
            (len(asked), most.questions, "questions"),
            (order.max_new_tokens, most.tokens, "tokens an answer"),
            (len(contenders), most.lanes, "lanes, references included"),
        ):
            at_most(count, allowed, what)
        return order.rounds * len(asked) * len(contenders)

    def _work(self, order: Order) -> None:
        try:
            measure(order.plan(self._questions(order)), self.home, self._progress, self.bench, self._take)
            rows, facts = self._read()
            self._change(phase="done", rows=rows, facts=facts)
        except HaltedError:
            self._change(phase="paused", rows=self._rows())

    def _progress(self, message: str, fraction: float | None = None) -> None:
        """Called by the benchmark before every answer."""
        seconds = time.monotonic() - self._began
        if fraction is None:
            if self._samples:
                self._change(phase="judging")
            return
        if self._state.phase == "loading":
            self._began, self._earlier, seconds = time.monotonic(), len(self._samples), 0.0
        fresh = len(self._samples) - self._earlier
        to_do = self._state.of - len(self._samples)
        left = int(seconds / fresh * to_do) if fresh else None
        self._change(phase="measuring", seconds=int(seconds), left=left)
        late = seconds > 60 * self.limits.minutes
        if self._jobs.halted or late:
            self._change(out_of_time=late)
            raise HaltedError

    def _take(self, sample: Sample) -> None:
        self._samples.append(sample)
        now = time.monotonic()
        if now - self._drawn > DRAW_SECONDS:
            self._drawn = now
            self._change(rows=self._rows())
        self._change(done=len(self._samples), round=sample.round)

    def _sweeps(self) -> list[JSON]:
        """Figures of the lanes that differ in a setting, and what the settings did; once all is measured."""
        with self._lock:
            rows = self._state.rows if self._state.phase == "done" else []
        return [
            {"figure": json.loads(sweep_figure(one).to_json()), "told": [*_directions(one), *_remarks(rows, one)]}
            for one in find_sweeps(rows, BASELINE)
        ]

    def _rows(self) -> list[Row]:
        return make_rows(_whole(self._samples), [BASELINE, PLAIN]) if self._samples else []

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)  # type: ignore[arg-type]

    def _questions(self, order: Order) -> Path:
        return self.home / "questions.jsonl" if order.questions else BUILT_IN

    def _order(self) -> Order | None:
        try:
            return decode_value(Order, json.loads((self.home / "order.json").read_text(encoding="utf-8")), "The order")
        except (OSError, ValueError):
            return None

    def _restore(self) -> None:
        """Show the finished benchmark of an earlier day."""
        order = self._order()
        if order is None or self.measured() is None:
            return
        try:
            rows, facts = self._read()
            self._samples = read_samples(self.home / "samples.jsonl")
        except (OSError, ValueError, KeyError):
            return
        self._state = State(token_hex(4), "done", order, rows=rows, facts=facts)

    def _read(self) -> tuple[list[Row], dict[str, str]]:
        given = json.loads((self.home / REPORTS["json"]).read_text(encoding="utf-8"))
        return decode_value(list[Row], given["rows"], "rows"), decode_value(dict[str, str], given["facts"], "facts")


def _whole(samples: list[Sample]) -> list[Sample]:
    """The samples without those of a question that not all lanes have answered in its round: like beside like."""
    turns = [(sample.round, sample.question) for sample in samples]
    last = turns.count(turns[-1])
    before = turns.count(turns[-1 - last]) if last < len(turns) else 0
    return samples[:-last] if last < before else samples


def _remarks(rows: Sequence[Row], sweep: Sweep) -> list[str]:
    lanes = {point.lane for point in sweep.points}
    return remarks([row for row in rows if row.lane in lanes])


def _directions(sweep: Sweep) -> list[str]:
    return [told for name in sweep.varied if (told := direction(sweep, name)) is not None]


def _write(questions: str, folder: Path) -> Path:
    """An uploaded file in `folder`. Raises UserError for one that is too large."""
    if len(questions) > LARGEST_FILE:
        raise UserError(
            f"The question file has {len(questions)} characters; here at most {LARGEST_FILE} are read. Shorten it."
        )
    file = folder / "questions.jsonl"
    try:
        file.write_text(questions, encoding="utf-8")
    except UnicodeEncodeError as error:
        raise UserError("The question file holds characters that are no text. Save it as UTF-8.") from error
    return file
