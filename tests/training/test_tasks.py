"""Tasks for a chat model: of every kind, never twice, and held-out ones about other texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from playground.training import tasks as tasks_module
from playground.training.corpus import read_books, split_held_out
from playground.training.tasks import task_prompts
from playground.training.tokenizer import train_tokenizer

CODE = [
    f"class C{i}:\n    def function_{i}(self, x):\n        y = x\n        y += {i}\n        return y\n"
    for i in range(300)
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(["Who wrote it? the old fox ran over hill and river.", *CODE[:20]], 400, 160)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "read_standard_library", lambda: CODE)


def test_there_are_tasks_of_every_kind_and_none_twice(shelf: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    found = task_prompts(tokenizer, shelf, count=220)
    assert (len(found.seen), len(found.held_out)) == (220, 11)
    texts = [str(tokenizer.decode(ids)) for ids in (*found.seen, *found.held_out)]
    assert len(set(texts)) == len(texts)
    assert not [text for text in texts if "{" in text]
    kinds = ("def function_", "Write a Python function that ", "How many ", "fox ran", "Translate")
    for kind in kinds:
        assert any(kind in text for text in texts), kind
    assert task_prompts(tokenizer, shelf, count=220) == found


def test_held_out_tasks_are_about_held_out_texts(shelf: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    found = task_prompts(tokenizer, shelf, count=400)
    _, kept_code = split_held_out(CODE)
    _, kept_books = split_held_out(read_books(shelf))
    functions = [line for source in kept_code for line in source.splitlines() if "def " in line]
    for part, held in ((found.seen, False), (found.held_out, True)):
        asked = [str(tokenizer.decode(ids)) for ids in part]
        about = [text for text in asked if "def function_" in text]
        assert about
        assert all(any(line.strip() in text for line in functions) == held for text in about)
    assert kept_books


def test_once_the_small_kinds_are_asked_the_others_go_on(tokenizer: PreTrainedTokenizerFast) -> None:
    found = task_prompts(tokenizer, None, count=3000)
    assert len(found.seen) == 3000
    assert not [ids for ids in found.seen if "Summarize: " in str(tokenizer.decode(ids))]
