"""The room that answers which method to use, with reasons, and puts the answer into the race form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from playground.analysis.advisor import Advice, Situation, advise, published, read_measured
from playground.analysis.bench import BASELINE
from playground.analysis.report import Row
from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.methods import METHODS, NEEDS, get_method
from playground.models.catalog import Catalog
from playground.ui.components import make_advise
from playground.ui.form import Form, model_names
from playground.ui.measuring import Measuring


@dataclass(frozen=True)
class _Picked:
    """A piece of advice as the room sends it back."""

    method: str
    settings: dict[str, JSON] = field(default_factory=dict)


def make_advise_room(measuring: Measuring, catalog: Catalog, form: Form, allow_local: bool) -> gr.HTML:
    """The room. Its value is JSON: advice and table, or a notice; `entered` sends the visitor to the race."""
    room = make_advise()

    def answer(asked: gr.EventData) -> str:
        try:
            return json.dumps(give_advice(asked._data, measuring))
        except UserError as error:
            return json.dumps({"notice": str(error)})

    def take(
        target: object, draft: object, heads: object, draft_heads: object, asked: gr.EventData
    ) -> Iterator[tuple[object, str]]:
        try:
            lanes = advised_lanes(asked._data, model_names(target, draft, heads, draft_heads), catalog, allow_local)
        except UserError as error:
            yield gr.skip(), json.dumps({"notice": str(error)})
            return
        yield lanes, json.dumps({"entered": True})
        yield gr.skip(), "{}"  # so that the same advice can be taken again

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    room.submit(answer, None, room, **quiet)
    room.apply(take, form.models.named, [form.lanes, room], **quiet)
    return room


def give_advice(asked: object, measuring: Measuring) -> dict[str, JSON]:
    """Advice, table of methods, and the models of the benchmark that both rest on. Raises UserError for no question."""
    have = decode_value(Situation, asked, "The question")
    rows, where = _measured(measuring)
    advice: list[JSON] = [_told(one) for one in advise(have, rows)]
    return {"advice": advice, "table": _table(rows), "measured_on": where}


def advised_lanes(
    asked: object, models: list[str | None], catalog: Catalog, allow_local: bool
) -> list[dict[str, object]]:
    """The advised lane beside the baseline, for the race form. Raises UserError where its models cannot run it."""
    picked = decode_value(_Picked, asked, "The advice")
    method = get_method(picked.method)
    settings, target = method.check(picked.settings), models[0] or ""
    parts = catalog.parts(target, models[1], models[2], models[3], "draft_heads" in method.needs, allow_local)
    for need in sorted(method.needs):
        if getattr(parts, need) is None:
            raise UserError(f"{method.title} {NEEDS[need]} {target!r}, chosen in Race, comes without.")
    lanes = {BASELINE: METHODS[BASELINE].check({}), method.id: settings}
    return [{"method": name, "settings": given} for name, given in lanes.items()]


def _measured(measuring: Measuring) -> tuple[dict[str, Row], str]:
    """The best rows of the finished benchmark by method, and the models that they are about."""
    file = measuring.measured()
    if file is None:
        return {}, ""
    return read_measured(file), measuring.facts.get("models", "")


def _told(advice: Advice) -> dict[str, JSON]:
    method = get_method(advice.method)
    uses = "nothing" if not method.needs else "draft_heads" if "draft_heads" in method.needs else min(method.needs)
    reasons: list[JSON] = [
        {"text": one.text, "values": {**one.values}, "evidence": one.evidence.replace(" ", "-")}
        for one in advice.reasons
    ]
    settings: dict[str, JSON] = {**advice.settings}
    return {"method": method.id, "title": method.title, "uses": uses, "settings": settings, "reasons": reasons}


def _table(rows: Mapping[str, Row]) -> list[JSON]:
    found: list[JSON] = []
    for name, known in published().items():
        row = rows.get(name)
        over = row.speedups.get(BASELINE) if row is not None else None
        found.append(
            {
                "title": get_method(name).title,
                "measured": {"speedup": over.median, "lane": row.lane}
                if row is not None and over is not None
                else None,
                "published": [*known.speedup],
                "training": known.training,
                "extra": known.extra,
                "source": known.source,
                "lossy": METHODS[name].may_lose,
            }
        )
    return found
