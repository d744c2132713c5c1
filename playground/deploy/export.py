"""From what was chosen here to what engines take today."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from playground.deploy.hf import export_transformers
from playground.deploy.others import export_llama_cpp, export_tgi
from playground.deploy.plan import FITS, Deployment, Export
from playground.deploy.sglang import export_sglang
from playground.deploy.vllm import export_vllm
from playground.errors import UserError

ENGINES: dict[str, Callable[[Deployment], Export]] = {
    "vllm": export_vllm,
    "sglang": export_sglang,
    "transformers": export_transformers,
    "tgi": export_tgi,
    "llama.cpp": export_llama_cpp,
}


def export(plan: Deployment, engine: str) -> Export:
    """What `engine` takes for `plan`. Raises UserError for an engine that is not among `ENGINES`."""
    if engine not in ENGINES:
        raise UserError(f"There is no export for {engine!r}. Engines: {', '.join(ENGINES)}.")
    return ENGINES[engine](plan)


def markdown(export: Export) -> str:
    """An export for the page and the terminal: what fits, what is lost, what to run."""
    title = f"### {export.engine} ({export.version})"
    fit = f"{export.engine} {FITS[export.fit]}: {export.name}."
    notes = "".join(f"- {note}\n" for note in export.notes)
    blocks = [f"**{title}**\n\n{_fence(language, text)}" for title, language, text in export.blocks]
    return "\n\n".join(part.rstrip() for part in (title, fit, notes, *blocks) if part) + "\n"


def deploy_text(plan: Deployment, engine: str | None = None, notes: Sequence[str] = ()) -> str:
    """Markdown for one engine, or for all of them, under what is to be known of all. UserError: no such engine."""
    told = ["".join(f"- {note}\n" for note in notes)] if notes else []
    engines = [engine] if engine else ENGINES
    return "\n".join([*told, *(markdown(export(plan, one)) for one in engines)])


def _fence(language: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
