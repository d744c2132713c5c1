"""How the languages of the lessons write what is taken from a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """The words for true and false, the one between two comparisons, and the decimal sign."""

    yes: str = "yes"
    no: str = "no"
    both: str = "and"
    decimal: str = "."

    def number(self, value: object, form: str | None = None) -> str:
        """A number as text: by its format, or whole numbers as they are and others to three digits."""
        if isinstance(value, bool):
            return self.yes if value else self.no
        if form:
            return self._decimals(format(value, form))
        if isinstance(value, float):
            return self._decimals(f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}")
        return str(value)

    def comparison(self, written: str) -> str:
        """A comparison whose numbers are put in already, with the signs that people write."""
        signs = (("==", "="), (">=", "≥"), ("<=", "≤"), ("*", "×"), (" and ", f" {self.both} "))
        for sign, read in signs:
            written = written.replace(sign, read)
        return self._decimals(written)

    def _decimals(self, text: str) -> str:
        return re.sub(r"(?<=\d)\.(?=\d)", self.decimal, text)


LANGUAGES = {
    "en": Language(),
    "pt-BR": Language("sim", "não", "e", ","),
    "zh-CN": Language("是", "否", "且"),
}
