"""The figures of a report, against sums done by hand."""

from __future__ import annotations

import json
from math import comb

import pytest

from playground.analysis.benchmark import Answer, Sample
from playground.analysis.memory import Memory
from playground.analysis.report import (
    cells,
    explain,
    header,
    judge,
    make_rows,
    noise,
    remarks,
    to_html,
    to_json,
    to_markdown,
)
from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode
from playground.drafters.autoregressive import Autoregressive
from tests.tiny import tiny_target


def sample(lane: str, seconds: float, round: int = 0, question: str = "1", category: str = "story", **more) -> Sample:
    answer = Answer([1], list(range(12)), "", seconds, **({"passes": 12} | more))
    return Sample(lane, round, question, category, [answer])


def test_rates_are_means_over_questions_and_speedups_are_taken_within_rounds() -> None:
    samples = [
        *(sample("plain", seconds, at) for at, seconds in enumerate((1.0, 2.0, 4.0))),
        *(sample("fast", seconds / ratio, at) for at, (seconds, ratio) in enumerate(((1, 1.5), (2, 2), (4, 1)))),
    ]
    plain, fast = make_rows(samples, ["plain"])
    assert plain.tokens_per_second == 6.0
    assert plain.speedups == {}
    assert (fast.speedups["plain"].median, fast.speedups["plain"].low, fast.speedups["plain"].high) == (1.5, 1, 2)
    two = [sample("plain", 1.0), sample("plain", 3.0, question="2")]
    assert make_rows(two, [])[0].tokens_per_second == (12 + 4) / 2, "not all tokens over all seconds"


def test_acceptance_is_pooled_over_steps() -> None:
    shares = {"draft": 0.2, "forward": 0.7, "other": 0.1}
    other = {"draft": 0.4, "forward": 0.5, "other": 0.1}
    rows = make_rows(
        [
            sample("m", 1.0, passes=4, accepted=[1, 0, 2], drafted=6, shares=shares),
            sample("m", 3.0, question="2", passes=8, accepted=[1], drafted=4, shares=other),
        ],
        [],
    )
    (row,) = rows
    assert row.questions == 2
    assert row.tokens_per_pass == 2.0
    assert row.acceptance_length == 1 + 4 / 4
    assert row.acceptance_rate == 0.4
    assert row.by_position == [0.5, 0.5]
    assert row.shares == pytest.approx({"draft": 0.35, "forward": 0.55, "other": 0.1})


def test_a_lane_s_own_batch_or_temperature_is_compared_with_the_baseline_at_the_same() -> None:
    samples = [
        sample("plain", 1.0),
        sample("plain batch=2", 0.5),
        sample("m batch=2", 0.25),
        sample("m temperature=1", 0.25),
    ]
    over = {row.lane: row.speedups.get("plain") for row in make_rows(samples, ["plain"])}
    assert over["plain"] is None
    assert {lane: found.median for lane, found in over.items() if found} == {
        "plain batch=2": 2.0,
        "m batch=2": 2.0,
        "m temperature=1": 4.0,
    }


def test_memory_is_the_largest_answer_s_and_unknown_where_nobody_told() -> None:
    samples = [sample("m", 1.0, memory=Memory(5_000_000, cache)) for cache in (1_000_000, 3_000_000)]
    known, unknown = make_rows([*samples, sample("other", 1.0)], [])
    assert (known.memory, unknown.memory) == (8_000_000, None)
    assert dict(zip(header([]), cells(known, []), strict=True))["MB"] == "8"
    assert Memory(5, 3, 9).peak == 9


def test_categories_have_rows_of_their_own() -> None:
    samples = [sample("m", 1.0), sample("m", 2.0, question="2", category="code")]
    assert [(row.category, row.questions) for row in make_rows(samples, [])] == [
        ("overall", 2),
        ("story", 1),
        ("code", 1),
    ]


def test_identity_is_judged_per_answer_to_the_same_prompt() -> None:
    target = tiny_target("llama")
    session = Session(Executor(target), Autoregressive(), [5, 6, 7], max_new_tokens=8, eos=False)
    list(decode([session]))
    own = session.output
    wrong = [*own[:3], (own[3] + 1) % target.vocab_size, *own[4:]]

    def answers(*outputs: list[int], prompt: int = 5) -> list[Answer]:
        return [Answer([prompt, 6, 7], output, "", 1.0, 8) for output in outputs]

    samples = [
        Sample("base", 0, "1", "all", answers(own, own)),
        Sample("m", 1, "1", "all", answers(wrong, wrong)),
        Sample("m", 0, "1", "all", answers(own, wrong)),
        Sample("other prompt", 0, "1", "all", answers(wrong, prompt=9)),
    ]
    verdicts = judge(samples[:1] + samples[2:], "base", ["m", "other prompt"], target)
    assert verdicts == {("m", "1", 0): "same", ("m", "1", 1): "differs"}
    rows = {row.lane: row for row in make_rows(samples, ["base"], verdicts)}
    assert rows["m"].identity == {"same": 1, "differs": 1}
    assert rows["base"].identity == {}


def test_a_loss_is_told_as_plainly_as_a_win() -> None:
    shares = {"draft": 0.6, "forward": 0.3, "other": 0.1}
    for seconds, says in ((2.0, "slower than plain (0.50x)"), (0.5, "faster than plain (2.00x)")):
        plain, row = make_rows([sample("plain", 1.0), sample("m", seconds, passes=6, shares=shares)], ["plain"])
        told = explain(row, plain)
        assert says in told
        assert "2.00 times the tokens per pass" in told
        assert "60% of its time is draft" in told
        assert f"each taking {2 * seconds:.2f} times as long" in told


@pytest.mark.parametrize(("rounds", "outer"), [(1, 0), (2, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (100, 39)])
def test_an_interval_holds_the_median_with_its_probability(rounds: int, outer: int) -> None:
    samples = [sample("plain", 1.0, at) for at in range(rounds)]
    samples += [sample("m", 1 / (100 + at), at) for at in range(rounds)]
    over = make_rows(samples, ["plain"])[1].speedups["plain"]
    assert over.low == pytest.approx(100 + outer)
    assert over.high == pytest.approx(100 + rounds - 1 - outer)
    tails = [2 * sum(comb(rounds, k) for k in range(cut + 1)) / 2**rounds for cut in (outer, outer + 1)]
    assert rounds < 6 or tails[0] <= 0.05 < tails[1]


def test_what_a_lane_always_says_of_itself_stands_in_the_report() -> None:
    told = ["A tree of 65 nodes was asked for, but there are 64.", "The first answer only."]
    samples = [sample("plain", 1.0), sample("m", 0.5, notices=told), sample("m", 0.5, question="2", notices=told[:1])]
    rows = make_rows(samples, ["plain"])
    assert remarks(rows) == [f"m: {told[0]}"]
    assert f"m: {told[0]}" in to_markdown(rows, ["plain"], {})


def test_a_noisy_machine_is_told() -> None:
    steady = [sample("plain", 1.0, at) for at in range(3)]
    calm = make_rows([*steady, *(sample("m", 0.5 + 0.01 * at, at) for at in range(3))], ["plain"])
    wild = make_rows([*steady, *(sample("m", 0.5 + 0.1 * at, at) for at in range(3))], ["plain"])
    assert noise(calm) is None
    assert "noisy" in (noise(wild) or "")
    assert "of one round" in (noise(make_rows([steady[0], sample("m", 0.5)], ["plain"])) or "")
    assert noise(make_rows(steady, ["plain"])) is None, "nothing was compared"


def test_the_report_is_written_in_three_forms() -> None:
    rows = make_rows([sample("plain", 1.0), sample("<m> | k=2", 0.5)], ["plain"])
    facts = {"machine": "<one>"}
    assert json.loads(json.dumps(to_json(rows, facts)))["rows"][1]["lane"] == "<m> | k=2"
    text = to_markdown(rows, ["plain"], facts)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1, "a lane's name breaks no table"
    assert "2.00 (2.00 to 2.00)" in text
    page = to_html(rows, ["plain"], facts)
    assert "&lt;m&gt;" in page
    assert "<m>" not in page.replace("\\u003cm\\u003e", "")
    assert "src=" not in page.split("<script", 1)[0]
