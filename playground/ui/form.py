"""The form: the controls beside the stage, and the run that they describe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.methods import METHODS
from playground.models.catalog import Catalog
from playground.run import LaneSpec, RunSpec, get_kind, lane_kinds
from playground.ui.components import ASSETS, make_lane_editor
from playground.ui.model_controls import ModelControls, make_model_controls
from playground.ui.recordings import KINDS
from playground.ui.tuned import tuned_note, tuned_settings, with_defaults

EXAMPLES = json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))

# What the controls hold at first, by their names in a link, in the order of `Form.fields`.
DEFAULTS: dict[str, Any] = {
    "prompt": EXAMPLES[0]["prompt"],
    "lane": [{"method": name, "settings": METHODS[name].check({})} for name in ("autoregressive", "draft-model")],
    "models": "built-in",
    "draft": "",
    "heads": "",
    "draft_heads": "",
    "length": 64,
    "temperature": 0,
    "seed": 1,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "penalty": 1,
    "chat": "auto",
    "system": "",
    "stop": "",
}


@dataclass(frozen=True)
class Form:
    """The controls. `fields` are what `run_spec` takes, in its order."""

    fields: list[gr.components.Component]
    models: ModelControls
    run: gr.Button
    stop: gr.Button
    queue: gr.HTML
    open: gr.UploadButton
    save: gr.Button
    export: gr.Button
    copy: gr.Button
    link: gr.Textbox

    @property
    def lanes(self) -> gr.components.Component:
        """What races."""
        return self.fields[1]


@dataclass(frozen=True)
class Picked:
    """A lane as the lane editor holds it."""

    method: str
    settings: dict[str, JSON] = field(default_factory=dict)


def make_form(catalog: Catalog, allow_local: bool = True) -> Form:
    """Lay out the controls in the current column. `allow_local` False offers no servers: strangers may use the page."""
    first = DEFAULTS
    prompt = gr.Textbox(first["prompt"], label="Prompt", lines=4, max_lines=10, elem_id="prompt")
    with gr.Row(elem_id="examples"):
        for example in EXAMPLES:
            pick = gr.Button(example["name"], size="sm", min_width=0)
            pick.click(None, None, prompt, js=f"() => {json.dumps(example['prompt'])}", api_visibility="private")
    with gr.Row(elem_id="go"):
        run = gr.Button("Run", variant="primary", elem_id="run", min_width=0)
        halt = gr.Button("Stop", elem_id="stop", min_width=0)
        unfold = gr.Button("Settings", elem_id="settings", min_width=0)  # only narrow screens show it
        unfold.click(None, js="() => { document.body.classList.toggle('settings-open') }", api_visibility="private")
    tuned = tuned_settings()
    kinds = with_defaults((lane_kinds() if allow_local else METHODS).values(), tuned)
    own = {kind.id: kind.check({}) for kind in kinds}
    queue = gr.HTML(elem_id="queue")  # Gradio writes the place of a run that waits on it
    lanes = make_lane_editor([lane | {"settings": own[lane["method"]]} for lane in first["lane"]], kinds)
    if tuned is not None:
        gr.HTML(tuned_note(tuned), elem_id="tuned")
    models = make_model_controls(catalog)
    # No bounds: beyond them Gradio breaks the event off and names no field. What reads the form says what is wrong.
    with gr.Row(elem_id="sampling"):
        length = gr.Number(first["length"], label="Length", min_width=0)
        temperature = gr.Number(first["temperature"], label="Temperature", step=0.1, min_width=0)
        seed = gr.Number(first["seed"], label="Seed", min_width=0)
    with gr.Accordion("More sampling", open=False, elem_id="more"):
        with gr.Row():
            top_k = gr.Number(first["top_k"], label="Top-k (0: off)", min_width=0)
            top_p = gr.Number(first["top_p"], label="Top-p", step=0.05, min_width=0)
        with gr.Row():
            min_p = gr.Number(first["min_p"], label="Min-p", step=0.05, min_width=0)
            penalty = gr.Number(first["penalty"], label="Repetition penalty", step=0.05, min_width=0)
        chat = gr.Radio(["auto", "on", "off"], value=first["chat"], label="Chat template")
        system = gr.Textbox("", label="System prompt (with the chat template)", lines=1, max_lines=6, elem_id="system")
        ends = gr.Textbox("", label="Stop strings, one a line", lines=1, max_lines=4)
    with gr.Row(elem_id="trace"):
        opened = gr.UploadButton("Open trace", file_types=KINDS, size="sm", min_width=0)
        save = gr.Button("Save trace", size="sm", min_width=0)
        export = gr.Button("Save page", size="sm", min_width=0, elem_id="export")
        copy = gr.Button("Copy link", size="sm", min_width=0, elem_id="copy-link")
    link = gr.Textbox(
        label="Link to these settings", info="Copied where the browser allows it", visible=False, elem_id="link"
    )

    fields = [prompt, lanes, *models.named, length, temperature, seed, top_k, top_p, min_p, penalty, chat, system, ends]
    return Form(fields, models, run, halt, queue, opened, save, export, copy, link)


def run_spec(
    prompt: str,
    lanes: Sequence[Mapping[str, Any]],
    models: str | None,
    draft: str | None,
    heads: str | None,
    draft_heads: str | None,
    max_new_tokens: float | None,
    temperature: float | None,
    seed: float | None,
    top_k: float | None,
    top_p: float | None,
    min_p: float | None,
    repetition_penalty: float | None,
    chat: str,
    system: str,
    stop: str,
) -> RunSpec:
    """The run that the controls describe, in their order. Raises UserError for what cannot be run."""
    return RunSpec(
        prompt=_text("Prompt", prompt),
        lanes=tuple(
            _lane(lane, models, draft, heads, draft_heads) for lane in decode_value(list[Picked], lanes, "Lanes")
        ),
        temperature=_number("Temperature", temperature),
        top_k=whole("Top-k", top_k),
        top_p=_number("Top-p", top_p),
        min_p=_number("Min-p", min_p),
        repetition_penalty=_number("Repetition penalty", repetition_penalty),
        seed=whole("Seed", seed),
        max_new_tokens=whole("Length", max_new_tokens),
        chat={"on": True, "off": False}.get(_text("Chat template", chat)),
        system=_text("System prompt", system).strip() or None,
        stop=tuple(line for line in _text("Stop strings", stop).split("\n") if line),
        detail=True,  # the page shows what was said at every token; what that costs is in docs/LOG.md
    )


def _lane(lane: Picked, target: str | None, *partners: str | None) -> LaneSpec:
    """A lane on `target` and its `partners` (draft, heads, draft heads), of which empty ones are the family's own."""
    kind = get_kind(lane.method)
    draft, heads, draft_heads = model_names(*partners)
    settings = kind.check(lane.settings)
    return LaneSpec(kind.id, settings, _text("Models", target).strip(), draft, heads, draft_heads)


def model_names(*models: object) -> list[str | None]:
    """Models of the form as a lane takes them: None for the family's own. Raises UserError for what is no name."""
    return [decode_value(str, name or "", "A model").strip() or None for name in models]


def _text(name: str, value: str | None) -> str:
    return decode_value(str, value or "", name)


def _number(name: str, value: float | None) -> float:
    if value is None:
        raise UserError(f"{name} is empty. Enter a number.")
    return decode_value(float, value, name)


def whole(name: str, value: float | None) -> int:
    """What a number field holds. Raises UserError, which calls the field by its `name`, for what is no whole number."""
    number = _number(name, value)
    if number != int(number):
        raise UserError(f"{name} is {number:g}. Enter a whole number.")
    return int(number)
