"""A model of speed: fitted on half of a benchmark's questions, it predicts the speed-ups of the other half.

A step of a lane takes what the cost curve says of a pass over as many tokens as its passes read, and what its
drafting and the rest took where it was fitted; it brings as many tokens as it brought there. An answer is its prompt's
pass and the steps that its tokens need. Nothing of the half that is predicted is used but the lengths of its prompts
and of its plain answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from playground.analysis.benchmark import Answer, Sample
from playground.analysis.cost_curve import CostCurve
from playground.analysis.lane_text import split_lane
from playground.analysis.report import OVERALL, Speedup, make_rows

TOLERANCE = 0.15  # a prediction that is further off is a finding


@dataclass(frozen=True)
class Means:
    """What a lane's steps were like, the prompt's pass apart. Times in seconds a step.

    `tokens` a step brought; `rows` and `draft_rows` are shares of passes by the tokens that they read; `draft_passes`
    of a draft model a step; `other` is all but drafting and the target's pass. `context` is the mean length of the
    text before a step. `hits` is the share of steps that accepted anything, `proposing` of those that proposed.
    """

    tokens: float
    rows: dict[int, float]
    draft: float
    forward: float
    other: float
    context: float
    draft_passes: float = 0.0
    draft_rows: dict[int, float] = field(default_factory=dict)
    hits: float = 0.0
    proposing: float = 0.0


def mean_step(answers: Sequence[Answer]) -> Means | None:
    """The steps of these answers. None where nobody knows: a server, transformers' own generate, a batch."""
    if not answers or any(not one.rows or not one.phases or one.beside for one in answers):
        return None
    rows, draft_rows = _pooled(one.rows for one in answers), _pooled(one.draft_rows for one in answers)
    steps, drafting = sum(rows.values()), sum(draft_rows.values())
    phases = {name: sum(one.phases[name] for one in answers) for name in answers[0].phases}
    known = phases["prefill"] + phases["draft_prefill"] + phases["draft"] + phases["forward"]
    proposing = sum(sum(one.accepted) for one in answers)
    return Means(
        tokens=sum(len(one.output_ids) for one in answers) / steps,
        rows={size: count / steps for size, count in rows.items()},
        draft=phases["draft"] / steps,
        forward=phases["forward"] / steps,
        other=(sum(one.seconds for one in answers) - known) / steps,
        context=fmean(len(one.prompt_ids) + len(one.output_ids) / 2 for one in answers),
        draft_passes=drafting / steps,
        draft_rows={size: count / drafting for size, count in draft_rows.items()},
        hits=sum(sum(one.accepted[1:]) for one in answers) / steps,
        proposing=proposing / steps,
    )


def _pooled(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for one in counts:
        for size, count in one.items():
            total[size] = total.get(size, 0) + count
    return dict(sorted(total.items()))


@dataclass(frozen=True)
class SpeedModel:
    """Lanes as they were in the half of the questions that was fitted, and the cost of passes.

    `scale` is how long the baseline's passes took there, in what the cost curve says of them: a machine that was
    slower during the benchmark than during the curve is slower for all lanes.
    """

    target: CostCurve
    drafts: Mapping[str, CostCurve]
    lanes: Mapping[str, Means]
    scale: float

    def step(self, lane: str, context: float) -> dict[str, float]:
        """Seconds of a step of `lane` by part, after `context` tokens."""
        means = self.lanes[lane]
        draft = means.draft
        if (curve := self.drafts.get(lane)) is not None and means.draft_passes:
            now, then = (_mean_cost(curve, means.draft_rows, at) for at in (context, means.context))
            draft += self.scale * means.draft_passes * (now - then)
        forward = self.scale * _mean_cost(self.target, means.rows, context)
        return {"draft": draft, "forward": forward, "other": means.other}

    def answer(self, lane: str, prompt: int, new: int) -> float:
        """Seconds of an answer of `new` tokens to a prompt of `prompt`."""
        means = self.lanes[lane]
        prefill = self.target.seconds(prompt - 1) if prompt > 1 else 0.0
        if (curve := self.drafts.get(lane)) is not None and means.draft_passes:
            prefill += curve.seconds(prompt)
        return self.scale * prefill + new / means.tokens * sum(self.step(lane, prompt + new / 2).values())


def _mean_cost(curve: CostCurve, rows: Mapping[int, float], context: float) -> float:
    return sum(share * curve.seconds(size, context) for size, share in rows.items())


def fit(samples: Sequence[Sample], baseline: str, target: CostCurve, drafts: Mapping[str, CostCurve]) -> SpeedModel:
    """The speed model of these samples; lanes whose steps nobody knows are left out. `drafts` are curves by lane."""
    names = dict.fromkeys(sample.lane for sample in samples)
    found = {name: mean_step([a for one in samples if one.lane == name for a in one.answers]) for name in names}
    lanes = {name: means for name, means in found.items() if means is not None}
    plain = lanes.get(baseline)
    scale = plain.forward / _mean_cost(target, plain.rows, plain.context) if plain is not None else 1.0
    return SpeedModel(target, drafts, lanes, scale)


@dataclass(frozen=True)
class Prediction:
    """A lane's speed-up over the baseline, predicted and measured on the questions that were not fitted.

    `error` is predicted over measured, less 1. `cause` says what is behind an error beyond TOLERANCE, else it is empty.
    `tokens` a step brought where it was fitted and where it was predicted.
    """

    lane: str
    predicted: float
    measured: Speedup
    error: float
    tokens: tuple[float, float]
    cause: str = ""


def halves(samples: Sequence[Sample]) -> tuple[set[str], set[str]]:
    """The questions to fit and those to predict: by turns within each category, so that both have some of all."""
    categories = {sample.question: sample.category for sample in samples}
    ordered = sorted(
        categories, key=lambda question: list(dict.fromkeys(categories.values())).index(categories[question])
    )
    return set(ordered[::2]), set(ordered[1::2])


def predict(
    samples: Sequence[Sample], baseline: str, target: CostCurve, drafts: Mapping[str, CostCurve]
) -> tuple[SpeedModel, list[Prediction]] | None:
    """Fit on half of the questions, predict the other half; None with fewer than two questions."""
    fitted, held = halves(samples)
    if not held:
        return None
    model = fit([one for one in samples if one.question in fitted], baseline, target, drafts)
    rest = [one for one in samples if one.question in held]
    seen = fit(rest, baseline, target, drafts)
    if baseline not in model.lanes or baseline not in seen.lanes:
        return None
    plain = list({one.question: one for one in rest if one.lane == baseline}.values())
    rows = {row.lane: row for row in make_rows(rest, [baseline]) if row.category == OVERALL}
    found = []
    for lane in model.lanes:
        if split_lane(lane)[0] == baseline or lane not in seen.lanes or baseline not in rows[lane].speedups:
            continue
        predicted = _rate(model, lane, plain) / _rate(model, baseline, plain)
        measured = rows[lane].speedups[baseline]
        error = predicted / measured.median - 1
        cause = _cause(model, seen, lane, baseline) if abs(error) > TOLERANCE else ""
        tokens = model.lanes[lane].tokens, seen.lanes[lane].tokens
        found.append(Prediction(lane, predicted, measured, error, tokens, cause))
    return model, found


def _rate(model: SpeedModel, lane: str, plain: Sequence[Sample]) -> float:
    """Tokens per second as a report has it, for answers as long as the plain ones: the mean over questions."""
    return fmean(
        one.tokens / sum(model.answer(lane, len(a.prompt_ids), len(a.output_ids)) for a in one.answers) for one in plain
    )


def _cause(model: SpeedModel, seen: SpeedModel, lane: str, baseline: str) -> str:
    """The greatest of the differences between what was expected of a lane's steps and what they were."""
    then, now = model.lanes[lane], seen.lanes[lane]
    expected, plain = model.step(lane, now.context), seen.lanes[baseline]
    was = {"draft": now.draft, "forward": now.forward, "other": now.other}
    whole, plain_whole = sum(was.values()), plain.draft + plain.forward + plain.other
    plain_expected = sum(model.step(baseline, plain.context).values())
    what = {
        "draft": "drafting",
        "forward": "the target's pass",
        "other": "what is neither drafting nor the target's pass",
    }
    effects = [
        (
            abs(then.tokens / now.tokens - 1),
            f"a step brought {then.tokens:.2f} tokens where it was fitted and {now.tokens:.2f} where it was predicted: "
            "these questions are not alike, ask more of them",
        ),
        (
            abs(plain_expected / plain_whole - 1),
            f"{baseline} itself took {1000 * plain_whole:.2f} ms a step, {1000 * plain_expected:.2f} were expected",
        ),
        *(
            (
                abs(expected[part] - was[part]) / whole,
                f"{what[part]} took {1000 * was[part]:.2f} ms a step, {1000 * expected[part]:.2f} were expected",
            )
            for part in was
        ),
    ]
    return max(effects)[1]
