"""The panel below the stage: what engines take for the focused lane, and old commands in today's words."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from playground.decoding.codec import decode_value
from playground.decoding.trace import read_trace
from playground.deploy.export import ENGINES, deploy_text
from playground.deploy.named import of_lane
from playground.deploy.translate import translate_text
from playground.errors import UserError
from playground.models.catalog import Catalog
from playground.ui.form import whole

# Every word of the panel that is not an export.
TITLE = "Take it to production"
ABOUT = "What serving engines take for the lane in focus: its method, settings, models, sampling and prompt."
ENGINE, SHOW = "Engine", "Show for the lane in focus"
NAMES = {"vllm": "vLLM", "sglang": "SGLang", "transformers": "transformers", "tgi": "TGI", "llama.cpp": "llama.cpp"}
TENSOR, PIPELINE, NODES = "Tensor parallel", "Pipeline parallel", "Machines"
DRAFT, LIKE_TARGET, WHOLE = "Draft model", "like the target", "on one GPU"
DTYPE, DTYPES = "Weights", ["auto", "float32", "bfloat16", "float16"]
OLD, HINT = "Paste your old command", "vllm serve … --speculative-model …   or   LLM(model=…, num_speculative_tokens=5)"
TRANSLATE = "Translate"
NO_RUN = "There is no run yet. Press Run, or open a trace."
FROM = "**Lane {n}, {title}**"

# JavaScript: what the stage shows takes the place of the first input. And: it is looked at again when that changes.
SEEN = """(_, ...others) => {
    const { log, lane } = document.querySelector('.stage').view();
    return [JSON.stringify({ header: log.header ?? '', lane }), ...others];
}"""
FOLLOW = """() => window.addEventListener('focused', () => {
    const show = document.getElementById('deploy-show');
    if (show?.offsetParent) show.click();
})"""


def make_deploy_panel(catalog: Catalog) -> None:
    """Lay out the panel, closed, in the current column of the page being built."""
    with gr.Accordion(TITLE, open=False, elem_id="deploy") as panel:
        gr.Markdown(ABOUT)
        seen = gr.Textbox(visible=False)
        engine = gr.Radio([(NAMES[name], name) for name in ENGINES], value="vllm", label=ENGINE)
        with gr.Row(elem_id="deploy-machines"):
            tensor = gr.Number(1, label=TENSOR, min_width=150)
            pipeline = gr.Number(1, label=PIPELINE, min_width=150)
            nodes = gr.Number(1, label=NODES, min_width=150)
            draft = gr.Dropdown([LIKE_TARGET, WHOLE], value=LIKE_TARGET, label=DRAFT, min_width=150)
            dtype = gr.Dropdown(DTYPES, value=DTYPES[0], label=DTYPE, min_width=150)
        show = gr.Button(SHOW, size="sm", elem_id="deploy-show")
        exported = gr.Markdown(elem_id="deploy-export", elem_classes="deploy-text")
        old = gr.Textbox(label=OLD, placeholder=HINT, lines=3, max_lines=12, elem_id="deploy-old")
        translate = gr.Button(TRANSLATE, size="sm", elem_id="deploy-translate")
        translated = gr.Markdown(elem_id="deploy-new", elem_classes="deploy-text")

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    choices = (engine, tensor, pipeline, nodes, draft, dtype)
    gr.on(
        [panel.expand, show.click, *(choice.change for choice in choices)],
        partial(exports, catalog),
        [seen, *choices],
        exported,
        js=SEEN,
        trigger_mode="always_last",
        **quiet,
    )
    gr.on([translate.click], translation, old, translated, **quiet)


def exports(
    catalog: Catalog,
    seen: str,
    engine: str,
    tensor: float | None,
    pipeline: float | None,
    nodes: float | None,
    draft: str,
    dtype: str,
) -> str:
    """Markdown for `engine`; why there is none, where there is none. `seen` is JSON: a trace's header, and a lane."""
    try:
        header, lane = _shown(seen)
        trace = read_trace([header, '{"end":0}'])
        plan, notes = of_lane(catalog, trace, lane)
        plan = replace(
            plan,
            dtype=decode_value(str, dtype, DTYPE),
            tensor_parallel=whole(TENSOR, tensor),
            pipeline_parallel=whole(PIPELINE, pipeline),
            nodes=whole(NODES, nodes),
            draft_tensor_parallel=1 if draft == WHOLE else None,
        )
        return f"{FROM.format(n=lane + 1, title=trace.lanes[lane].title)}\n\n{deploy_text(plan, engine, notes)}"
    except UserError as error:
        return str(error)


def translation(old: str) -> str:
    """An old command in today's words, as Markdown; why not, where it is none."""
    try:
        return translate_text(decode_value(str, old or "", OLD))
    except UserError as error:
        return str(error)


def _shown(seen: str) -> tuple[str, int]:
    """The header of the trace on the stage, and the lane in focus."""
    try:
        value = json.loads(seen or "{}")
    except (ValueError, RecursionError) as error:
        raise UserError("What the stage shows cannot be read. Load the page again.") from error
    told = decode_value(dict[str, str | int], value, "The stage")
    if not (header := told.get("header")):
        raise UserError(NO_RUN)
    return str(header), decode_value(int, told.get("lane"), "The stage's lane")
