"""The speed model on made-up benchmarks whose laws are known: it finds them, and names what breaks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.analysis.benchmark import Answer, Sample
from playground.analysis.cost_curve import CostCurve, Point
from playground.analysis.prediction import halves, mean_step, predict
from playground.analysis.prediction_report import prediction_section
from playground.analysis.what_if import Scenario, measured_scenario
from playground.decoding.trace import summarize
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run

PROMPT, NEW = 65, 60


def curve(name: str, one: float, more: float) -> CostCurve:
    """A pass over n tokens takes `one` and `more` for each further token, wherever it is."""
    points = [Point(64, size, one + more * (size - 1), one, 3) for size in (1, 64, 256)]
    return CostCurve(name, "here", "float32", "cpu", 8, 8.0, points)


TARGET, DRAFT = curve("target", 0.010, 0.0005), curve("draft", 0.002, 0.0)


def plain(slow: float = 1.0) -> Answer:
    forward, prefill = slow * NEW * TARGET.seconds(1), slow * TARGET.seconds(PROMPT - 1)
    phases = {"prefill": prefill, "draft_prefill": 0.0, "draft": 0.0, "forward": forward, "other": 0.0}
    seconds = prefill + forward + 0.001 * NEW
    return Answer([1] * PROMPT, [2] * NEW, "", seconds, NEW + 1, rows={1: NEW}, phases=phases)


def drafted(tokens: float = 3.0, slow: float = 1.0, pass_slower: float = 1.0, draft_slower: float = 1.0) -> Answer:
    """A draft model with k=3 that brings so many tokens a step."""
    steps = round(NEW / tokens)
    forward = slow * pass_slower * steps * TARGET.seconds(4)
    draft = slow * draft_slower * steps * 3 * DRAFT.seconds(1)
    prefill, first = slow * TARGET.seconds(PROMPT - 1), slow * DRAFT.seconds(PROMPT)
    phases = {"prefill": prefill, "draft_prefill": first, "draft": draft, "forward": forward, "other": 0.0}
    return Answer(
        [1] * PROMPT,
        [2] * NEW,
        "",
        prefill + first + draft + forward + 0.002 * steps,
        steps + 1,
        accepted=[0, 0, steps, 0],
        drafted=3 * steps,
        rows={4: steps},
        draft_rows={1: 3 * steps},
        phases=phases,
    )


def samples(*answers: tuple[Answer, Answer]) -> list[Sample]:
    """Question by question: the plain answer and the one of the draft model."""
    return [
        Sample(lane, 0, str(at), "all", [answer])
        for at, pair in enumerate(answers)
        for lane, answer in zip(("autoregressive", "draft-model k=3"), pair, strict=True)
    ]


def predicted(*answers: tuple[Answer, Answer]):
    found = predict(samples(*answers), "autoregressive", TARGET, {"draft-model k=3": DRAFT})
    assert found is not None
    return found[0], found[1][0]


def test_what_follows_the_law_is_predicted_exactly_on_a_slower_machine_too() -> None:
    for slow in (1.0, 1.7):
        model, one = predicted(*[(plain(slow), drafted(slow=slow))] * 4)
        assert model.scale == pytest.approx(slow)
        assert one.error == pytest.approx(0.0, abs=1e-9)
        assert one.cause == ""
        assert one.tokens == (3.0, 3.0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tokens": 2.0}, "a step brought 3.00 tokens where it was fitted and 2.00"),
        ({"pass_slower": 2.0}, "the target's pass took 23.00 ms a step, 11.50 were expected"),
        ({"draft_slower": 3.0}, "drafting took 18.00 ms a step, 6.00 were expected"),
    ],
)
def test_a_prediction_that_is_far_off_names_its_cause(wrong: dict[str, float], says: str) -> None:
    good, bad = (plain(), drafted()), (plain(), drafted(**wrong))
    _, one = predicted(good, bad, good, bad)
    assert one.error > 0.15
    assert says in one.cause
    section = prediction_section(samples(good, bad, good, bad), "autoregressive", TARGET, {"draft-model k=3": DRAFT})
    assert any(told.startswith("Finding: the prediction for draft-model k=3") and says in told for told in section.told)


def test_a_baseline_that_changed_its_pace_is_a_cause() -> None:
    good, bad = (plain(), drafted()), (plain(slow=2.0), drafted())
    _, one = predicted(good, bad, good, bad)
    assert one.error < -0.15
    assert "autoregressive itself took" in one.cause


def test_both_halves_have_questions_of_every_category() -> None:
    marks = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "b"), ("5", "c"), ("6", "c")]
    fitted, held = halves([Sample("x", 0, question, category, []) for question, category in marks])
    assert (fitted, held) == ({"1", "2", "5"}, {"3", "4", "6"})


def test_one_question_gives_no_prediction_but_a_sentence() -> None:
    one = samples((plain(), drafted()))
    assert predict(one, "autoregressive", TARGET, {}) is None
    assert "ask at least two" in prediction_section(one, "autoregressive", TARGET, {}).told[0]


def test_steps_that_nobody_knows_are_not_modelled() -> None:
    assert mean_step([]) is None
    assert mean_step([Answer([1], [2], "", 1.0, 1)]) is None, "transformers' own generate"
    assert mean_step([replace(plain(), beside=60)]) is None, "a batch"


def test_a_scenario_starts_from_what_was_measured() -> None:
    model, one = predicted(*[(plain(), drafted())] * 4)
    start = measured_scenario(model, one.lane, "autoregressive")
    assert start is not None
    assert start.tokens == pytest.approx(3.0)
    means = model.lanes[one.lane]
    step, plain_step = means.draft + means.forward + means.other, TARGET.seconds(1) + 0.001
    assert start.speedup(TARGET.relative) == pytest.approx(3.0 * plain_step / step, rel=0.01)
    assert start.draft_cost == pytest.approx(0.2)
    assert replace(start, draft_cost=0.1).speedup(TARGET.relative) > start.speedup(TARGET.relative)
    assert replace(start, alpha=1.0).tokens == pytest.approx(4.0)
    assert replace(start, batch=32).speedup(TARGET.relative) < start.speedup(TARGET.relative), "gains shrink"
    assert measured_scenario(model, "autoregressive", "autoregressive") is None


def test_scenarios_of_other_kinds_and_nonsense() -> None:
    tree = Scenario("tree", 0.6, nodes=8)
    assert tree.rows == 9
    assert tree.tokens > Scenario("tree", 0.6, nodes=2).tokens > 1
    ahead = Scenario("lookahead", 0.4, share=0.3, window=7, ngram=5, guesses=7)
    assert ahead.rows == (7 + 7) * 4
    assert 1 < ahead.tokens < 4
    for wrong in ({"alpha": 1.5}, {"alpha": 0.5, "batch": 0}, {"alpha": 0.5, "k": -1}):
        with pytest.raises(UserError):
            Scenario("chain", **wrong)


@pytest.mark.parametrize(
    "method", ["draft-model", "medusa", "lookahead", "prompt-lookup", "early-exit", "medusa-draft"]
)
def test_the_means_of_a_real_lane_are_those_of_its_steps(method: str) -> None:
    from playground.analysis.benchmark import OwnLane

    store = ModelStore()
    spec = RunSpec("Once upon a time there was a man", (LaneSpec(method),), max_new_tokens=24)
    answer = OwnLane(method, LaneSpec(method), spec, lambda one: open_run(one, store), store).answer(spec.prompt, ())
    with open_run(spec, store) as run:
        steps = [step for _, step in run]
    means = mean_step([answer])
    assert means is not None
    assert means.tokens == pytest.approx(24 / len(steps))
    assert means.tokens == pytest.approx(len(summarize(steps).output_token_ids) / len(steps))
    assert sum(size * share for size, share in means.rows.items()) == pytest.approx(
        sum(step.rows for step in steps) / len(steps)
    )
    assert means.draft_passes == pytest.approx(sum(len(step.children) for step in steps) / len(steps))
    assert answer.memory is not None
    assert answer.memory.cache > 0
    assert answer.memory.weights > 4 * 1_000_000
