"""The loop of a benchmark, with contenders whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from playground.analysis.benchmark import Answer, Sample, read_samples, run_benchmark
from playground.analysis.questions import Question
from playground.errors import UserError

QUESTIONS = [Question("1", "story", ("a", "b")), Question("2", "code", ("c",))]


class Echo:
    """Answers with what it was asked, and remembers the order."""

    def __init__(
        self,
        name: str,
        log: list[tuple[str, str, tuple[str, ...]]],
        dies_at: int | None = None,
        seconds: float = 0.5,
        group: str = "echo",
    ) -> None:
        self.name, self.log, self.dies_at, self.seconds, self.group = name, log, dies_at, seconds, group

    def answer(self, prompt: str, earlier: Sequence[str]) -> Answer:
        if len(self.log) == self.dies_at:
            raise KeyboardInterrupt
        self.log.append((self.name, prompt, tuple(earlier)))
        return Answer([1], [2, 3], f"{self.name} on {prompt}", self.seconds, 2)


def test_every_contender_answers_everything_and_each_comes_first_in_turn(tmp_path: Path) -> None:
    log: list[tuple[str, str, tuple[str, ...]]] = []
    samples = run_benchmark(QUESTIONS, [Echo("x", log), Echo("y", log)], 2, tmp_path / "samples.jsonl")
    assert len(samples) == 8
    assert len({(one.lane, one.round, one.question) for one in samples}) == 8
    assert samples[0].tokens == 4
    assert samples[0].seconds == 1.0
    firsts = [names[0] for names in ([who for who, what, _ in log if what == ask] for ask in "ac")]
    assert firsts == ["x", "y"]
    assert ("x", "b", ("a", "x on a")) in log, "a second turn knows the first and its own answer to it"


def test_a_killed_benchmark_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole: list[tuple[str, str, tuple[str, ...]]] = []
    run_benchmark(QUESTIONS, [Echo("x", whole), Echo("y", whole)], 2, tmp_path / "whole.jsonl")
    file = tmp_path / "samples.jsonl"
    for dies_at in (*range(len(whole)), None):
        log: list[tuple[str, str, tuple[str, ...]]] = []
        try:
            samples = run_benchmark(QUESTIONS, [Echo("x", log, dies_at and 1), Echo("y", log, dies_at and 1)], 2, file)
        except KeyboardInterrupt:
            with file.open("a") as half:
                half.write('{"lane": "x", "rou')
            continue
        break
    assert samples == read_samples(tmp_path / "whole.jsonl")


def test_rounds_go_on_as_long_as_more_are_wanted_also_after_a_kill(tmp_path: Path) -> None:
    asked: list[set[int]] = []

    def more(samples: Sequence[Sample]) -> bool:
        asked.append({one.round for one in samples})
        return len(asked[-1]) < 4

    file, log = tmp_path / "samples.jsonl", list[tuple[str, str, tuple[str, ...]]]()
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(QUESTIONS, [Echo("x", log, dies_at=10)], 2, file, more=more)
    samples = run_benchmark(QUESTIONS, [Echo("x", log)], 2, file, more=more)
    assert {one.round for one in samples} == {0, 1, 2, 3}
    assert len(log) == 4 * 3 + 1, "of the question that was in flight the first turn is asked again"
    assert asked == [{0, 1}, {0, 1, 2}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}]
    assert len(run_benchmark(QUESTIONS, [Echo("x", log)], 3, file)) == 2 * 3, "further rounds are kept and left out"


def test_samples_of_other_lanes_rounds_and_questions_are_kept_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    run_benchmark(QUESTIONS, [Echo("x", []), Echo("y", [])], 2, file)
    log: list[tuple[str, str, tuple[str, ...]]] = []
    samples = run_benchmark(QUESTIONS[:1], [Echo("x", log)], 1, file)
    assert log == []
    assert [(one.lane, one.round, one.question) for one in samples] == [("x", 0, "1")]
    assert len(read_samples(file)) == 8


def test_what_cannot_be_measured_is_told_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    log: list[tuple[str, str, tuple[str, ...]]] = []
    for questions, names, rounds in (([], "x", 1), (QUESTIONS, "", 1), (QUESTIONS, "x", 0), (QUESTIONS, "xx", 1)):
        with pytest.raises(UserError):
            run_benchmark(questions, [Echo(name, log) for name in names], rounds, file)
    file.write_text('{"format": "something else"}\n')
    with pytest.raises(UserError, match=r"Line 1 .* is not a sample"):
        run_benchmark(QUESTIONS, [Echo("x", log)], 1, file)
    assert log == []
    assert file.read_text() == '{"format": "something else"}\n'


def test_hopeless_settings_sit_out_the_rounds_that_follow(tmp_path: Path) -> None:
    def lanes() -> list[Echo]:
        return [
            Echo("fast", [], seconds=1.0),
            Echo("near", [], seconds=1.2),
            Echo("slow", [], seconds=3.0),
            Echo("another method", [], seconds=9.0, group="other"),
        ]

    samples = run_benchmark(QUESTIONS, lanes(), 3, tmp_path / "samples.jsonl", hopeless=0.7)
    rounds = {
        name: {one.round for one in samples if one.lane == name} for name in ("fast", "near", "slow", "another method")
    }
    assert rounds == {"fast": {0, 1, 2}, "near": {0, 1, 2}, "slow": {0}, "another method": {0, 1, 2}}
    again = lanes()
    assert run_benchmark(QUESTIONS, again, 3, tmp_path / "samples.jsonl", hopeless=0.7) == samples
    assert all(lane.log == [] for lane in again)
