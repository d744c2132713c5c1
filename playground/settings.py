"""What a lane can be told. A method that runs here and a server that runs elsewhere declare their settings alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from playground.decoding.trace import Value
from playground.errors import UserError

Settings: TypeAlias = Mapping[str, Value]
Promise: TypeAlias = Literal["ids", "distribution", "lossy", "unknown"]
"""What an output has in common with autoregressive decoding: its ids, its distribution, neither, or nobody knows."""


@dataclass(frozen=True)
class Setting:
    """One setting of a method, declared once: command line, page controls, links and sweeps are made from it.

    `check` raises UserError for a text that does not say what it should.
    """

    name: str
    kind: Literal["int", "float", "choice", "bool", "text"]
    default: Value
    help: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None

    def parse(self, value: object) -> Value:
        """`value`, perhaps typed as text, as this setting's kind. Raises UserError with what is allowed."""
        try:
            parsed = self._convert(value)
        except ValueError as error:
            raise UserError(f"{self.name} is {value!r}; it must be {self._allowed()}.") from error
        if self.kind in ("int", "float") and not self.minimum <= float(parsed) <= self.maximum:
            raise UserError(f"{self.name} is {parsed}; it must be {self._allowed()}.")
        if self.check is not None:
            self.check(str(parsed))
        return parsed

    def _convert(self, value: object) -> Value:
        text = str(value).strip()
        if self.kind == "bool":
            if text.lower() not in ("true", "false", "1", "0", "on", "off", "yes", "no"):
                raise ValueError(text)
            return text.lower() in ("true", "1", "on", "yes")
        if self.kind == "int":
            number = float(text)
            if not number.is_integer():
                raise ValueError(text)
            return int(number)
        if self.kind == "float":
            return float(text)
        if self.kind == "choice" and text not in self.choices:
            raise ValueError(text)
        return text

    def _allowed(self) -> str:
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "on or off"
        kind = "a whole number" if self.kind == "int" else "a number"
        if math.isfinite(self.minimum) and math.isfinite(self.maximum):
            return f"{kind} from {self.minimum:g} to {self.maximum:g}"
        return kind


@dataclass(frozen=True)
class LaneKind:
    """What a lane may be, by its `id`. `needs` names the models beside the target that it cannot run without.

    `presets` are published settings by name, `note` is what a user should know, `refused` tells why a setting that one
    might expect is not there.
    """

    id: str
    title: str
    summary: str
    settings: tuple[Setting, ...] = ()
    sources: tuple[str, ...] = ()
    presets: Mapping[str, Settings] = field(default_factory=dict)
    note: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()

    def promise(self, settings: Settings, greedy: bool) -> Promise:
        """What the output is sure to be under `settings`."""
        return "unknown"

    def check(self, given: Mapping[str, object]) -> dict[str, Value]:
        """All settings, with defaults for those not given. Raises UserError for an unknown name or a bad value."""
        known = {setting.name: setting for setting in self.settings}
        for name in given:
            if name in self.refused:
                raise UserError(f"{self.title} refuses {name}: {self.refused[name]}")
            if name not in known:
                options = ", ".join(known) or "none"
                raise UserError(f"{self.title} has no setting called {name!r}. Its settings: {options}.")
        return {name: one.parse(given[name]) if name in given else one.default for name, one in known.items()}


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Settings typed as name=value. Raises UserError for what is not."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError(f"The setting {pair!r} is not of the form name=value, for example k=4.")
        found[name.strip()] = value
    return found
