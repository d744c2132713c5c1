"""Old commands of vLLM and SGLang in today's words, key by key, each with the reason."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from playground.deploy.old_spellings import BATCH_LIMIT, GONE, OLD_CONFIG, OLD_SGLANG, OLD_VLLM, Rule
from playground.deploy.pasted import Given, Option, Pasted, Source, parse_pasted
from playground.errors import UserError

Kind = Literal["translated", "dropped", "kept", "unknown"]
Engine = Literal["vllm", "sglang"]

SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "sc": "speculative_config"}
NGRAM_WORDS = 3


@dataclass(frozen=True)
class Line:
    """One key: as it was, as it is now ("" if it is gone), and why."""

    kind: Kind
    old: str
    new: str
    say: str


@dataclass(frozen=True)
class Translation:
    """The new command or call, and what became of every key of the old one."""

    engine: Engine
    language: Literal["bash", "python"]
    text: str
    lines: tuple[Line, ...]


@cache
def current(engine: Engine, what: str) -> frozenset[str]:
    """Names that the engine's parser knows today: its "options", vLLM's "speculative_config", "methods", ..."""
    tables = json.loads(Path(__file__).with_name("options.json").read_text())
    return frozenset(tables[engine][what])


def translate(text: str) -> Translation:
    """What `text` would be today. Unknown keys are kept and said to be unknown; nothing in it is executed.

    Raises UserError where it is no command or call of vLLM or SGLang.
    """
    pasted = parse_pasted(text)
    engine = _engine(pasted)
    work = _Work(engine, pasted.language)
    for option in pasted.options:
        work.take(option)
    work.finish()
    if not pasted.options or all(line.kind == "unknown" for line in work.lines):
        raise UserError("Nothing here looks like an option of vLLM or SGLang. Paste the command with its options.")
    if pasted.tail:
        left = " ".join(pasted.tail)
        work.lines.append(Line("unknown", left, left, "Not part of the command: kept as it stands."))
    return Translation(engine, pasted.language, work.render(pasted), tuple(work.lines))


def translate_text(text: str) -> str:
    """The translation as Markdown: the new text, then a table of what became of every key."""
    translation = translate(text)
    rows = [
        f"| {_cell(line.old)} | {_cell(line.new) if line.new else 'gone'} | {line.kind} | {line.say} |"
        for line in translation.lines
    ]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", translation.text)), default=0))
    return "\n".join(
        [
            f"{fence}{translation.language}",
            translation.text,
            fence,
            "",
            "| old | now | | why |",
            "|---|---|---|---|",
            *rows,
        ]
    )


class _Work:
    """A translation in the making: options that stay, the speculative_config, the lines for people."""

    def __init__(self, engine: Engine, language: Literal["bash", "python"]) -> None:
        self.engine, self.language = engine, language
        self.rules = OLD_VLLM if engine == "vllm" else OLD_SGLANG
        self.kept: list[str] = []
        self.config: dict[str, Given] = {}
        self.lines: list[Line] = []
        self.batch_limit: tuple[Given, str] | None = None
        self.lookup_was_old = False

    def take(self, option: Option) -> None:
        """Decide about one option."""
        name = SHORT.get(option.name, option.name)
        outer, dot, inner = name.partition(".")
        if self.engine == "vllm" and outer == "speculative_config":
            self._take_config({inner: _number(option.value)} if dot else self._read_config(option), option)
        elif self.engine == "vllm" and name in BATCH_LIMIT:
            self.batch_limit = _number(option.value), option.text
        elif (rule := _match(self.rules, name, option.value)) is not None:
            self.lookup_was_old |= name.startswith("ngram_prompt_lookup")
            self._apply(rule, option.value, option.text)
        else:
            self.kept.append(option.text)
            if not name:
                self._line("kept", option.text, option.text, "Not an option by name: kept as it stands.")
            elif name.removeprefix("no_") in current(self.engine, "options"):
                self._line("kept", option.text, option.text, "Still an option of today.")
            else:
                self._line("unknown", option.text, option.text, "Not known to us, old or new: kept as it stands.")

    def finish(self) -> None:
        """What can be settled only when all keys are known."""
        config = self.config
        if self.batch_limit is not None:
            self._schedule(*self.batch_limit)
        if _word(config.get("method")) in GONE:
            config.pop("model", None)
            nearest: dict[str, Given] = {"method": "ngram", "prompt_lookup_max": NGRAM_WORDS, "prompt_lookup_min": 1}
            config |= nearest
            self._line("translated", "", _pairs(nearest), "The nearest that vLLM has.")
        elif self.lookup_was_old and "prompt_lookup_min" not in config:
            config["prompt_lookup_min"] = 1
            say = "It used to be 1 where nothing was said; today it would be as large as prompt_lookup_max."
            self._line("translated", "", '"prompt_lookup_min": 1', say)
        if config and "num_speculative_tokens" not in config:
            self._line("unknown", "", "", "num_speculative_tokens is missing; most methods ask for it.")

    def render(self, pasted: Pasted) -> str:
        """The new command or call."""
        if pasted.language == "python":
            arguments = self.kept + ([f"speculative_config={_python(self.config)}"] if self.config else [])
            return f"{pasted.head[0]}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
        groups = [" ".join(pasted.head), *self.kept]
        if self.config:
            groups.append(f"--speculative-config {shlex.quote(json.dumps(self.config, default=_source))}")
        command = " \\\n    ".join(group for group in groups if group)
        return " ".join([command, *pasted.tail])

    def _line(self, kind: Kind, old: str, new: str, say: str) -> None:
        self.lines.append(Line(kind, old, new, say))

    def _apply(self, rule: Rule, value: Given, old: str) -> None:
        config = {key: _number(value) if new == "$" else new for key, new in rule.config.items()}
        options = [_option(self.language, key, value if new == "$" else new) for key, new in rule.options.items()]
        self.config |= config
        self.kept += options
        if _word(config.get("method")) in GONE or not (config or options):
            self._line("dropped", old, "", rule.say)
        else:
            self._line("translated", old, ", ".join([*([_pairs(config)] if config else []), *options]), rule.say)

    def _read_config(self, option: Option) -> dict[str, Given] | None:
        if isinstance(option.value, dict):
            return option.value
        try:
            value = json.loads(option.value) if isinstance(option.value, str) else None
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def _take_config(self, config: Mapping[str, Given] | None, option: Option) -> None:
        if config is None:
            self.kept.append(option.text)
            self.lines.append(
                Line("unknown", option.text, option.text, "Its value is no JSON object that we can read.")
            )
            return
        for key, value in config.items():
            self._take_key(key.replace("-", "_"), value, _pairs({key: value}), _word(config.get("method")) in GONE)

    def _take_key(self, name: str, value: Given, old: str, gone: bool) -> None:
        if name in BATCH_LIMIT:
            self.batch_limit = _number(value), old
        elif (rule := _match(OLD_CONFIG, name, value)) is not None:
            self._apply(rule, value, old)
        elif name == "model" and gone:
            self._line("dropped", old, "", "What was trained for the method cannot be used without it.")
        elif name == "method" and _word(value) in current("vllm", "old_mtp_methods"):
            self.config[name] = "mtp"
            self._line("translated", old, '"method": "mtp"', "All these methods are called mtp now.")
        else:
            self.config[name] = value
            known = name in current("vllm", "speculative_config")
            if name == "method":
                known = _word(value) in current("vllm", "methods")
            if known:
                self._line("kept", old, old, "Still a key of today.")
            else:
                self._line("unknown", old, old, "Not known to us, old or new: kept as it stands.")

    def _schedule(self, size: Given, old: str) -> None:
        tokens = self.config.get("num_speculative_tokens")
        if type(size) is int and type(tokens) is int and size > 0:
            schedule: dict[str, Given] = {
                "num_speculative_tokens_per_batch_size": [[1, size, tokens], [size + 1, size + 1, 0]]
            }
            self.config |= schedule
            say = (
                "Ranges of batch sizes have numbers of draft tokens now; the last number holds for all larger batches."
            )
            self._line("translated", old, _pairs(schedule), say)
        else:
            say = "Not translated: this needs a whole number of 1 or more, and num_speculative_tokens."
            self._line("unknown", old, "", say)


def _engine(pasted: Pasted) -> Engine:
    words = " ".join(pasted.head)
    if "sglang" in words or "sgl." in words:
        return "sglang"
    if "vllm" in words:
        return "vllm"
    only_sglang = (current("sglang", "options") | OLD_SGLANG.keys()) - current("vllm", "options") - OLD_VLLM.keys()
    return "sglang" if any(option.name in only_sglang for option in pasted.options) else "vllm"


def _match(rules: Mapping[str, tuple[Rule, ...]], name: str, value: Given) -> Rule | None:
    return next((rule for rule in rules.get(name, ()) if re.search(rule.pattern, _word(value).lower())), None)


def _word(value: Given) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Given) -> Given:
    """A shell word that spells a number is one."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    return value


def _option(language: str, name: str, value: Given) -> str:
    if language == "python":
        return f"{name}={_python(value)}"
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {shlex.quote(value if isinstance(value, str) else _shown(value))}"


def _python(value: Given) -> str:
    if isinstance(value, Source):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_python(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    return repr(value)


def _pairs(config: Mapping[str, Given]) -> str:
    return ", ".join(f"{json.dumps(key)}: {_shown(value)}" for key, value in config.items())


def _shown(value: Given) -> str:
    return value.text if isinstance(value, Source) else json.dumps(value, default=_source)


def _source(value: object) -> str:
    return value.text if isinstance(value, Source) else str(value)


def _cell(text: str) -> str:
    """`text` as code in a Markdown table."""
    short = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{short if len(short) <= 120 else short[:117] + '...'}`" if short else ""
