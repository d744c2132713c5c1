"""The lessons say what their recorded runs show; every number in them comes from a trace."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from playground.decoding.trace import Status, Trace
from playground.errors import UserError
from playground.lessons.lessons import ORDER, LessonStep, broken_claims, fill_lessons, fill_step, read_lessons
from playground.lessons.numbers import evaluate, find_step, lane_numbers, lane_pieces, position, step_numbers
from playground.lessons.recordings import FOLDER, RecordedLane, Recording, read_recordings, recorded, trace_path
from playground.lessons.writing import LANGUAGES
from playground.methods import METHODS
from tests.ui import traces


def test_every_claim_holds_in_its_recorded_run():
    assert broken_claims() == []


def test_no_step_is_left_out():
    written, shown = read_lessons(), fill_lessons()
    assert [lesson["id"] for lesson in shown] == list(ORDER) == list(written)
    assert [len(lesson["steps"]) for lesson in shown] == [len(lesson.steps) for lesson in written.values()]


def test_every_lesson_is_filled_in_and_every_step_has_a_claim():
    for lesson in fill_lessons():
        for step in lesson["steps"]:
            text = "".join(str(part) for paragraph in step["text"] for part in paragraph)
            assert "{" not in re.sub(r"\{'token'[^}]*\}", "", text)
            assert step["claims"]


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_every_language_tells_the_same_lessons(language):
    """Only titles, summaries, texts and the words of claims differ; places, numbers and comparisons do not."""
    assert {path.stem for path in (FOLDER / language).iterdir()} == set(ORDER)
    told = read_lessons(language)
    for name, lesson in read_lessons().items():
        other = told[name]
        assert other.title
        assert other.summary != lesson.summary
        for step, translated in zip(lesson.steps, other.steps, strict=True):
            assert replace(translated, text=step.text, claims=step.claims) == step
            assert [holds for _, holds in translated.claims] == [holds for _, holds in step.claims]
            assert all(words for words, _ in translated.claims)
            for part in (r"\{[^}]*\}", r"\n\s*\n", r"\*"):  # numbers, paragraphs, stressed words
                assert sorted(re.findall(part, translated.text)) == sorted(re.findall(part, step.text)), translated.text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_filled_in_with_the_same_runs(language):
    shown, english = fill_lessons(language), fill_lessons()
    places = [[(step["recording"], step["head"]) for step in lesson["steps"]] for lesson in english]
    assert [[(step["recording"], step["head"]) for step in lesson["steps"]] for lesson in shown] == places


def test_numbers_are_written_as_each_language_writes_them():
    portuguese, chinese = LANGUAGES["pt-BR"], LANGUAGES["zh-CN"]
    assert [portuguese.number(value) for value in (0.25, 1234.5, 7, True)] == ["0,25", "1234", "7", "sim"]
    assert portuguese.number(0.5, ".2f") == "0,50"
    assert portuguese.comparison("1.2 >= 0.8 and no") == "1,2 ≥ 0,8 e no"
    assert (chinese.number(0.25), chinese.number(False)) == ("0.25", "否")


def test_numbers_are_measured_not_written():
    """A figure with digits in a lesson's text is a setting or a place, never a result."""
    allowed = {"0", "1", "2", "4", "12", "0.8", "3"}  # K, temperature, lanes, one, none
    for name, lesson in read_lessons().items():
        for step in lesson.steps:
            written = set(re.findall(r"\d+(?:\.\d+)?", re.sub(r"\{[^}]*\}", "", step.text)))
            assert written <= allowed, f"{name}: {written - allowed}"


@pytest.mark.parametrize("name", read_recordings())
def test_recordings_are_what_was_asked_for(name):
    asked, trace = read_recordings()[name], recorded(trace_path(name))
    assert [lane.method for lane in trace.lanes] == [lane.method for lane in asked.lanes]
    assert all(lane.dtype == "float32" for lane in trace.lanes)
    assert {lane.prompt for lane in trace.lanes} == {asked.prompt}
    assert trace.title == asked.title
    assert trace.max_new_tokens == asked.max_new_tokens
    for lane, one in zip(trace.lanes, asked.lanes, strict=True):
        assert lane.settings == METHODS[one.method].check(one.settings)
        assert lane.sampling["temperature"] == asked.temperature
    assert trace_path(name).stat().st_size < 600_000


def race() -> tuple[Trace, list[RecordedLane]]:
    return traces.race(), [RecordedLane("plain", "autoregressive"), RecordedLane("draft", "draft-model")]


def test_numbers_of_a_lane():
    numbers = lane_numbers(traces.race(), 1)  # arnn aaaa rnnn aarn and an empty step
    assert (numbers.proposed, numbers.accepted, numbers.judged, numbers.unjudged) == (16, 7, 10, 6)
    assert numbers.alpha == 0.7
    assert (numbers.steps, numbers.guessing, numbers.idle, numbers.bonuses, numbers.most) == (5, 4, 1, 1, 5)
    assert (numbers.same, numbers.differs_at) == (False, 1)
    assert lane_numbers(traces.race(), 0).same


def test_numbers_of_a_step():
    trace = traces.race()
    step = step_numbers(trace.steps(1)[0], lane_pieces(trace, 1))
    assert (step.proposed, step.accepted, step.emitted, step.corrected, step.bonus) == (4, 1, 2, True, False)
    assert (step.wrong, step.wrong.status, step.own, step.own.status) == (" word11", "rejected", " own", "corrected")
    assert (step.p, step.q, step.u, step.ratio) == (0.25, 0.5, 0.7, 0.5)


def test_places_are_found_by_what_they_show():
    trace = traces.race()
    assert find_step("start", trace, 1) == 0
    assert find_step("end", trace, 1) == 5
    assert find_step("bonus", trace, 1) == 2
    assert find_step("accepted == 0 and proposed > 0", trace, 1) == 3
    with pytest.raises(UserError, match="No step of lane 'Draft model'"):
        find_step("accepted > 9", trace, 1)


@pytest.mark.parametrize("claim", ["nobody > 1", "accepted >", "__import__('os')", "open('x')", "accepted.real.x > 1"])
def test_a_claim_sees_nothing_but_numbers(claim):
    with pytest.raises(UserError, match="says nothing about"):
        evaluate(claim, {"accepted": 1})


def test_the_playhead_stands_behind_a_step_and_at_the_end_behind_all_lanes():
    trace = traces.race()
    assert [position(trace, 1, count) for count in (0, 1, 2, 5)] == [0, 2, 4, 14]
    assert position(trace, 0, 9) == 14


def test_a_step_is_filled_from_its_trace(tmp_path):
    trace, lanes = race()
    (tmp_path / "traces").mkdir()
    traces.write(trace, trace_path("race", tmp_path))
    recordings = {"race": Recording("by hand", "built-in", "Once", lanes)}
    step = LessonStep(
        "race", "draft", "Of {draft.proposed} a share of {draft.alpha:.0%}.\n\nNot {here.wrong}.", "corrected",
        claims=[("More", "draft.proposed > 3 * here.proposed"), ("Same", "draft.same")],
    )  # fmt: skip
    filled = fill_step(step, recordings, tmp_path)
    assert filled["text"] == [
        ["Of ", "16", " a share of ", "70%", "."],
        ["Not ", {"token": " word11", "status": Status.REJECTED}, "."],
    ]
    assert filled["claims"] == [
        {"words": "More", "shown": "16 > 3 × 4", "holds": True},
        {"words": "Same", "shown": "no", "holds": False},
    ]
    assert (filled["lane"], filled["head"]) == (1, 2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"recording": "nowhere"}, "which is not among the recorded ones"),
        ({"lane": "nobody"}, "has no lane called 'nobody'"),
        ({"text": "{draft.luck}"}, "asks for 'draft.luck'"),
        ({"claims": [("x", "draft.luck > 1")]}, "asks for 'draft.luck'"),
    ],
)
def test_what_a_recording_does_not_have_is_a_sentence(tmp_path, changed, said):
    trace, lanes = race()
    (tmp_path / "traces").mkdir()
    traces.write(trace, trace_path("race", tmp_path))
    given = {"recording": "race", "lane": "draft", "text": "x"} | changed
    with pytest.raises(UserError, match=said):
        fill_step(LessonStep(**given), {"race": Recording("by hand", "built-in", "Once", lanes)}, tmp_path)


def test_the_folder_holds_a_trace_for_every_recording_and_no_other():
    assert {path.stem for path in (FOLDER / "traces").iterdir()} == set(read_recordings())
