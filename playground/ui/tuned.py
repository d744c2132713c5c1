"""The page's defaults out of a settings file of the tuner, where it is started with one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from pathlib import Path

from playground.analysis.tuned import Tuned, read_tuned_file
from playground.settings import LaneKind

VARIABLE = "SPECPLAY_SETTINGS"


def tuned_settings() -> Tuned | None:
    """The settings file that $SPECPLAY_SETTINGS names; None without one. Raises UserError for what is no such file."""
    name = os.environ.get(VARIABLE)
    return read_tuned_file(Path(name).expanduser()) if name else None


def with_defaults(kinds: Iterable[LaneKind], tuned: Tuned | None) -> list[LaneKind]:
    """The kinds of lanes, their settings starting from the tuned ones."""
    return [_started(kind, tuned) for kind in kinds]


def _started(kind: LaneKind, tuned: Tuned | None) -> LaneKind:
    if tuned is None or kind.id not in tuned.methods:
        return kind
    values = tuned.methods[kind.id].settings
    return replace(kind, settings=tuple(replace(one, default=values[one.name]) for one in kind.settings))


def tuned_note(tuned: Tuned) -> str:
    """Where the defaults come from, as HTML."""
    return (
        f"<p>Settings start from those tuned for {escape(tuned.models)} ({escape(tuned.dtype)}) on "
        f"{escape(tuned.machine)}: {escape(', '.join(tuned.methods))}. Other models may want others.</p>"
    )
