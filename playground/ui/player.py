"""A run as one HTML file: the stage, its styles and Plotly inside, so that it plays from disk and asks for nothing."""

from __future__ import annotations

import re
from functools import lru_cache
from io import StringIO

from playground.decoding.trace import Trace
from playground.ui.components import BROWSER, PLOTLY, bundle, stylesheet

TRACE = "TRACE"  # where the lines of a trace file go, see `player`


def player(_: object = None) -> tuple[str, str]:
    """The HTML before and after the trace. Between them belong the lines of a trace file, every `<` as `\\u003c`.

    The page's browser asks for it, with an argument that Gradio adds.
    """
    return _player()


@lru_cache
def _player() -> tuple[str, str]:
    parts = {
        "STYLES": stylesheet(),
        "HEADER": _markup("header"),
        "STAGE": _markup("stage"),
        "PLOTLY": _script(PLOTLY.read_text(encoding="utf-8")),
        "SCRIPT": _script(f"{bundle('player')}\nmodule_player.mount(document);"),
    }
    before, _, after = _markup("player").partition(TRACE)
    before, after = (re.sub("|".join(parts), lambda found: parts[found[0]], half) for half in (before, after))
    return before, after


def export(trace: Trace) -> str:
    """`trace` as a page of its own, about 1.6 MB and the trace."""
    lines = StringIO()
    trace.write(lines)
    before, after = player()
    # In JSON `<` stands in strings only, where it may be escaped: no token can end the script that holds it.
    return before + lines.getvalue().replace("<", "\\u003c") + after


def _markup(name: str) -> str:
    return (BROWSER / f"{name}.html").read_text(encoding="utf-8")


def _script(source: str) -> str:
    """JavaScript that no HTML parser takes for the end of its script: `</` and `<!--` stand in its strings only."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", source, flags=re.IGNORECASE)
