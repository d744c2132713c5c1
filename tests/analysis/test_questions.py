from __future__ import annotations

from pathlib import Path

import pytest

from playground.analysis.questions import Question, read_questions
from playground.errors import UserError

GOOD = '{"question_id": 81, "category": "writing", "turns": ["Write.", "Shorter."]}'


def test_spec_bench_lines_become_questions(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(f'{GOOD}\n\n{{"question_id": "b", "turns": ["Sum up."]}}\n')
    assert read_questions(file) == [
        Question("81", "writing", ("Write.", "Shorter.")),
        Question("b", "all", ("Sum up.",)),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no question"),
        ("\n\n", "holds no question"),
        (f"{GOOD}\n{{", "Line 2 .* is not JSON"),
        ("[1]", "Line 1 .* has no question_id"),
        ('{"turns": ["a"]}', "has no question_id"),
        ('{"question_id": 1}', "has no turns"),
        ('{"question_id": 1, "turns": []}', "has no turns"),
        ('{"question_id": 1, "turns": "a"}', "has no turns"),
        ('{"question_id": 1, "turns": ["a", 3]}', "has no turns"),
        ('{"question_id": 1, "turns": [" "]}', "has no turns"),
        (f"{GOOD}\n{GOOD}", "Line 2 .* second question 81"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_question_is_told_by_its_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match=says):
        read_questions(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("absent", "binary", "."):
        with pytest.raises(UserError, match="cannot be read"):
            read_questions(tmp_path / name)
