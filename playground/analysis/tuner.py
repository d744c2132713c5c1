"""The best settings per method for this machine and these questions, within a time: first reckoned, then measured.

A first part of the time goes into what a pass costs and into a few lanes per method, whose acceptance no formula tells.
Both together say what to expect of other settings. The rest of the time measures the best of them against
autoregressive decoding and the method's defaults, question by question, each time another lane first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from playground.analysis.bench import BASELINE, Bench, Plan, lane_run, parse_lane, prepare
from playground.analysis.benchmark import OwnLane, Sample
from playground.analysis.candidates import candidates, first_tries
from playground.analysis.cost_curve import CostCurve, cost_curve
from playground.analysis.lane_text import split_lane
from playground.analysis.prediction import fit
from playground.analysis.questions import Question
from playground.analysis.report import OVERALL, Row, make_rows
from playground.analysis.tuned import Tuned, TunedMethod
from playground.errors import UserError
from playground.methods import METHODS, NEEDS
from playground.run import machine

CURVE_SHARE, TRY_SHARE = 0.15, 0.4  # of the time: for all cost curves, and until the first tries are over
FINALISTS = 2  # settings per method that are measured beside its defaults
HOPELESS = 0.85  # of the fastest setting of its method: what is slower after a question is dropped
MOST_MINUTES = 24 * 60

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Tuning:
    """What was found, and the rows of all lanes that were measured to the end."""

    tuned: Tuned
    rows: list[Row]


def tune(plan: Plan, methods: Sequence[str], minutes: float, bench: Bench, progress: Progress) -> Tuning:
    """Tune `methods`, or all that the models of `plan` allow where none is named; the plan's lanes are not looked at.

    At least one question is asked in each part, however short the time. Raises UserError before any work for what is
    wrong with the plan, a method that cannot run, a time that is none.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise UserError(f"The time is {minutes:g} minutes; give more than 0 and at most {MOST_MINUTES:,}.")
    questions, _ = prepare(replace(plan, lanes=(), reference=False), bench)
    chosen = _runnable(plan, methods, bench)
    began, whole = perf_counter(), 60 * minutes
    parts = bench.catalog.parts(plan.target, plan.draft, plan.heads, plan.draft_heads, allow_local=bench.allow_local)
    with bench.store.lease(parts.target, plan.dtype, plan.device) as target:
        gate = bench.store.gate(target.target.device)
        curve = cost_curve(target, CURVE_SHARE * whole, progress=progress, gate=gate)
        layers, dtype, own_nodes = target.target.num_layers, curve.dtype, 0
        if parts.heads is not None and any("heads" in METHODS[method].needs for method in chosen):
            with bench.store.lease_heads(parts.heads, target) as heads:
                own_nodes = len(heads.loaded.own_tree.paths)
    tries = {method: first_tries(method, layers) for method in chosen}
    asking = _Asking(plan, bench, questions, progress, began, whole)
    first = asking.until(TRY_SHARE, [BASELINE, *(lane for lanes in tries.values() for lane in lanes)])
    finals = {method: _finalists(first, lanes, curve, own_nodes) for method, lanes in tries.items()}
    samples = asking.until(1.0, [BASELINE, *(lane for lanes in finals.values() for lane in lanes)])
    rows = [row for row in make_rows(samples, [BASELINE]) if row.category == OVERALL]
    tuned = Tuned(
        machine=machine(),
        models=" ".join(filter(None, (plan.target, plan.draft, plan.heads, plan.draft_heads))),
        dtype=dtype,
        questions=f"{plan.questions.name}, {len({one.question for one in samples})} asked",
        recorded=datetime.now(UTC).isoformat(timespec="seconds"),
        methods={method: _chosen(rows, lanes) for method, lanes in finals.items()},
    )
    return Tuning(tuned, rows)


def _runnable(plan: Plan, methods: Sequence[str], bench: Bench) -> list[str]:
    """The methods that have settings and all the models they need; one that was named must."""
    for name in methods:
        if name not in METHODS or not tunable(name):
            possible = ", ".join(one for one in METHODS if tunable(one))
            raise UserError(f"{name!r} cannot be tuned. Methods with settings: {possible}.")
    found = []
    for name, method in METHODS.items():
        if not (name in methods if methods else tunable(name)):
            continue
        hybrid = "draft_heads" in method.needs
        parts = bench.catalog.parts(
            plan.target, plan.draft, plan.heads, plan.draft_heads, hybrid, allow_local=bench.allow_local
        )
        missing = [need for need in sorted(method.needs) if getattr(parts, need) is None]
        if missing and methods:
            raise UserError(f"{method.title} {NEEDS[missing[0]]} {plan.target!r} comes without.")
        if not missing:
            found.append(name)
    return found


def tunable(method: str) -> bool:
    """Whether there is anything to tune about a method."""
    return any(setting.name != "batch" for setting in METHODS[method].settings)


class _Asking:
    """Asks the questions in order, over and over, as long as there is time."""

    def __init__(
        self, plan: Plan, bench: Bench, questions: Sequence[Question], progress: Progress, began: float, whole: float
    ) -> None:
        self.plan, self.bench, self.questions, self.progress = plan, bench, questions, progress
        self.began, self.whole = began, whole
        self.asked = 0

    def until(self, share: float, lanes: Sequence[str]) -> list[Sample]:
        """Samples of `lanes` until this share of the whole time is over, of one question at least. A question is a
        round; every lane answers it, but those that were hopeless in an earlier one."""
        names = list(dict.fromkeys(lanes))
        lane_of = {name: parse_lane(name, self.plan)[1] for name in names}
        running = {
            name: OwnLane(name, lane, lane_run(name, self.plan), self.bench.open, self.bench.store)
            for name, lane in lane_of.items()
        }
        samples: list[Sample] = []
        number = 0
        while True:
            question = self.questions[self.asked % len(self.questions)]
            self.asked += 1
            order = list(running.values())
            block_began = perf_counter()
            for contender in (*order[number % len(order) :], *order[: number % len(order)]):
                past = (perf_counter() - self.began) / self.whole
                self.progress(f"Question {question.id}: {contender.name}", min(1.0, past))
                answers, said = [], list[str]()
                for turn in question.turns:
                    answers.append(contender.answer(turn, said))
                    said += turn, answers[-1].text
                samples.append(Sample(contender.name, number, question.id, question.category, answers))
            now = perf_counter()
            if now + (now - block_began) > self.began + share * self.whole:
                return samples
            for name in _hopeless(samples):
                running.pop(name, None)
            number += 1


def _hopeless(samples: Sequence[Sample]) -> list[str]:
    """Lanes that are slower than HOPELESS times the fastest of their method."""
    rates = {row.lane: row.tokens_per_second for row in make_rows(samples, []) if row.category == OVERALL}
    best: dict[str, float] = {}
    for lane, rate in rates.items():
        method = split_lane(lane)[0]
        best[method] = max(rate, best.get(method, 0.0))
    # The method's defaults stay: the report compares with them.
    return [lane for lane, rate in rates.items() if " " in lane and rate < HOPELESS * best[split_lane(lane)[0]]]


def _finalists(first: Sequence[Sample], lanes: Sequence[str], curve: CostCurve, own_nodes: int) -> list[str]:
    """The method's defaults and the most promising of its other settings."""
    model = fit(first, BASELINE, curve, {})
    speedups = {
        row.lane: row.speedups[BASELINE].median
        for row in make_rows(first, [BASELINE])
        if row.category == OVERALL and row.lane in lanes
    }
    ranked = candidates(model, lanes, speedups, BASELINE, curve, own_nodes)
    others = [one.lane for one in ranked if one.lane != lanes[0]]
    return [lanes[0], *others[:FINALISTS]]


def _chosen(rows: Sequence[Row], lanes: Sequence[str]) -> TunedMethod:
    """The fastest of a method's lanes, the first of which has its defaults."""
    own = {row.lane: row for row in rows if row.lane in lanes}
    best = max(own.values(), key=lambda row: row.speedups[BASELINE].median)
    method, given = split_lane(best.lane)
    over = best.speedups[BASELINE]
    return TunedMethod(
        settings=METHODS[method].check(given),
        speedup=over.median,
        low=over.low,
        high=over.high,
        default_speedup=own[lanes[0]].speedups[BASELINE].median,
        tokens_per_pass=best.tokens_per_pass,
    )


def to_markdown(tuning: Tuning, file: Path) -> str:
    """What was found, as a table, best method first."""
    tuned = tuning.tuned
    lines = [
        "# Best settings",
        f"- models: {tuned.models}, {tuned.dtype}",
        f"- machine: {tuned.machine}",
        f"- questions: {tuned.questions}",
        f"- written to {file}",
        "",
        "| method | settings | speed-up (lowest to highest) | with its defaults | tokens/pass |",
        "|---|---|---|---|---|",
    ]
    ranked = sorted(tuned.methods.items(), key=lambda item: -item[1].speedup)
    for name, one in ranked:
        chosen = " ".join(f"{key}={value}" for key, value in one.settings.items() if key != "batch")
        lines.append(
            f"| {name} | {chosen} | {one.speedup:.2f} ({one.low:.2f} to {one.high:.2f}) | {one.default_speedup:.2f} "
            f"| {one.tokens_per_pass:.2f} |"
        )
    lines += ["", "Speed-ups are over autoregressive decoding of the same question, median over the questions asked."]
    if slower := [name for name, one in ranked if one.speedup < 1]:
        lines.append(f"Slower than autoregressive with every setting that was measured: {', '.join(slower)}.")
    return "\n".join(lines)
