"""The page: controls on the left, the stage on the right, and one handler between them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import gradio as gr

from playground.decoding.trace import read_trace
from playground.errors import UserError
from playground.models.catalog import load_catalog
from playground.models.store import ModelStore
from playground.run import open_run
from playground.ui import wire
from playground.ui.components import ASSETS, PLOTLY, make_header, make_stage, stylesheet
from playground.ui.form import make_form, run_spec
from playground.ui.theme import theme

FIRST_TRACE = ASSETS / "traces" / "first.jsonl"
RUNS_AT_ONCE = 4


def launch(host: str | None = None, port: int | None = None) -> None:
    """Serve the page until interrupted. None leaves an address to Gradio's environment variables."""
    on_a_space = "SPACE_ID" in os.environ
    serve(build_page(ModelStore(), allow_local=not on_a_space), host, port)


def serve(page: gr.Blocks, host: str | None = None, port: int | None = None, wait: bool = True) -> str:
    """Serve a built page and return its address; returns at once unless `wait`."""
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=not wait,
        theme=theme(),
        head=f"<style>{stylesheet()}</style>",
        allowed_paths=[str(PLOTLY)],
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        share=False,
        show_error=True,
    )
    return str(address)


def build_page(store: ModelStore, first_trace: Path = FIRST_TRACE, allow_local: bool = True) -> gr.Blocks:
    """The page on the models of `store`. It opens with the recorded run `first_trace`, for which nothing is loaded.

    `allow_local` False refuses models from paths of this machine, for a page that strangers may use.
    """
    catalog = load_catalog()

    def start(*controls: Any) -> Iterator[str]:
        yield wire.notice("progress", "Getting the models ready …")
        try:
            run = open_run(run_spec(*controls), store, catalog, allow_local)
        except UserError as error:
            yield wire.notice("error", str(error))
            return
        with run:
            yield from wire.stream(run.trace, run, token_hex(4))

    page = gr.Blocks(title="Speculative Decoding Playground", fill_width=True, analytics_enabled=False)
    with page:
        make_header()
        with gr.Row(elem_id="desk"):
            with gr.Column(elem_id="controls", scale=0, min_width=320):
                form = make_form(catalog)
            with gr.Column(elem_id="stage-column", scale=1, min_width=0):
                stage = make_stage(recorded(first_trace) if first_trace.exists() else None)
        running = form.run.click(
            start, form.fields, stage, show_progress="hidden", concurrency_limit=RUNS_AT_ONCE, api_visibility="private"
        )
        running.failure(None, js=_tell("fail"), api_visibility="private")
        form.stop.click(None, cancels=[running], js=_tell("stop"), api_visibility="private")
        form.save.click(None, js=_tell("save"), api_visibility="private")
        form.open.upload(
            recorded, form.open, stage, cancels=[running], show_progress="hidden", api_visibility="private"
        )
    return page


def recorded(file: str | Path) -> str:
    """A trace file as a message for the stage; what is wrong with it, as a notice."""
    try:
        with open(file, encoding="utf-8") as lines:
            return wire.whole(read_trace(lines), token_hex(4))
    except UserError as error:
        return wire.notice("error", str(error))


def _tell(command: str) -> str:
    """JavaScript of a listener that hands `command` to the stage."""
    return f"() => window.dispatchEvent(new CustomEvent('stage', {{ detail: '{command}' }}))"
