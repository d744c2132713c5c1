"""Where the texts begin that a model continues: files of prompts, the built-in family's corpus, or the model itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from playground.decoding.codec import JSON
from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.files import replace_whole
from playground.models.text import encode_prompt
from playground.training.corpus import read_books, read_standard_library, split_held_out
from playground.training.self_distillation import continue_prompts

HELD_OUT = 20  # one prompt in so many
CODE_SHARE = 0.2
OWN_BATCH = 64
PROBE = "\N{BLACK SQUARE}"


@dataclass(frozen=True)
class Prompts:
    """Prompts as token ids: those to learn from, and others that no training sees."""

    seen: list[list[int]]
    held_out: list[list[int]]

    def write(self, file: Path) -> None:
        """Keep them in a file that `read` reads."""
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(file, json.dumps({"seen": self.seen, "held_out": self.held_out}))

    def alike(self, size: int) -> Prompts:
        """The same prompts with `size` of about the same length in a row, longer and shorter lots mixed: what is read
        together is padded to the longest."""

        def lots(prompts: list[list[int]]) -> list[list[int]]:
            ordered = sorted(prompts, key=len)
            found = [ordered[start : start + size] for start in range(0, len(ordered), size)]
            return [ids for at in np.random.default_rng(0).permutation(len(found)) for ids in found[at]]

        return Prompts(lots(self.seen), lots(self.held_out))

    @classmethod
    def read(cls, file: Path) -> Prompts:
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    @classmethod
    def split(cls, prompts: Sequence[list[int]]) -> Prompts:
        """One in HELD_OUT of `prompts`, at least one, is held out. Raises UserError for fewer than two."""
        if len(prompts) < 2:
            raise UserError(f"{len(prompts)} prompts are too few: some are to be held out. Give at least two.")
        return cls(
            [p for at, p in enumerate(prompts) if at % HELD_OUT],
            [p for at, p in enumerate(prompts) if not at % HELD_OUT],
        )


def file_prompts(tokenizer: PreTrainedTokenizerBase, path: Path) -> Prompts:
    """A file's prompts, as chats where the tokenizer has a template. `.jsonl`: a "prompt", or the first of "turns" per
    line; else a prompt per line."""
    lines = _lines(path)
    if path.suffix == ".jsonl":
        lines = [_prompt_of(line, number, path) for number, line in enumerate(lines, start=1)]
    return Prompts.split([encode_prompt(tokenizer, line) for line in lines])


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The prompts in {path} cannot be read: {error}.") from error


def _prompt_of(line: str, number: int, path: Path) -> str:
    try:
        entry = json.loads(line)
        prompt = entry["prompt"] if "prompt" in entry else entry["turns"][0]
    except (ValueError, TypeError, LookupError):
        prompt = None
    if not isinstance(prompt, str) or not prompt:
        raise UserError(f'Line {number} of {path} has no prompt: expected {{"prompt": "..."}} or {{"turns": ["..."]}}.')
    return prompt


def apart_from(prompts: Prompts, tokenizer: PreTrainedTokenizerBase, files: Sequence[Path], words: int = 8) -> Prompts:
    """Those of `prompts` that share no run of so many words with the texts in `files`, with which is to be measured."""
    taken = {gram for file in files for text in _texts_in(file) for gram in _word_grams(text, words)}

    def free(kept: list[list[int]]) -> list[list[int]]:
        return [ids for ids in kept if taken.isdisjoint(_word_grams(str(tokenizer.decode(ids)), words))]

    return Prompts(free(prompts.seen), free(prompts.held_out))


def _texts_in(file: Path) -> list[str]:
    """All strings of a file of prompts, later turns included."""
    lines = _lines(file)
    if file.suffix != ".jsonl":
        return lines
    return [text for line in lines for text in _strings(json.loads(line))]


def _strings(value: JSON) -> list[str]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for part in parts for text in _strings(part)]


def _word_grams(text: str, words: int) -> set[tuple[str, ...]]:
    found = re.findall(r"\w+", text.lower())
    return {tuple(found[at : at + words]) for at in range(len(found) - words + 1)}


def corpus_prompts(
    tokenizer: PreTrainedTokenizerBase, books: Path | None, count: int, shortest: int = 16, longest: int = 64
) -> Prompts:
    """Passages of `shortest` to `longest` tokens from anywhere in the built-in family's corpus: books of the folder
    `books` and a fifth Python, or Python alone where None.

    What the family holds out stays held out; a twentieth more of `count` comes from there.
    """
    code = split_held_out(read_standard_library())
    kinds = (
        [(code, 1.0)] if books is None else [(split_held_out(read_books(books)), 1 - CODE_SHARE), (code, CODE_SHARE)]
    )
    rng = np.random.default_rng(0)

    def draw(documents: list[str], number: int) -> list[list[int]]:
        weights = np.array([len(document) for document in documents], dtype=float)
        found: list[list[int]] = []
        while len(found) < number:
            document = documents[rng.choice(len(documents), p=weights / weights.sum())]
            start = int(rng.integers(max(1, len(document) - 8 * longest)))
            # From the next word or line on: the middle of a word is a beginning that no reader would give.
            start += next((at for at, char in enumerate(document[start : start + 200]) if char.isspace()), 0)
            passage = document[start : start + 8 * longest].lstrip(" ")
            ids = encode_prompt(tokenizer, passage, chat=False) if passage.strip() else []
            if len(ids) >= shortest:
                found.append(ids[: int(rng.integers(shortest, longest + 1))])
        return found

    def mixed(part: int, number: int) -> list[list[int]]:
        drawn = [ids for documents, share in kinds for ids in draw(documents[part], round(share * number))]
        return [drawn[at] for at in rng.permutation(len(drawn))]

    return Prompts(mixed(0, count), mixed(1, max(1, count // HELD_OUT)))


def own_prompts(
    target: TransformersTarget, tokenizer: PreTrainedTokenizerBase, count: int, tokens: int = 32
) -> Prompts:
    """Prompts that the model writes itself at temperature 1: what a user might say after the chat template's header,
    or the beginning of a text where there is no template."""
    before, after = _around_a_user(tokenizer)
    if not before:
        if not target.eos_ids:
            raise UserError(f"{target.name} has no token to begin a text with: give it prompts in a file.")
        before = [min(target.eos_ids)]
    written: list[list[int]] = []
    for number, start in enumerate(range(0, count, OWN_BATCH)):
        rows = min(OWN_BATCH, count - start)
        for text, _ in continue_prompts(target, [before] * rows, [1.0] * rows, tokens, seed=number):
            said = [token for token in text.ids[len(before) :] if token not in target.eos_ids]
            if said:
                written.append([*before, *said, *after])
    return Prompts.split(written)


def _around_a_user(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The ids before and after what the user says in the first turn; nothing without a chat template."""
    if tokenizer.chat_template is None:
        bos = tokenizer.bos_token_id
        return ([] if bos is None else [bos]), []
    chat = [{"role": "user", "content": PROBE}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    before, _, after = str(rendered).partition(PROBE)
    return (
        list(tokenizer.encode(before, add_special_tokens=False)),
        list(tokenizer.encode(after, add_special_tokens=False)),
    )
