"""The controls that say which models run, what of them is in memory, and which drafts fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import gradio as gr

from playground.models.catalog import Catalog
from playground.models.drafts import Draft
from playground.models.store import Resident


@dataclass(frozen=True)
class ModelControls:
    """Which models. `named` are target (or family), draft, heads and draft heads, in this order."""

    target: gr.Dropdown
    draft: gr.Dropdown
    heads: gr.Textbox
    draft_heads: gr.Textbox
    fetch: gr.Button
    find_drafts: gr.Button
    drafts: gr.HTML
    resident: gr.HTML

    @property
    def named(self) -> list[gr.components.Component]:
        return [self.target, self.draft, self.heads, self.draft_heads]


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
        fetch = gr.Button("Fetch to this machine", size="sm", elem_id="fetch")
        resident = gr.HTML(resident_table([]), elem_id="resident", apply_default_css=False)
        with gr.Accordion("Other models", open=False, elem_id="other-models"):
            draft = gr.Dropdown(
                [("the family’s own", "")],
                value="",
                allow_custom_value=True,
                label="Draft model",
                info="Here and below: a name, a hub id, a folder or a file",
                elem_id="draft",
            )
            find = gr.Button("Which drafts fit?", size="sm", elem_id="find-drafts")
            drafts = gr.HTML(" ", elem_id="drafts", apply_default_css=False)
            heads = _heads("Medusa heads of the target", "heads")
            draft_heads = _heads("Medusa heads of the draft", "draft-heads")
    return ModelControls(target, draft, heads, draft_heads, fetch, find, drafts, resident)


def _heads(label: str, name: str) -> gr.Textbox:
    return gr.Textbox("", label=label, placeholder="the family’s own", lines=1, elem_id=name)


def family_choices(catalog: Catalog) -> list[tuple[str, str]]:
    """The families as (label, id), those whose target is on this machine first."""
    choices = []
    for family in catalog.families.values():
        here = [entry.source.find() is not None for entry in family.entries]  # target first
        place = ", on this machine" if all(here) else ", partly on this machine" if here[0] else ""
        choices.append((not here[0], f"{family.title} · {family.id} · {family.hardware}{place}", family.id))
    return [(label, name) for _, label, name in sorted(choices, key=lambda choice: choice[0])]


def draft_choices(drafts: Iterable[Draft]) -> list[tuple[str, str]]:
    """What the draft may be chosen from, as (label, name)."""
    return [
        ("the family’s own", ""),
        *((f"{draft.name} · {draft.cost:.0%} of the cost", draft.name) for draft in drafts),
    ]


def draft_table(drafts: Sequence[Draft]) -> str:
    """HTML: the drafts that fit, cheapest first, each with what to expect of it."""
    if not drafts:
        return _sentence("No model of the catalog that is on this machine has this target’s tokenizer.")
    rows = [(d.name, f"{d.cost:.0%}", " ".join(finding.text for finding in d.findings) or "fits") for d in drafts]
    return _table(("Draft", "Cost of a pass*", "To know"), rows) + _sentence(
        "* of the target’s, estimated from the numbers of parameters"
    )


def resident_table(residents: Sequence[Resident]) -> str:
    """HTML: the models in memory, most recently used first."""
    if not residents:
        return _sentence("No model is in memory.")
    rows = [(r.name, r.dtype, r.device, _size(r.size), str(r.leases)) for r in reversed(residents)]
    return _table(("In memory", "", "", _size(sum(r.size for r in residents)), "runs"), rows)


def refusal(error: Exception) -> str:
    """HTML: why there is no table."""
    return _sentence(str(error))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _sentence(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
