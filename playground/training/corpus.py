"""Training text: public-domain books and the standard library of the running Python, as arrays of token ids."""

import hashlib
import lzma
import os
import re
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from playground.errors import UserError
from playground.training.tokenizer import END_OF_TEXT, train_tokenizer

Ids = NDArray[np.uint16]

BOOK_FILES = ("children.txt.xz", "adventure.txt.xz")
HELD_OUT_SHARE = 0.01
TOKENIZER_SAMPLE = 24_000_000  # characters; merges stop changing well before

_FRONT_MATTER = re.compile(r"\s*(?:(?:Title|Author|Year|Translator|Language):.*\s+)+-{3,}\s*")
_SKIPPED_PARTS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "_vendor", "lib2to3", "pydoc_data", "encodings"}
)


@dataclass(frozen=True)
class HeldOut:
    """Text no model was trained on: token ids of whole documents, and the number of UTF-8 bytes they stand for."""

    ids: Ids
    num_bytes: int

    def head(self, tokens: int) -> "HeldOut":
        """The first `tokens` tokens; their bytes are counted in proportion."""
        ids = self.ids[:tokens]
        return HeldOut(ids, round(self.num_bytes * len(ids) / len(self.ids)))


@dataclass(frozen=True)
class Corpus:
    tokenizer: PreTrainedTokenizerFast
    train: Ids
    held_books: HeldOut
    held_code: HeldOut


def read_books(folder: Path) -> list[str]:
    """The books of `folder` (children.txt.xz, adventure.txt.xz: UTF-8, one form feed between books), cleaned.

    A title that occurs twice is kept once. Raises UserError when a file is missing.
    """
    books: dict[str, str] = {}
    for name in BOOK_FILES:
        path = folder / name
        if not path.is_file():
            raise UserError(f"No {name} in {folder}. Point to a folder that holds {' and '.join(BOOK_FILES)}.")
        for book in lzma.decompress(path.read_bytes()).decode("utf-8").split("\f"):
            text = _FRONT_MATTER.sub("", book, count=1).strip()
            if text:
                books.setdefault(_fingerprint(text), text)
    return list(books.values())


def read_standard_library() -> list[str]:
    """Python source of the running interpreter's standard library, without tests, vendored code and data tables."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if _SKIPPED_PARTS.intersection(parts) or path.name.startswith("test_"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        if text and not _is_data_table(text):
            files.setdefault(_fingerprint(text), text)
    return list(files.values())


def split_held_out(documents: list[str], share: float = HELD_OUT_SHARE) -> tuple[list[str], list[str]]:
    """(training, held out): whole documents, chosen by a hash of their text, about `share` of the characters."""
    wanted = share * sum(map(len, documents))
    held: list[str] = []
    for document in sorted(documents, key=_fingerprint):
        # A document longer than all that is wanted would make the held-out text one author's.
        if len(document) <= wanted / 2 and sum(map(len, held)) < wanted:
            held.append(document)
    kept = set(map(_fingerprint, held))
    return [d for d in documents if _fingerprint(d) not in kept], held


def prepare_corpus(books: Path, work: Path, vocab_size: int, max_length: int) -> Corpus:
    """Read, split, learn the tokenizer and encode; everything is kept in `work` and found there the next time."""
    cache = work / "corpus.safetensors"
    if not cache.is_file():
        rng = np.random.default_rng(0)
        train_books, held_books = split_held_out(read_books(books))
        train_code, held_code = split_held_out(read_standard_library())
        train = [*train_books, *train_code]
        order = rng.permutation(len(train))
        train = [train[i] for i in order]
        tokenizer = train_tokenizer(_sample(train, TOKENIZER_SAMPLE), vocab_size, max_length)
        work.mkdir(parents=True, exist_ok=True)
        tokenizer.save_pretrained(work / "tokenizer")
        parts = {"train": train, "held_books": held_books, "held_code": held_code}
        partial = cache.with_suffix(".tmp")
        save_file({name: encode_documents(tokenizer, texts) for name, texts in parts.items()}, partial)
        os.replace(partial, cache)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")
    arrays = load_file(cache)
    return Corpus(
        tokenizer=tokenizer,
        train=arrays["train"],
        held_books=_held_out(tokenizer, arrays["held_books"]),
        held_code=_held_out(tokenizer, arrays["held_code"]),
    )


def with_more_code(corpus: Corpus) -> Corpus:
    """`corpus` with its training code three times more, two fifths of it all: most of what goes in circles is code."""
    code = encode_documents(corpus.tokenizer, split_held_out(read_standard_library())[0])
    return replace(corpus, train=np.concatenate([corpus.train, code, code, code]))


def encode_documents(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> Ids:
    """Token ids of all documents in a row, each followed by the end-of-text token."""
    end = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    rows = [np.array([*tokenizer(d, verbose=False)["input_ids"], end], dtype=np.uint16) for d in documents]
    return np.concatenate(rows)


def _held_out(tokenizer: PreTrainedTokenizerFast, ids: Ids) -> HeldOut:
    return HeldOut(ids, len(tokenizer.backend_tokenizer.decode(ids.tolist(), skip_special_tokens=True).encode()))


def _sample(documents: list[str], characters: int) -> list[str]:
    """Evenly spread slices of the documents, `characters` in all."""
    share = min(1.0, characters / max(1, sum(map(len, documents))))
    return [d[: int(len(d) * share) + 1] for d in documents]


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_data_table(text: str) -> bool:
    """True for generated tables: little of them is words."""
    letters = sum(map(str.isalpha, text))
    return letters < 0.4 * len(text)
