"""The most that a visitor may ask of the page: a lot on the owner's machine, little where strangers come."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from playground.errors import UserError
from playground.run import RunSpec

PREFIX = "SPECPLAY_MAX_"


@dataclass(frozen=True)
class Limits:
    """Of a run: new `tokens` of a sequence, `lanes`, characters of the `prompt` and what goes with it, `seconds` by the
    lanes' own clocks. Beside that: `runs` of one visitor at once, megabytes of an `upload`, `minutes` of a training.
    """

    tokens: int
    lanes: int
    prompt: int
    seconds: int
    runs: int
    upload: int
    minutes: int

    def check(self, spec: RunSpec) -> None:
        """Raises UserError for a run that asks for too much."""
        at_most(len(spec.lanes), self.lanes, "lanes")
        at_most(spec.max_new_tokens, self.tokens, "tokens to write")
        told = (spec.prompt, spec.system or "", *spec.companions, *spec.earlier, *spec.stop)
        at_most(sum(map(len, told)), self.prompt, "characters of prompt")


# A trace takes many times its size when it is read.
OWN_MACHINE = Limits(tokens=100_000, lanes=8, prompt=1_000_000, seconds=6 * 3600, runs=16, upload=64, minutes=60)
STRANGERS = Limits(tokens=256, lanes=4, prompt=8_000, seconds=120, runs=2, upload=16, minutes=5)


def at_most(asked: float, most: float, what: str) -> None:
    """Raises UserError if more is `asked` for than is given here."""
    if asked > most:
        raise UserError(f"That would be {asked:,} {what}; here at most {most:,} are allowed. Ask for fewer.")


def read_limits(allow_local: bool, environ: Mapping[str, str] = os.environ) -> Limits:
    """The limits for the owner of this machine or for strangers, as far as SPECPLAY_MAX_TOKENS and the like are silent.

    Raises UserError for a variable that holds no whole number above 0.
    """
    usual = OWN_MACHINE if allow_local else STRANGERS
    variables = {field.name: f"{PREFIX}{field.name.upper()}" for field in fields(Limits)}
    given = {name: _whole(one, environ[one]) for name, one in variables.items() if environ.get(one)}
    return replace(usual, **given)


def _whole(variable: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"The environment variable {variable} is {text!r}; it must be a whole number above 0.")
    return int(text)
