"""A shelf of made-up books, written the way the real ones are."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

import pytest

WORDS = ["the", "old", "fox", "ran", "over", "hill", "and", "river", "while", "rain", "fell", "on", "a", "town"]


def book(seed: int, words: int = 400) -> str:
    draw = random.Random(seed)
    text = " ".join(draw.choice(WORDS) for _ in range(words))
    return f"Title: Book {seed}\n\nAuthor: Nobody\n\nYear: 1900\n\n-------\n\n{text}."


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for name, seeds in (("children.txt.xz", range(150)), ("adventure.txt.xz", range(149, 300))):
        text = "\f".join(book(seed) for seed in seeds)
        (folder / name).write_bytes(lzma.compress(text.encode()))
    return folder
