"""The controls that say which models run."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from playground.models.catalog import Catalog


@dataclass(frozen=True)
class ModelControls:
    """Which models. `named` are target (or family), draft, heads and draft heads, in this order."""

    named: list[gr.components.Component]


def make_model_controls(catalog: Catalog) -> ModelControls:
    """Lay them out in the current column."""
    with gr.Column(elem_id="model-controls"):
        target = gr.Dropdown(
            family_choices(catalog),
            value="built-in",
            allow_custom_value=True,
            label="Models",
            info="A family, a hub id (owner/name), a folder or a GGUF file",
            elem_id="models",
        )
        with gr.Accordion("Other models", open=False, elem_id="other-models"):
            gr.Markdown("Names, hub ids, folders or files. Empty: the family’s own.")
            draft = gr.Textbox("", label="Draft model", lines=1, elem_id="draft")
            heads = gr.Textbox("", label="Medusa heads of the target", lines=1, elem_id="heads")
            draft_heads = gr.Textbox("", label="Medusa heads of the draft", lines=1, elem_id="draft-heads")
    return ModelControls([target, draft, heads, draft_heads])


def family_choices(catalog: Catalog) -> list[tuple[str, str]]:
    """The families as (label, id), those whose target is on this machine first."""
    choices = []
    for family in catalog.families.values():
        here = [entry.source.find() is not None for entry in family.entries]  # target first
        place = ", on this machine" if all(here) else ", partly on this machine" if here[0] else ""
        choices.append((not here[0], f"{family.title} · {family.id} · {family.hardware}{place}", family.id))
    return [(label, name) for _, label, name in sorted(choices, key=lambda choice: choice[0])]
