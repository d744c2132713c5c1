"""Between text and token ids: prompts in, text pieces and stop strings out.

The decoding loop knows only ids. This file turns a prompt into ids without letting a user type a control
token by accident, turns a growing id list back into text without ever showing half a character, and finds
stop strings inside a block of several new tokens.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import cast

from transformers import PreTrainedTokenizerBase

from playground.errors import UserError
from playground.models.strangers import reading

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class Pieces:
    """What each single id of one tokenizer contributes to the text. Shared by all streams of that tokenizer.

    Works on bytes, because byte-level BPE and byte-fallback tokens may hold parts of a character.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._anchor = _anchor(tokenizer)
        self._before = len(_decode(tokenizer, self._anchor))
        self._raw: dict[int, bytes] = {}

    def raw(self, token: int) -> bytes:
        """Bytes of `token` in the middle of a text; empty for special tokens and for ids without a token."""
        if token not in self._raw:
            whole = _decode(self._tokenizer, [*self._anchor, token])
            self._raw[token] = self._bytes(token, whole[self._before :])
        return self._raw[token]

    def raw_first(self, token: int) -> bytes:
        """Bytes of `token` at the start of a text, where sentencepiece-like tokenizers drop one space."""
        return self._bytes(token, _decode(self._tokenizer, [token]))

    def piece(self, token: int) -> str:
        """A label for `token` standing alone: its text, ‹E2 98› for bytes that are no character, ⟦name⟧ if special."""
        if raw := self.raw(token):
            return _label(raw)
        name = self._tokenizer.convert_ids_to_tokens(token)
        return f"⟦{name}⟧" if name else f"⟦id {token}⟧"

    def _bytes(self, token: int, text: str) -> bytes:
        """The bytes behind `text`, what `token` decodes to; its spelling tells them where text cannot."""
        if _REPLACEMENT not in text:
            return text.encode()
        spelling = str(self._tokenizer.convert_ids_to_tokens(token))
        if byte := _BYTE_TOKEN.fullmatch(spelling):
            return bytes.fromhex(byte[1])
        if all(char in _BYTE_OF for char in spelling):
            return bytes(_BYTE_OF[char] for char in spelling)
        return text.encode()


class TextStream:
    """Text of a growing id list, one piece per id; a character goes to the token that completes it.

    The pieces, with `finish()`, add up to what the tokenizer decodes from the whole list, special tokens left
    out. (Only where byte-fallback tokens spell invalid UTF-8 do we keep the valid characters among them, while
    the tokenizer gives up the whole run of bytes: a character once shown cannot be taken back.)

    `continues` says that text comes before this list, so that a leading space is part of it. Text that could begin
    one of `stops` is held back until it is certain, so that nothing of a stop string is ever shown.
    """

    def __init__(self, pieces: Pieces, continues: bool = False, stops: Sequence[str] = ()) -> None:
        self._pieces = pieces
        self._at_start = not continues
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stops)
        self._held = ""

    def push(self, ids: Sequence[int]) -> list[str]:
        """One piece per id: "" for a special token and for one that leaves a character incomplete or uncertain."""
        return [self._release(self._push(token)) for token in ids]

    def finish(self) -> str:
        """What is left when no more ids come: text that was held back, up to a stop string if there is one, and �
        for a character that was never completed. Usually ""."""
        text = self._held + self._utf8.decode(b"", final=True)
        self._held = ""
        return text[: min((at for stop in self._stops if (at := text.find(stop)) >= 0), default=len(text))]

    def _push(self, token: int) -> str:
        raw = self._pieces.raw(token)
        if raw and self._at_start:
            self._at_start = False
            raw = self._pieces.raw_first(token)
        return self._utf8.decode(raw)

    def _release(self, text: str) -> str:
        """What is certain of the text so far: all before a stop string, or before what could become one."""
        text = self._held + text
        certain = min((_certain(text, stop) for stop in self._stops), default=len(text))
        self._held = text[certain:]
        return text[:certain]


def _certain(text: str, stop: str) -> int:
    """Length of the longest start of `text` that holds no part of `stop`, even if more text follows."""
    if (found := text.find(stop)) >= 0:
        return found
    return next(at for at in range(max(0, len(text) - len(stop) + 1), len(text) + 1) if stop.startswith(text[at:]))


class StopStrings:
    """Ends a run at the first token whose text completes one of `strings`. One object per run.

    A `playground.decoding` stopping rule: called once per step, in order. A call costs O(new), since only the
    last few characters can still be part of a match.

    Raises UserError for an empty stop string.
    """

    def __init__(self, pieces: Pieces, strings: Sequence[str], continues: bool = False) -> None:
        if not all(strings):
            raise UserError("A stop string is empty: every text contains it. Leave it out or give it characters.")
        self._strings = tuple(strings)
        self._reach = max((len(string) for string in strings), default=1) - 1
        self._stream = TextStream(pieces, continues)
        self._tail = ""

    def __call__(self, ids: Sequence[int], new: int) -> tuple[int, str] | None:
        """How many of `ids` to keep, and "stop"; None if no stop string is complete yet."""
        first = len(ids) - new
        for at in range(first, len(ids)):
            (piece,) = self._stream.push([ids[at]])
            text = self._tail + piece
            if any(string in text for string in self._strings):
                return at + 1, "stop"
            self._tail = text[max(0, len(text) - self._reach) :]
        return None


def is_chat(tokenizer: PreTrainedTokenizerBase, text: str, chat: bool | None) -> bool:
    """Whether a prompt goes through the chat template; `chat` None means: where there is one, and a text."""
    return tokenizer.chat_template is not None and bool(text) if chat is None else chat


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    chat: bool | None = None,
    system: str | None = None,
    earlier: Sequence[str] = (),
    allow_special: bool = False,
) -> list[int]:
    """Prompt ids: `text` as the user turn of a chat, or as it stands.

    `chat` None means: as a chat where the tokenizer has a chat template. `earlier` is what was said before, user and
    answer by turns; without a chat it is text on lines of its own. Control tokens spelled out in any of it
    ("<|im_end|>") are plain text unless `allow_special`. An empty `text` starts from the BOS token.

    Raises UserError for an empty prompt without a BOS token, a chat without a template, a system prompt
    without a chat, a template that refuses, text that is no Unicode.
    """
    for given in (text, system or "", *earlier):
        try:
            given.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"The prompt holds something that is no Unicode text at character {error.start}."
            ) from error
    chat = is_chat(tokenizer, text, chat)
    if system and not chat:
        raise UserError("A system prompt needs the chat template: switch it on, or leave the system prompt out.")
    if not text:
        if chat or tokenizer.bos_token_id is None:
            raise UserError("The prompt is empty: type something to continue from.")
        return [tokenizer.bos_token_id]
    if chat:
        ids = _encode_chat(tokenizer, [*earlier, text], system, allow_special)
    else:
        ids = _encode_raw(tokenizer, "\n".join([*earlier, text]), allow_special)
    bos = tokenizer.bos_token_id
    # a template and a tokenizer that both write BOS, or a user who typed it where the tokenizer adds it
    return ids[1:] if bos is not None and ids[:2] == [bos, bos] else ids


def _encode_chat(
    tokenizer: PreTrainedTokenizerBase, said: Sequence[str], system: str | None, allow_special: bool
) -> list[int]:
    if tokenizer.chat_template is None:
        raise UserError("This model has no chat template: switch the chat template off, or pick an instruct model.")
    turns = [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(said)]
    if system:
        turns.insert(0, {"role": "system", "content": system})
    with reading("The model's chat template refuses this prompt"):
        ids = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, sanitize_control_tokens=not allow_special, return_dict=False
        )
    return cast("list[int]", ids)


def _encode_raw(tokenizer: PreTrainedTokenizerBase, text: str, allow_special: bool) -> list[int]:
    if allow_special or not any(token in text for token in tokenizer.all_special_tokens):
        return list(tokenizer.encode(text))
    bos = tokenizer.encode("")[:1]
    return (bos if bos == [tokenizer.bos_token_id] else []) + _encode_plain(tokenizer, text)


def _encode_plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of `text` with no special token recognised."""
    if not tokenizer.is_fast:
        return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))
    # `split_special_tokens` is a flag on the Rust tokenizer that all users share; setting it here would let
    # one run change another's prompt, so the stages are called one by one
    backend = tokenizer.backend_tokenizer
    if backend.normalizer is not None:
        text = backend.normalizer.normalize_str(text)
    words = [text] if backend.pre_tokenizer is None else [w for w, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
    return [token.id for word in words for token in backend.model.tokenize(word)]


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _anchor(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """One ordinary word token, so that what is decoded after it is not at the start of the text."""
    for token in (*tokenizer.encode("a", add_special_tokens=False), *range(len(tokenizer))):
        if _decode(tokenizer, [token]).strip().isalnum():
            return [token]
    return []


def _label(raw: bytes) -> str:
    """Text of `raw` with bytes that form no character in hexadecimal: b"a\\xe2\\x98" -> "a‹E2 98›"."""
    label = ""
    while raw:
        try:
            label, raw = label + raw.decode(), b""
        except UnicodeDecodeError as error:
            bad = raw[error.start : error.end].hex(" ").upper()
            label, raw = f"{label}{raw[: error.start].decode()}‹{bad}›", raw[error.end :]
    return label.replace("›‹", " ")


def _byte_alphabet() -> dict[str, int]:
    """Byte of each character in which byte-level BPE spells its tokens (GPT-2): printable ones stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(shifted)}


_BYTE_OF = _byte_alphabet()
