"""The tuner: what it would try, what it makes of measurements, and a whole small tuning on the built-in models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.analysis.bench import Bench, Plan
from playground.analysis.candidates import CHAIN_K, candidates, first_tries, lane_text, variants
from playground.analysis.cost_curve import CostCurve, Point
from playground.analysis.prediction import Means, SpeedModel
from playground.analysis.tuned import Tuned, TunedMethod, read_tuned, read_tuned_file, write_tuned
from playground.analysis.tuner import Tuning, to_markdown, tunable, tune
from playground.analysis.what_if import Scenario
from playground.errors import UserError
from playground.methods import METHODS
from playground.models.store import ModelStore


def curve(more: float) -> CostCurve:
    return CostCurve("m", "here", "float32", "cpu", 8, 8.0, [Point(64, n, 1 + more * (n - 1), 1, 3) for n in (1, 64)])


def model(cost: CostCurve, tokens: float) -> SpeedModel:
    """A draft model with k=4 whose drafting costs a tenth of a pass a token."""
    own = Means(tokens, {5: 1.0}, 0.4, cost.seconds(5), 0.0, 64, 4.0, {1: 1.0}, 1.0, 1.0)
    plain = Means(1.0, {1: 1.0}, 0.0, cost.seconds(1), 0.0, 64)
    return SpeedModel(cost, {}, {"draft-model": own, "autoregressive": plain}, 1.0)


def test_dear_passes_suggest_a_smaller_k_and_cheap_ones_a_larger() -> None:
    best = {}
    for more in (0.0, 0.5):
        cost = curve(more)
        measured = {"draft-model": 4.0 / (cost.seconds(5) + 0.4)}
        ranked = candidates(model(cost, 4.0), ["draft-model"], measured, "autoregressive", cost)
        assert {one.lane for one in ranked} == {lane_text("draft-model", {"k": k}) for k in CHAIN_K}
        assert ranked == sorted(ranked, key=lambda one: -one.expected)
        mine = next(one for one in ranked if one.lane == "draft-model")
        assert mine.expected == measured["draft-model"], "what was measured counts, not what was expected of it"
        best[more] = int(ranked[0].lane.partition("k=")[2] or 4)
    assert best[0.0] > 4
    assert best[0.5] < 4


def test_first_tries_begin_with_the_defaults_and_fit_the_model() -> None:
    for name in METHODS:
        if tunable(name):
            tries = first_tries(name, 30)
            assert tries[0] == name
            assert len(set(tries)) == len(tries)
    assert first_tries("early-exit", 2) == ["early-exit exit_layer=1"]
    assert "jacobi block=16" in first_tries("jacobi", 2)


@pytest.mark.parametrize(("own", "sizes"), [(5, [2, 4]), (12, [2, 4, 12]), (64, [2, 4, 12, 16, 24, 32, 48, 64])])
def test_a_tree_is_of_the_nodes_that_there_are(own: int, sizes: list[int]) -> None:
    found = variants("medusa", Scenario("tree", 0.5, nodes=8), own)
    assert [lane for lane, _ in found] == [f"medusa tree={size}" for size in sizes]
    assert [scenario.nodes for _, scenario in found] == sizes


def test_windows_of_all_sizes_are_looked_at() -> None:
    wide = variants("lookahead", Scenario("lookahead", 0.5, window=10, ngram=5, guesses=10), 0)
    assert "lookahead window=7 guesses=7" in [lane for lane, _ in wide]


def test_only_what_has_settings_is_tuned() -> None:
    assert not tunable("autoregressive")
    assert not tunable("naive-batching")
    assert tunable("medusa")


METHOD = TunedMethod({"k": 6}, 1.3, 1.2, 1.5, 1.25, 2.5)
FOUND = Tuned('a "machine"', "built-in", "float32", "q.jsonl, 2 asked", "2026-01-01", {"draft-model": METHOD})


def test_a_settings_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    tree = TunedMethod({"tree": "[[0],[0,0]]", "acceptance": "exact"}, 0.9, 0.8, 1.0, 0.7, 1.4)
    write_tuned(replace(FOUND, methods={"draft-model": METHOD, "medusa": tree}), file)
    again = read_tuned_file(file)
    assert again.machine == FOUND.machine
    assert again.methods["draft-model"].speedup == 1.3
    assert read_tuned(file) == {
        "draft-model": METHODS["draft-model"].check({"k": 6}),
        "medusa": METHODS["medusa"].check({"tree": "[[0],[0,0]]"}),
    }


def test_a_settings_file_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    with pytest.raises(UserError, match="cannot be read"):
        read_tuned(file)
    for text, says in (
        ("k = ", "cannot be read"),
        ("", "lacks the field"),
        ('machine = "m"\nmodels = "b"\ndtype = "f"\nquestions = "q"\nrecorded = "r"\n[methods.nothing]\n', "lacks"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=says):
            read_tuned(file)
    for methods, says in (
        ({"nothing": METHOD}, "there is no such method"),
        ({"draft-model": replace(METHOD, settings={"k": 0})}, "draft-model: k is 0"),
    ):
        write_tuned(replace(FOUND, methods=methods), file)
        with pytest.raises(UserError, match=says):
            read_tuned(file)
    with pytest.raises(UserError, match="cannot be written"):
        write_tuned(FOUND, tmp_path / "absent" / "settings.toml")


def test_losses_are_told() -> None:
    slow = replace(METHOD, speedup=0.8, low=0.7, high=0.9)
    text = to_markdown(Tuning(replace(FOUND, methods={"draft-model": METHOD, "jacobi": slow}), []), Path("s.toml"))
    assert "Slower than autoregressive with every setting that was measured: jacobi." in text
    assert "| draft-model | k=6 | 1.30 (1.20 to 1.50) | 1.25 | 2.50 |" in text


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "questions.jsonl"
    lines = [
        {"question_id": at, "category": "story", "turns": [text]} for at, text in enumerate(("Once upon", "He was"))
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Plan(file, (), max_new_tokens=8)


def test_a_tuning_measures_candidates_against_the_defaults(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    methods = ["draft-model", "medusa", "jacobi"]
    found = tune(plan, methods, 0.001, Bench(ModelStore()), lambda message, share: said.append(message))
    assert set(found.tuned.methods) == set(methods)
    lanes = [row.lane for row in found.rows]
    assert lanes[0] == "autoregressive"
    assert {"draft-model", "medusa", "jacobi"} < set(lanes)
    for method, best in found.tuned.methods.items():
        tried = {row.lane: row.speedups["autoregressive"].median for row in found.rows if row.lane.split()[0] == method}
        assert 2 <= len(tried) <= 3
        assert best.speedup == max(tried.values())
        assert best.default_speedup == tried[method]
        assert best.settings == METHODS[method].check(best.settings)
    write_tuned(found.tuned, tmp_path / "settings.toml")
    assert read_tuned(tmp_path / "settings.toml") == {name: one.settings for name, one in found.tuned.methods.items()}
    assert any("What a pass of" in message for message in said)


@pytest.mark.parametrize(
    ("change", "methods", "minutes", "says"),
    [
        ({}, (), 0, "The time is 0 minutes"),
        ({}, ("nothing",), 1, "cannot be tuned"),
        ({}, ("autoregressive",), 1, "cannot be tuned"),
        ({"target": "smollm2-135m"}, ("draft-model",), 1, "comes without"),
        ({"questions": Path("/no/such/file")}, (), 1, "cannot be read"),
    ],
)
def test_what_is_wrong_is_told_before_any_work(plan: Plan, change, methods, minutes, says) -> None:
    def nothing(message: str, share: float | None) -> None:
        raise AssertionError(message)

    with pytest.raises(UserError, match=says):
        tune(replace(plan, **change), methods, minutes, Bench(ModelStore(progress=nothing)), nothing)
