"""Prompts to measure with, in the format of Spec-Bench: JSON lines of question_id, category and turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from playground.errors import UserError

BUILT_IN = Path(__file__).parents[2] / "assets" / "questions" / "built-in.jsonl"


@dataclass(frozen=True)
class Question:
    """What is asked. Every turn after the first follows the answer to the one before."""

    id: str
    category: str
    turns: tuple[str, ...]


def read_questions(file: Path) -> list[Question]:
    """The questions of a JSON-lines file, in its order. Raises UserError, naming the line, for what is none."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The questions in {file} cannot be read: {error}. Give a file of JSON lines.") from error
    found: dict[str, Question] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        question = _question(line, f"Line {number} of {file}")
        if question.id in found:
            raise UserError(f"Line {number} of {file} is a second question {question.id}. Give each an id of its own.")
        found[question.id] = question
    if not found:
        raise UserError(f"{file} holds no question. A line looks like {EXAMPLE}")
    return list(found.values())


EXAMPLE = '{"question_id": 1, "category": "story", "turns": ["Once upon a time"]}'


def _question(line: str, place: str) -> Question:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is not JSON. A line looks like {EXAMPLE}") from error
    if not isinstance(given, dict) or not isinstance(given.get("question_id"), int | str):
        raise UserError(f"{place} has no question_id. A line looks like {EXAMPLE}")
    turns = given.get("turns")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise UserError(f"{place} has no turns: a list of texts, none of them empty. A line looks like {EXAMPLE}")
    return Question(str(given["question_id"]), str(given.get("category", "all")), tuple(turns))
