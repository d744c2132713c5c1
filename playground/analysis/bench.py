"""A benchmark as a user asks for it: who runs on what, samples and reports in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from playground.analysis.benchmark import Contender, OwnLane, run_benchmark
from playground.analysis.questions import Question, read_questions
from playground.analysis.references import Generate
from playground.analysis.repetition import loops
from playground.analysis.report import judge, make_rows, to_html, to_json, to_markdown
from playground.errors import UserError
from playground.methods import NEEDS
from playground.models.catalog import load_catalog
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, get_kind, machine
from playground.settings import parse_pairs

BASELINE = "autoregressive"
PLAIN = "transformers generate"
LATER = ("rounds", "lanes", "reference", "loops", "hopeless")  # may change while a benchmark goes on
ASSISTED = "transformers assisted"
LOOKUP = "transformers prompt lookup"


@dataclass(frozen=True)
class Plan:
    """What to measure. `lanes` are methods with their settings, as "draft-model k=4"; "k=2|4|8" is a lane for each.

    Of the lanes of one method those slower than `hopeless` times the fastest sit out the rounds that follow.
    Questions whose plain answer repeats more than `loops` of its 4-grams are answered, but left out of the report.
    """

    questions: Path
    lanes: tuple[str, ...]
    target: str = "built-in"
    draft: str | None = None
    heads: str | None = None
    draft_heads: str | None = None
    reference: bool = False
    rounds: int = 5
    limit: int | None = None
    turns: int | None = None
    loops: float = 1.0
    hopeless: float = 0.0
    max_new_tokens: int = 128
    temperature: float = 0.0
    seed: int = 1
    chat: bool | None = None
    dtype: str = "auto"
    device: str = "auto"

    @property
    def run(self) -> RunSpec:
        """The runs to make, but for lane and prompt."""
        return RunSpec(
            "",
            (),
            temperature=self.temperature,
            seed=self.seed,
            max_new_tokens=self.max_new_tokens,
            chat=self.chat,
            dtype=self.dtype,
            device=self.device,
        )


def measure(plan: Plan, out: Path, progress: Callable[..., None] = lambda *_: None) -> str:
    """Measure and write samples.jsonl, report.json, report.md and report.html to `out`; returns the Markdown.

    The samples of an earlier, unfinished run with the same plan are kept. Raises UserError before any work for
    questions that cannot be read, a method or a model that is missing, a folder that holds another benchmark.
    """
    questions = _chosen(read_questions(plan.questions), plan)
    store = ModelStore(progress=progress)
    contenders = _contenders(plan, store)
    _claim(out, plan)
    samples = run_benchmark(questions, contenders, plan.rounds, out / "samples.jsonl", progress, plan.hopeless)
    circles = loops(samples, BASELINE, plan.loops)
    samples = [sample for sample in samples if sample.question not in circles]
    if not samples:
        raise UserError(f"Every plain answer repeats more than {plan.loops:.0%} of its 4-grams. Ask other questions.")
    verdicts = {}
    with store.lease(load_catalog().source(plan.target), plan.dtype, plan.device) as target:
        if plan.temperature == 0:
            own = [one.name for one in contenders if one.name != BASELINE and _keeps_ids(one)]
            verdicts = judge(samples, BASELINE, own, target.target)
        dtype = str(target.model.dtype).removeprefix("torch.")
    facts = {
        "models": " ".join(filter(None, (plan.target, plan.draft, plan.heads, plan.draft_heads))),
        "machine": f"{machine()}, {dtype}",
        "questions": f"{len(questions)} of {plan.questions.name}, {plan.rounds} rounds, "
        f"at most {plan.max_new_tokens} tokens an answer, temperature {plan.temperature:g}",
    }
    if plan.loops < 1:
        facts["left out"] = (
            f"{len(circles)} questions whose plain answer repeats more than {plan.loops:.0%} of its 4-grams"
        )
    baselines = [BASELINE, *([PLAIN] if plan.reference else [])]
    rows = make_rows(samples, baselines, verdicts)
    (out / "report.json").write_text(json.dumps(to_json(rows, facts), indent=1), encoding="utf-8")
    (out / "report.html").write_text(to_html(rows, baselines, facts), encoding="utf-8")
    text = to_markdown(rows, baselines, facts)
    (out / "report.md").write_text(text, encoding="utf-8")
    return text


def _chosen(questions: list[Question], plan: Plan) -> list[Question]:
    """The first `limit` of every category, cut to `turns` turns."""
    for name in ("limit", "turns", "rounds", "max_new_tokens"):
        value = getattr(plan, name)
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; ask for at least 1.")
    taken: dict[str, int] = {}
    chosen = []
    for question in questions:
        taken[question.category] = taken.get(question.category, 0) + 1
        if plan.limit is None or taken[question.category] <= plan.limit:
            chosen.append(replace(question, turns=question.turns[: plan.turns]))
    return chosen


def _contenders(plan: Plan, store: ModelStore) -> list[Contender]:
    texts = [text for lane in (BASELINE, *plan.lanes) for text in each_setting(lane)]
    lanes = [parse_lane(text, plan) for text in dict.fromkeys(texts)]
    catalog = load_catalog()
    for _, lane in lanes:
        method = get_kind(lane.method)
        hybrid = "draft_heads" in method.needs
        parts = catalog.parts(lane.target, lane.draft, lane.heads, lane.draft_heads, hybrid)
        for need in sorted(method.needs):
            if getattr(parts, need) is None:
                raise UserError(f"{method.title} {NEEDS[need]} {lane.target!r} comes without.")
    found: list[Contender] = [OwnLane(name, lane, plan.run, store) for name, lane in lanes]
    if plan.reference:
        parts = catalog.parts(plan.target, plan.draft)
        found.append(Generate(PLAIN, plan.run, store, parts.target))
        for lane in dict(lanes).values():
            k = int(lane.settings.get("k", 0))
            if lane.method == "draft-model":
                found.append(Generate(f"{ASSISTED} k={k}", plan.run, store, parts.target, parts.draft, k))
            if lane.method == "prompt-lookup":
                found.append(Generate(f"{LOOKUP} k={k}", plan.run, store, parts.target, k=k))
    return found


def each_setting(text: str) -> list[str]:
    """The lanes of a sweep: "draft-model k=2|4" is "draft-model k=2" and "draft-model k=4"."""
    method, *pairs = text.split() or [""]
    choices = []
    for pair in pairs:
        name, equals, values = pair.partition("=")
        choices.append([f"{name}{equals}{value}" for value in values.split("|")])
    return [" ".join([method, *chosen]) for chosen in product(*choices)]


def parse_lane(text: str, plan: Plan) -> tuple[str, LaneSpec]:
    """Name and lane of "method name=value ...". Raises UserError for what is no method or no setting of it."""
    method, *pairs = text.split() or [""]
    settings = get_kind(method).check(parse_pairs(pairs))
    return " ".join([method, *pairs]), LaneSpec(method, settings, plan.target, plan.draft, plan.heads, plan.draft_heads)


def _keeps_ids(contender: Contender) -> bool:
    return not isinstance(contender, OwnLane) or contender.promise == "ids"


def _claim(out: Path, plan: Plan) -> None:
    """Make the folder this plan's, or see that it already is."""
    given = {
        name: str(value)
        for name, value in asdict(plan).items()
        if name not in ("rounds", "lanes", "reference", "loops")
    }
    note = out / "plan.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
        if held is None:
            note.write_text(json.dumps(given, indent=1), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"The folder {out} cannot be used: {error}. Choose another one.") from error
    if held not in (None, given):
        changed = sorted(name for name in given if not isinstance(held, dict) or held.get(name) != given[name])
        raise UserError(f"{out} holds a benchmark with another {', '.join(changed)}. Choose another folder.")
