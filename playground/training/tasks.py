"""What a user might ask of a chat model: tasks about passages of books, Python source, numbers and subjects.

Heads and drafts learn from a model's answers, so the questions should be of all the kinds that it will be asked.
`assets/tasks.json` has the forms of the questions and the subjects that are put into them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from transformers import PreTrainedTokenizerBase

from playground.models.text import encode_prompt
from playground.training.corpus import read_books, read_standard_library, split_held_out
from playground.training.prompts import HELD_OUT, Prompts

TASKS = Path(__file__).parents[2] / "assets" / "tasks.json"
WORDS = (50, 160)  # of a passage
LINES = (4, 30)  # of a function
MOST_CHARACTERS = 1500

Form: TypeAlias = Callable[[Generator], str]
Values: TypeAlias = Callable[[Generator], dict[str, str]]


def task_prompts(tokenizer: PreTrainedTokenizerBase, books: Path | None, count: int) -> Prompts:
    """`count` tasks as chats, and a twentieth more that are held out; without `books` there are none about passages.

    Held-out tasks are about books and files that no other task is about. The numbers and subjects of the others may
    occur in both, never the same question.
    """
    code = split_held_out(read_standard_library())
    texts = split_held_out(read_books(books)) if books else ([], [])
    asked: set[str] = set()

    def draw(part: int, wanted: int) -> list[list[int]]:
        rng = np.random.default_rng(part)
        forms = list(_forms(texts[part], code[part]))
        found: list[list[int]] = []
        for form in cycle(forms):  # of some kinds there are few: once they are all asked, the others go on
            if len(found) == wanted:
                break
            if (task := form(rng)) not in asked:
                asked.add(task)
                found.append(encode_prompt(tokenizer, task))
        return found

    return Prompts(draw(0, count), draw(1, max(1, count // HELD_OUT)))


def _forms(books: Sequence[str], sources: Sequence[str]) -> Iterator[Form]:
    """A way of making a task for each kind: its forms, filled with one of its subjects or with what it is about."""
    functions = [found for source in sources for found in _functions(source)]
    about: dict[str, Values] = {"numbers": _numbers}
    if books:
        about["passage"] = lambda rng: {"passage": _passage(books, rng)}
    if functions:
        about["code"] = lambda rng: {"code": _one_of(functions, rng)}
    for kind in json.loads(TASKS.read_text(encoding="utf-8")).values():
        if "subjects" in kind:
            yield _filled(kind["forms"], _subject(kind["subjects"]))
        elif kind["about"] in about:
            yield _filled(kind["forms"], about[kind["about"]])


def _filled(forms: Sequence[str], values: Values) -> Form:
    def task(rng: Generator) -> str:
        return _one_of(forms, rng).format_map(values(rng))

    return task


def _one_of(texts: Sequence[str], rng: Generator) -> str:
    return texts[int(rng.integers(len(texts)))]


def _subject(subjects: Sequence[str]) -> Values:
    return lambda rng: {"subject": _one_of(subjects, rng)}


def _numbers(rng: Generator) -> dict[str, str]:
    """Small whole numbers a < b < c, and a percentage."""
    a, b, c = sorted(rng.choice(np.arange(2, 100), 3, replace=False).tolist())
    return {"a": str(a), "b": str(b), "c": str(c), "percent": str(5 * int(rng.integers(1, 19)))}


def _passage(books: Sequence[str], rng: Generator) -> str:
    """A run of whole sentences from anywhere in the books, each book as often as it is long."""
    lengths = np.array([len(book) for book in books], dtype=float)
    book = books[rng.choice(len(books), p=lengths / lengths.sum())]
    start = int(rng.integers(max(1, len(book) - 4000)))
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(book[start : start + 4000].split()))
    sentences = sentences[1:-1] or sentences
    wanted, taken = int(rng.integers(*WORDS)), list[str]()
    for sentence in sentences:
        if sum(len(one.split()) for one in taken) >= wanted:
            break
        taken.append(sentence)
    return " ".join(taken)[:MOST_CHARACTERS]


def _functions(source: str) -> Iterator[str]:
    """The functions and methods of a file that are short enough to ask about, without their indentation."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            part = lines[node.lineno - 1 : node.end_lineno]
            text = "\n".join(line[node.col_offset :] for line in part)
            if LINES[0] <= len(part) <= LINES[1] and len(text) <= MOST_CHARACTERS:
                yield text
