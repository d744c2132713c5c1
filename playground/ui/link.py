"""A run's settings as the query of a link, and back: `?prompt=Once&lane=draft-model;k=6&seed=3`.

A lane is its method and those settings that differ from the method's own, separated by semicolons. Everything else at
its default is left out. What a link says is checked like what a visitor types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

from playground.errors import UserError
from playground.run import get_kind
from playground.ui.components import MOST_LANES
from playground.ui.form import DEFAULTS, run_spec

LONGEST = 6000  # characters; servers and chat programs cut longer ones
READABLE = ";=,:/[]"  # needs no escape in a query

Values = list[Any]  # those of the form's controls, in their order


def write_link(values: Sequence[Any]) -> str:
    """The query that restores the form's `values`. Raises UserError for a form that cannot run or fits in none."""
    _check(values)
    try:
        query = "?" + urlencode([*_pairs(values)], safe=READABLE, quote_via=quote)
    except UnicodeEncodeError as error:
        raise UserError("The form holds something that is no Unicode text, which no link can carry.") from error
    if len(query) > LONGEST:
        raise UserError(
            f"The link would have {len(query):,} characters, and many programs cut links of more than {LONGEST:,}. "
            "Shorten the prompt, or save the trace instead."
        )
    return query


def read_link(query: Iterable[tuple[str, str]]) -> Values | None:
    """The form's values out of the (name, value) pairs of a query; None if it names none of them.

    Names that are not the form's belong to others and are left alone. Raises UserError for what cannot be run.
    """
    pairs = [(name, value) for name, value in query if name in DEFAULTS]
    if not pairs:
        return None
    try:
        if sum(len(name) + len(value) for name, value in pairs) > LONGEST:
            raise UserError(f"it has more than {LONGEST:,} characters.")
        lanes = [_lane(value) for name, value in pairs if name == "lane"]
        if len(lanes) > MOST_LANES:
            raise UserError(f"it has {len(lanes)} lanes; the page shows {MOST_LANES}.")
        given = {name: _value(name, value) for name, value in pairs if name != "lane"}
        values = list((DEFAULTS | given | ({"lane": lanes} if lanes else {})).values())
        _check(values)
    except UserError as error:
        raise UserError(f"This link cannot be used: {error}") from error
    return values


def _check(values: Sequence[Any]) -> None:
    """Raises UserError for controls that describe no run."""
    _ = run_spec(*values).sampling  # which checks its numbers


def _pairs(values: Sequence[Any]) -> Iterator[tuple[str, object]]:
    """Names and values of what is in the link."""
    for (name, default), value in zip(DEFAULTS.items(), values, strict=True):
        if name == "lane":
            yield from ((name, _lane_text(lane)) for lane in value)
        elif name == "prompt" or value not in (default, None):
            yield name, value


def _lane_text(lane: Mapping[str, Any]) -> str:
    method = get_kind(lane["method"])
    settings = method.check(lane["settings"])
    changed = [(one.name, settings[one.name]) for one in method.settings if settings[one.name] != one.default]
    return ";".join([method.id, *(f"{name}={quote(str(value), safe=',[]')}" for name, value in changed)])


def _lane(text: str) -> dict[str, Any]:
    name, *settings = text.split(";")
    pairs = [setting.partition("=") for setting in settings]
    return {"method": name, "settings": get_kind(name).check({key: unquote(value) for key, _, value in pairs})}


def _value(name: str, text: str) -> object:
    """`text` as the kind of value that the control holds."""
    default = DEFAULTS[name]
    if isinstance(default, str):
        return text
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError as error:
        raise UserError(f"{name} is {text[:60]!r}; it must be a number.") from error
