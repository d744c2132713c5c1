"""What a user pasted, taken apart: a shell command, a Python call, or bare keyword arguments. Nothing is executed."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias

from playground.errors import UserError

LONGEST = 20_000
CALLS = ("LLM", "EngineArgs", "AsyncEngineArgs", "Engine", "ServerArgs", "LLMEngine")


@dataclass(frozen=True)
class Source:
    """An expression whose value is not known here; it is carried along as it was written."""

    text: str


Given: TypeAlias = "None | str | int | float | bool | Source | list[Given] | dict[str, Given]"


@dataclass(frozen=True)
class Option:
    """`name` with underscores, "" for what has none; `value` True for a flag that stands alone; `text` as written."""

    name: str
    value: Given
    text: str


@dataclass(frozen=True)
class Pasted:
    """`head` comes before the options and `tail` after the command, both as written."""

    language: Literal["bash", "python"]
    head: tuple[str, ...]
    options: tuple[Option, ...]
    tail: tuple[str, ...] = ()


# Each alternative begins with another character, so a match never has to be given up again.
_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL)
_OPERATOR = re.compile(r"[0-9]*(?:[|&;]|[<>])")
_NUMBER = re.compile(r"-[0-9.]+")
_CALL = re.compile(rf"\b(?:{'|'.join(CALLS)})\s*\(")
_KEYWORD = re.compile(r"\s*\w+\s*=(?!=)")
# Options that stand alone: the word after them is not their value.
ALONE = frozenset(
    (
        "use_v2_block_manager",
        "speculative_disable_mqa_scorer",
        "worker_use_ray",
        "engine_use_ray",
        "trust_remote_code",
        "enforce_eager",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "disable_log_stats",
        "disable_log_requests",
        "enable_log_requests",
    )
)


def parse_pasted(text: str) -> Pasted:
    """The parts of `text`. Raises UserError for what is neither a command nor a call, and for too long a text."""
    if len(text) > LONGEST:
        raise UserError(f"The text has {len(text)} characters; paste one command of at most {LONGEST}.")
    if not text.strip():
        raise UserError("There is nothing to translate. Paste a vLLM or SGLang command, or the Python call.")
    if _CALL.search(text) or (_KEYWORD.match(text) and "--" not in text):
        return _parse_python(text)
    return _parse_shell(text)


def _parse_shell(text: str) -> Pasted:
    words = _words(text.replace("\\\r\n", " ").replace("\\\n", " "))
    if words[:1] in (["$"], [">"], ["%"]):  # a prompt that was copied along
        words = words[1:]
    end = next((at for at, word in enumerate(words) if _OPERATOR.match(word)), len(words))
    tail, words = words[end:], words[:end]
    start = _program_end(words)
    options: list[Option] = []
    at = start
    while at < len(words):
        word = words[at]
        name, equals, value = _plain(word).partition("=")
        following = words[at + 1] if at + 1 < len(words) else None
        key = name.lstrip("-").replace("-", "_")
        if not name.startswith("-") or not key:
            options.append(Option("", _plain(word), word))
        elif equals:
            options.append(Option(key, value, word))
        elif following is None or key in ALONE or (following.startswith("-") and not _NUMBER.fullmatch(following)):
            options.append(Option(key, True, word))
        else:
            options.append(Option(key, _plain(following), f"{word} {following}"))
            at += 1
        at += 1
    return Pasted("bash", tuple(words[:start]), tuple(options), tuple(tail))


def _words(text: str) -> list[str]:
    """The words of a shell command as they were written, quotes and all."""
    found = list(_WORD.finditer(text))
    ends = [0, *(match.end() for match in found)]
    starts = [*(match.start() for match in found), len(text)]
    if any(text[end:start].strip() for end, start in zip(ends, starts, strict=True)):
        raise UserError("A quotation mark or a backslash in this command has no partner. Paste the whole command.")
    return [match[0] for match in found]


def _plain(word: str) -> str:
    """The word without its quotes."""
    try:
        return "".join(shlex.split(word))
    except ValueError as error:
        raise UserError(f"{word[:80]!r} cannot be read as a word of a command: {error}.") from error


def _program_end(words: list[str]) -> int:
    """Where the engine's own options begin: after `vllm serve`, `-m module`, or the name of a container image."""
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if (word == "serve" and before.endswith(("vllm", "sglang"))) or before == "-m":
            return at + 1
        if "vllm-openai" in word or "sglang:" in word:
            return at + 1
    return next((at for at, word in enumerate(words) if word.startswith("-")), len(words))


def _parse_python(text: str) -> Pasted:
    call = _find_call(text) or _find_call(f"LLM({text}\n)") or _assignments(text)
    if call is None:
        raise UserError("This does not read as Python. Paste the whole call, such as LLM(model=..., ...).")
    options = [Option("", Source(source), source) for source in map(_unparse, call.args)]
    for keyword in call.keywords:
        source = _unparse(keyword.value)
        if keyword.arg is None:
            options.append(Option("", Source(f"**{source}"), f"**{source}"))
        else:
            options.append(Option(keyword.arg, _value(keyword.value), f"{keyword.arg}={source}"))
    return Pasted("python", (_unparse(call.func),), tuple(options))


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's remarks on the style of what was pasted
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_call(text: str) -> ast.Call | None:
    tree = _parse(text)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CALLS or name == "from_engine_args":
                return node
    return None


def _assignments(text: str) -> ast.Call | None:
    """Lines of the form name = value, read as keyword arguments."""
    tree = _parse(text)
    keywords = [
        ast.keyword(statement.targets[0].id, statement.value)
        for statement in (tree.body if tree else ())
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    ]
    return ast.Call(ast.Name("LLM"), [], keywords) if keywords else None


def _value(node: ast.expr) -> Given:
    if isinstance(node, ast.Constant) and isinstance(node.value, None | str | int | float):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        names = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        if len(names) == len(node.keys):
            return {name: _value(value) for name, value in zip(names, node.values, strict=True)}
    return Source(_unparse(node))


def _unparse(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError) as error:
        raise UserError("This Python is nested too deeply to be read. Paste the call alone.") from error
