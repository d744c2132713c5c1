"""A benchmark as a user asks for it: who runs on what, samples and reports in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic

from playground.analysis.benchmark import Contender, OwnLane, Sample, run_benchmark
from playground.analysis.cost_curve import CostCurve, cost_curve
from playground.analysis.lane_text import baseline_for, each_setting, split_lane
from playground.analysis.prediction_report import prediction_section
from playground.analysis.questions import Question, read_questions
from playground.analysis.references import Generate
from playground.analysis.repetition import loops
from playground.analysis.report import judge, make_rows, to_html, to_json, to_markdown, widest
from playground.analysis.sweep import find_sweeps, sweep_section
from playground.errors import UserError
from playground.files import write_whole
from playground.methods import NEEDS
from playground.models.catalog import Catalog, Parts, load_catalog
from playground.models.sources import Source
from playground.models.store import ModelStore
from playground.run import LaneSpec, Run, RunSpec, get_kind, machine, open_run
from playground.settings import parse_pairs

BASELINE = "autoregressive"
PLAIN = "transformers generate"
# What may change while a benchmark goes on.
LATER = ("rounds", "until", "minutes", "lanes", "reference", "loops", "hopeless", "curve")
ASSISTED = "transformers assisted"
FEWEST_ROUNDS = 5  # that an interval is believed of
LOOKUP = "transformers prompt lookup"


@dataclass(frozen=True)
class Plan:
    """What to measure. `lanes` are methods with their settings, as "draft-model k=4"; "k=2|4|8" is a lane for each.

    With `until` there are rounds after `rounds` of them until no interval of a speed-up is wider than ± that share, or
    `minutes` are over. Of the lanes of one method those slower than `hopeless` times the fastest sit out the rounds
    that follow. Questions whose plain answer repeats more than `loops` of its 4-grams are answered, but left out of
    the report. `temperature=0.7` in a lane is its own; it is compared with the baseline at the same. `curve` is for
    how many seconds to measure what a pass costs, per model not measured on this machine before, so that the report
    can set predicted beside measured speed-ups; 0 leaves that out.
    """

    questions: Path
    lanes: tuple[str, ...]
    target: str = "built-in"
    draft: str | None = None
    heads: str | None = None
    draft_heads: str | None = None
    reference: bool = False
    rounds: int = 5
    until: float = 0.0
    minutes: float = 15.0
    limit: int | None = None
    turns: int | None = None
    loops: float = 1.0
    hopeless: float = 0.0
    curve: float = 0.0
    max_new_tokens: int = 128
    temperature: float = 0.0
    seed: int = 1
    chat: bool | None = None
    dtype: str = "auto"
    device: str = "auto"

    @property
    def baselines(self) -> list[str]:
        """The lanes that speed-ups are taken over."""
        return [BASELINE, *([PLAIN] if self.reference else [])]

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


@dataclass(frozen=True)
class Bench:
    """Where lanes run: `open` makes a run of a spec, for models of `catalog` that `store` holds.

    `allow_local` False refuses paths of this machine, for a page that strangers may use.
    """

    store: ModelStore
    catalog: Catalog = field(default_factory=load_catalog)
    allow_local: bool = True

    def open(self, spec: RunSpec) -> Run:
        """The run of `spec`. Raises UserError before any work for what is wrong."""
        return open_run(spec, self.store, self.catalog, self.allow_local)


def measure(
    plan: Plan,
    out: Path,
    progress: Callable[..., None] = lambda *_: None,
    bench: Bench | None = None,
    take: Callable[[Sample], None] = lambda sample: None,
) -> str:
    """Measure and write samples.jsonl, report.json, report.md and report.html to `out`; returns the Markdown.

    The samples of an earlier, unfinished run with the same plan are kept; `take` gets every sample as it is there.
    Raises UserError before any work for questions that cannot be read, a method or a model that is missing, a folder
    that holds another benchmark.
    """
    bench = bench or Bench(ModelStore(progress=progress))
    questions, contenders = prepare(plan, bench)
    _claim(out, plan)
    file = out / "samples.jsonl"
    more = _until(plan, monotonic() + 60 * plan.minutes)
    samples = run_benchmark(questions, contenders, plan.rounds, file, progress, plan.hopeless, take, more)
    rounds = 1 + max(sample.round for sample in samples)
    circles = loops(samples, BASELINE, plan.loops)
    samples = [sample for sample in samples if sample.question not in circles]
    if not samples:
        raise UserError(f"Every plain answer repeats more than {plan.loops:.0%} of its 4-grams. Ask other questions.")
    verdicts = {}
    progress("Comparing the answers", None)
    source = bench.catalog.source(plan.target, allow_local=bench.allow_local)
    with bench.store.lease(source, plan.dtype, plan.device) as target:
        if plan.temperature == 0:
            own = [one.name for one in contenders if one.name != BASELINE and _keeps_ids(one) and _alike(one)]
            verdicts = judge(samples, BASELINE, own, target.target)
        dtype = str(target.model.dtype).removeprefix("torch.")
    facts = {
        "models": " ".join(filter(None, (plan.target, plan.draft, plan.heads, plan.draft_heads))),
        "machine": f"{machine()}, {dtype}",
        "questions": f"{len(questions)} of {plan.questions.name}, {rounds} round{'s' * (rounds > 1)}, "
        f"at most {plan.max_new_tokens} tokens an answer, temperature {plan.temperature:g}",
    }
    if plan.loops < 1:
        facts["left out"] = (
            f"{len(circles)} questions whose plain answer repeats more than {plan.loops:.0%} of its 4-grams"
        )
    rows = make_rows(samples, plan.baselines, verdicts)
    if plan.until:
        half = widest(rows)
        reached = f"±{half:.1%} reached" if half else "one round cannot tell what was reached"
        facts["intervals"] = f"at most ±{plan.until:.1%} wanted, {reached}"
    sweeps = find_sweeps(rows, BASELINE)
    sections = [sweep_section(sweeps)] if sweeps else []
    if plan.curve > 0:
        target_curve, drafts = _curves(plan, bench, progress)
        sections.append(prediction_section(samples, BASELINE, target_curve, drafts))
    text = to_markdown(rows, plan.baselines, facts, sections)
    write_whole(out / "report.json", json.dumps(to_json(rows, facts, sections), indent=1), "The report")
    write_whole(out / "report.html", to_html(rows, plan.baselines, facts, sections), "The report")
    write_whole(out / "report.md", text, "The report")
    return text


def _until(plan: Plan, ends: float) -> Callable[[Sequence[Sample]], bool]:
    """Whether another round is to be made after these samples: intervals are too wide, and there is time."""

    def more(samples: Sequence[Sample]) -> bool:
        if not plan.until or monotonic() >= ends:
            return False
        rounds = 1 + max(sample.round for sample in samples)
        running = {sample.lane for sample in samples if sample.round == rounds - 1}
        circles = loops(samples, BASELINE, plan.loops)
        asked = [sample for sample in samples if sample.lane in running and sample.question not in circles]
        return rounds < FEWEST_ROUNDS or (widest(make_rows(asked, plan.baselines)) or 0.0) > plan.until

    return more


def prepare(plan: Plan, bench: Bench) -> tuple[list[Question], list[Contender]]:
    """What is asked and who answers. Raises UserError for what is wrong with the plan; no model is loaded."""
    return _chosen(read_questions(plan.questions), plan), _contenders(plan, bench)


def _curves(plan: Plan, bench: Bench, progress: Callable[..., None]) -> tuple[CostCurve, dict[str, CostCurve]]:
    """What passes cost: of the target, and by lane of the model that drafts for it."""

    def curve(source: Source) -> CostCurve:
        with bench.store.lease(source, plan.dtype, plan.device) as model:
            return cost_curve(model, plan.curve, progress=progress, gate=bench.store.gate(model.target.device))

    drafts: dict[str, CostCurve] = {}
    for name, lane in _lanes(plan).items():
        parts = _parts(lane, bench)
        if "draft" in get_kind(lane.method).needs and parts.draft is not None:
            drafts[name] = curve(parts.draft)
    return curve(bench.catalog.source(plan.target, allow_local=bench.allow_local)), drafts


def _chosen(questions: list[Question], plan: Plan) -> list[Question]:
    """The first `limit` of every category, cut to `turns` turns."""
    for name in ("limit", "turns", "rounds", "max_new_tokens"):
        value = getattr(plan, name)
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; ask for at least 1.")
    if not 0 <= plan.until < 1:
        raise UserError(f"until is {plan.until:g}; give a share such as 0.05 for intervals of ±5 %, or 0.")
    if not plan.minutes > 0:
        raise UserError(f"minutes is {plan.minutes:g}; give more than 0.")
    taken: dict[str, int] = {}
    chosen = []
    for question in questions:
        taken[question.category] = taken.get(question.category, 0) + 1
        if plan.limit is None or taken[question.category] <= plan.limit:
            chosen.append(replace(question, turns=question.turns[: plan.turns]))
    return chosen


def _contenders(plan: Plan, bench: Bench) -> list[Contender]:
    lanes = _lanes(plan)
    for lane in lanes.values():
        method, parts = get_kind(lane.method), _parts(lane, bench)
        for need in sorted(method.needs):
            if getattr(parts, need) is None:
                raise UserError(f"{method.title} {NEEDS[need]} {lane.target!r} comes without.")
    found: list[Contender] = [
        OwnLane(name, lane, lane_run(name, plan), bench.open, bench.store) for name, lane in lanes.items()
    ]
    if plan.reference:
        store = bench.store
        parts = bench.catalog.parts(plan.target, plan.draft, allow_local=bench.allow_local)
        found.append(Generate(PLAIN, plan.run, store, parts.target))
        for lane in lanes.values():
            k = int(lane.settings.get("k", 0))
            if lane.method == "draft-model":
                found.append(Generate(f"{ASSISTED} k={k}", plan.run, store, parts.target, parts.draft, k))
            if lane.method == "prompt-lookup":
                found.append(Generate(f"{LOOKUP} k={k}", plan.run, store, parts.target, k=k))
    return found


def _lanes(plan: Plan) -> dict[str, LaneSpec]:
    """The lanes of a plan by name: the baseline, also at every batch and temperature that a lane has, and what was
    asked for."""
    asked = [text for lane in plan.lanes for text in each_setting(lane)]
    texts = dict.fromkeys([BASELINE, *(baseline_for(text, BASELINE) for text in asked), *asked])
    return dict(parse_lane(text, plan) for text in texts)


def _parts(lane: LaneSpec, bench: Bench) -> Parts:
    """The models of a lane."""
    hybrid = "draft_heads" in get_kind(lane.method).needs
    return bench.catalog.parts(lane.target, lane.draft, lane.heads, lane.draft_heads, hybrid, bench.allow_local)


def parse_lane(text: str, plan: Plan) -> tuple[str, LaneSpec]:
    """Name and lane of "method name=value ...". Raises UserError for what is no method or no setting of it."""
    method, *pairs = text.split() or [""]
    given = parse_pairs(pairs)
    given.pop("temperature", None)
    settings = get_kind(method).check(given)
    return " ".join([method, *pairs]), LaneSpec(method, settings, plan.target, plan.draft, plan.heads, plan.draft_heads)


def lane_run(text: str, plan: Plan) -> RunSpec:
    """The runs of a lane, at its own temperature where it has one. Raises UserError for one that is no number."""
    _, given = split_lane(text)
    try:
        run = replace(plan.run, temperature=float(given.get("temperature", plan.temperature)))
    except ValueError as error:
        raise UserError(f"The temperature of {text!r} is no number. Write it like temperature=0.7.") from error
    _ = run.sampling  # raises for what cannot be sampled from
    return run


def _alike(contender: Contender) -> bool:
    """Whether a lane answers as the baseline does: one sequence, at the plan's temperature."""
    return baseline_for(contender.name, BASELINE) == BASELINE


def _keeps_ids(contender: Contender) -> bool:
    return not isinstance(contender, OwnLane) or contender.promise == "ids"


def _claim(out: Path, plan: Plan) -> None:
    """Make the folder this plan's, or see that it already is."""
    given = {name: str(value) for name, value in asdict(plan).items() if name not in LATER}
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
