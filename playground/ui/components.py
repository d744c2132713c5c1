"""The page's own components: gr.HTML with markup and behaviour out of `browser/`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gradio as gr

from playground.decoding.codec import JSON
from playground.settings import LaneKind

BROWSER = Path(__file__).parent / "browser"
ASSETS = Path(__file__).parents[2] / "assets"
MOST_LANES = 4  # that the page shows side by side
SHARED = ("words", "phrases")  # modules that stand in the page's head with all they import
PLOTLY = ASSETS / "plotly" / "plotly-cartesian.min.js"

_IMPORT = re.compile(r"^import (\{[^}]*\}) from '\./(\w+)\.js';$", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def bundle(*entries: str) -> str:
    """One script out of the ES modules `entries`.js and all they import.

    Every module becomes a function that returns its exports, so names stay as private as they are in modules.
    """
    return "\n".join(_modules(*entries).values())


def _modules(*entries: str) -> dict[str, str]:
    """The modules by name, each after those it imports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        source = (BROWSER / f"{name}.js").read_text(encoding="utf-8")
        for _, needed in _IMPORT.findall(source):
            if needed not in done:
                add(needed)
        exports = ", ".join(found for _, found in _EXPORT.findall(source))
        local = _IMPORT.sub(lambda found: f"const {found[1].replace(' as ', ': ')} = module_{found[2]};", source)
        body = _EXPORT.sub(r"\1", local)
        done[name] = f"const module_{name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"

    for entry in entries:
        if entry not in done:
            add(entry)
    return done


def stylesheet() -> str:
    """All styles of the page, for its head."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(BROWSER.glob("*.css")))


def head() -> str:
    """What the page's head holds: all styles, and the words in every language, which all components share."""
    return f"<style>{stylesheet()}</style><script>{bundle(*SHARED)}</script>"


def make_stage(value: str | None, player: Callable[..., tuple[str, str]]) -> gr.HTML:
    """The one live view. Its value is the latest message of `wire`; it keeps the log and the playhead itself.

    `player` gives the browser what it needs to save a run as a page, see player.py.
    """
    return _component("stage", value, plotly=f"gradio_api/file={PLOTLY}", server_functions=[player])


def make_lane_editor(value: list[dict[str, Any]], kinds: Iterable[LaneKind]) -> gr.HTML:
    """What races, with which settings. Its value is a list of {"method": id, "settings": {name: value}}."""
    return _component("lane_editor", value, methods=[describe(kind) for kind in kinds], most=MOST_LANES)


def make_proof() -> gr.HTML:
    """The panel that draws next tokens. Submitted with a place in a lane's text; its value is a message of proof.py."""
    return _component("proof", "")


def make_train(variants: Iterable[str], most_heads: int) -> gr.HTML:
    """The room in which heads are trained. Its value is the state of training.workshop, as JSON."""
    return _component("train", None, variants=list(variants), most_heads=most_heads)


def make_measure(limits: dict[str, JSON], server_functions: list[Callable[..., Any]]) -> gr.HTML:
    """The room in which lanes are measured. Its value is a message of measure.py, as JSON."""
    return _component("measure", None, limits=limits, server_functions=server_functions)


def make_advise() -> gr.HTML:
    """The room that says which method to use. Its value is a message of advise.py, as JSON."""
    return _component("advise", None)


def make_lessons(lessons: dict[str, list[dict[str, JSON]]], traces: Path) -> gr.HTML:
    """The lessons by language, drawn beside the stage; `traces` is the folder of their recorded runs."""
    return _component("lessons", "", lessons=lessons, traces=f"gradio_api/file={traces}")


def make_header(lent: bool = False) -> gr.HTML:
    """Title, what it is about, the rooms, the switch between light and dark, and the keys.

    `lent` says what is missing where GPUs are lent run by run, see zero.py.
    """
    return _component("header", "", lent=lent)


def _component(name: str, value: object, **props: Any) -> gr.HTML:
    """gr.HTML with the markup of `name`.html and the behaviour of `name`.js.

    Not a subclass: Gradio writes a stub file beside the source of every subclass.
    """
    return gr.HTML(
        value,
        html_template=(BROWSER / f"{name}.html").read_text(encoding="utf-8"),
        js_on_load=f"{_script(name)}\nmodule_{name}.mount(element, props, watch, server, trigger);",
        apply_default_css=False,
        elem_id=name.replace("_", "-"),
        **props,
    )


def _script(name: str) -> str:
    """What gr.HTML's js_on_load takes for `name`.js: its modules, but for those in the page's head."""
    shared = _modules(*SHARED)
    return "\n".join(text for module, text in _modules(name).items() if module not in shared)


def describe(kind: LaneKind) -> dict[str, Any]:
    """A kind of lane as the lane editor shows it. A bound that is infinite is None."""
    return {
        "id": kind.id,
        "title": kind.title,
        "summary": kind.summary,
        "settings": [
            {
                "name": setting.name,
                "kind": setting.kind,
                "default": setting.default,
                "help": setting.help,
                "minimum": setting.minimum if math.isfinite(setting.minimum) else None,
                "maximum": setting.maximum if math.isfinite(setting.maximum) else None,
                "choices": list(setting.choices),
            }
            for setting in kind.settings
        ],
    }
