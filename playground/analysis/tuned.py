"""The settings file that the tuner writes and the page starts from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playground.decoding.codec import decode_value
from playground.decoding.trace import Value
from playground.errors import UserError
from playground.files import write_whole
from playground.methods import METHODS

HEAD = """\
# The best settings per method that python -m playground tune found on this machine for these models and questions.
# python -m playground serve --settings FILE starts the page with them; SPECPLAY_SETTINGS=FILE does the same.
"""


@dataclass(frozen=True)
class TunedMethod:
    """The settings of a method and what was measured with them, as speed-ups over autoregressive: the median over
    questions, the lowest and the highest of them; and the median with the method's own defaults."""

    settings: dict[str, Value]
    speedup: float
    low: float
    high: float
    default_speedup: float
    tokens_per_pass: float


@dataclass(frozen=True)
class Tuned:
    """A settings file: where, with what and on what it was measured, and the methods."""

    machine: str
    models: str
    dtype: str
    questions: str
    recorded: str
    methods: dict[str, TunedMethod] = field(default_factory=dict)


def write_tuned(tuned: Tuned, file: Path) -> None:
    """Write TOML. Raises UserError where that cannot be."""
    facts = {name: getattr(tuned, name) for name in ("machine", "models", "dtype", "questions", "recorded")}
    parts = [HEAD, _lines(facts)]
    for name, method in tuned.methods.items():
        figures = {key: round(value, 4) for key, value in vars(method).items() if key != "settings"}
        parts += [f"[methods.{name}]\n{_lines(figures)}", f"[methods.{name}.settings]\n{_lines(method.settings)}"]
    write_whole(file, "\n".join(parts), "The settings")


def _lines(values: Mapping[str, Value]) -> str:
    """Keys and values as TOML. A JSON text, number or boolean is one of TOML as well."""
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def read_tuned_file(file: Path) -> Tuned:
    """A settings file, its settings checked and complete. Raises UserError for what is none, and for methods or
    settings that there are not."""
    try:
        tuned = decode_value(Tuned, tomllib.loads(file.read_text(encoding="utf-8")), file.name)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(
            f"The settings file {file} cannot be read: {error}. python -m playground tune --out {file.name} makes one."
        ) from error
    for name, method in tuned.methods.items():
        if name not in METHODS:
            raise UserError(
                f"{file} has settings for {name!r}; there is no such method. Methods: {', '.join(METHODS)}."
            )
        try:
            method.settings.update(METHODS[name].check(method.settings))
        except UserError as error:
            raise UserError(f"{file}, {name}: {error}") from error
    return tuned


def read_tuned(file: Path) -> dict[str, dict[str, Value]]:
    """The settings by method of a settings file. Raises UserError like read_tuned_file."""
    return {name: method.settings for name, method in read_tuned_file(file).methods.items()}
