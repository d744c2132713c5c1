"""A shelf of made-up books, written the way the real ones are, and a tiny model."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

import pytest

from playground.training.family import Shape, build
from playground.training.publish import save_half
from playground.training.tokenizer import train_tokenizer

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


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model whose text does not repeat itself."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = train_tokenizer(["def f(x): return x + 1 words of many kinds"], 300, 160)
    model = build(Shape(2, width=64, inner=96, heads=2, kv_heads=1), len(tokenizer), 160)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data *= 8
    save_half(model, tokenizer, folder)
    return folder
