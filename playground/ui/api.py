"""What programs may ask of the page: `generate`, `race` and `models`. Everything else on it is its own business.

Streams are JSON as text: of other values Gradio sends differences, which its client puts together wrongly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import gradio as gr
from gradio.events import api

from playground.decoding.codec import decode_value
from playground.errors import UserError
from playground.models.catalog import Catalog
from playground.run import RunSpec
from playground.ui import wire
from playground.ui.form import run_spec
from playground.ui.limits import OWN_MACHINE, Limits
from playground.ui.serving import Health
from playground.ui.visits import Visit, Visits
from playground.ui.zero import gpu, run_seconds

Answer = dict[str, Any]


class Page(gr.Blocks):
    """Blocks that answer a call with too few values by a sentence; values with a default may be left out.

    `limits` and `health` are what its server is to keep and to tell.
    """

    limits: Limits = OWN_MACHINE
    health: Health = dict

    def validate_inputs(self, block_fn: Any, inputs: list[Any]) -> None:
        """Fill up `inputs` with defaults. Raises gr.Error where there are none, or the call is not a public one."""
        wanted, came = block_fn.inputs, len(inputs)
        if came >= len(wanted):
            return
        if block_fn.api_visibility != "public":
            raise gr.Error(
                f"This call came with {came} of {len(wanted)} values. It belongs to the page; programs call generate, "
                "race and models.",
                print_exception=False,
            )
        inputs += [block.value for block in wanted[came:]]


def add_api(visits: Visits, catalog: Catalog, runs_at_once: int) -> None:
    """Give the page being built its public calls."""

    def generate(
        request: gr.Request,
        prompt: str,
        method: str = "draft-model",
        settings: dict[str, Any] | None = None,
        models: str = "built-in",
        draft: str = "",
        heads: str = "",
        draft_heads: str = "",
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 1,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        chat: str = "auto",
        system: str = "",
        stop: list[str] | None = None,
    ) -> Iterator[str]:
        """Continue a prompt. Streams JSON: {"text" so far, new "steps", "done"}; the last has the "summary" too."""
        lanes = [{"method": method, "settings": settings or {}}]
        partners = (models, draft, heads, draft_heads)
        rest = (temperature, seed, top_k, top_p, min_p, repetition_penalty, chat, system, "")
        for answer in _race(request, stop, prompt, lanes, *partners, max_new_tokens, *rest):
            (lane,) = answer.pop("lanes")
            yield json.dumps({**lane, **answer, "steps": [step for _, step in answer["steps"]]})

    def race(
        request: gr.Request,
        prompt: str,
        lanes: list[dict[str, Any]],
        models: str = "built-in",
        draft: str = "",
        heads: str = "",
        draft_heads: str = "",
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 1,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        chat: str = "auto",
        system: str = "",
        stop: list[str] | None = None,
    ) -> Iterator[str]:
        """One prompt through several lanes, each {"method": id, "settings": {name: value}}.

        Streams JSON: {"lanes": [{"title", "text" so far}], new "steps" as [lane, step], "done"}; in the last, every
        lane has its "summary".
        """
        partners = (models, draft, heads, draft_heads)
        rest = (temperature, seed, top_k, top_p, min_p, repetition_penalty, chat, system, "")
        for answer in _race(request, stop, prompt, lanes, *partners, max_new_tokens, *rest):
            yield json.dumps(answer)

    def models() -> list[Answer]:
        """The families of models, and what of them is on the machine that answers."""
        return [
            {
                "id": family.id,
                "title": family.title,
                "about": family.about,
                "hardware": family.hardware,
                "models": [
                    {"id": entry.id, "licence": entry.licence, "here": entry.source.find() is not None}
                    for entry in family.entries
                ],
            }
            for family in catalog.families.values()
        ]

    def _race(request: gr.Request, stop: list[str] | None, *controls: Any) -> Iterator[Answer]:
        with _sentences():
            spec = replace(run_spec(*controls), stop=tuple(decode_value(list[str], stop or [], "stop")))
            with visits.admitted(spec, str(request.session_hash)):
                yield from answer_on_gpu(spec)

    def answer(spec: RunSpec) -> Iterator[Answer]:
        with _sentences(), visits.open(spec) as visit:
            yield from _answers(visit)

    answer_on_gpu = gpu(answer, run_seconds)

    api(generate, concurrency_limit=runs_at_once, concurrency_id="runs")
    api(race, concurrency_limit=runs_at_once, concurrency_id="runs")
    api(models)


def _answers(visit: Visit) -> Iterator[Answer]:
    run = visit.run
    texts = [""] * len(run.trace.lanes)

    def answer(steps: list[Any], **rest: Any) -> Answer:
        lanes = [{"title": lane.title, "text": text} for lane, text in zip(run.trace.lanes, texts, strict=True)]
        return {"lanes": lanes, "steps": steps, **rest}

    for batch in wire.batches(visit.live()):
        for lane, step in batch:
            if step.row == 0:
                texts[lane] += "".join(token.text for token in step.emitted)
        yield answer([[lane, asdict(step)] for lane, step in batch], done=False)
    last = answer([], done=True)
    for at, lane in enumerate(last["lanes"]):
        lane |= {"summary": asdict(run.summary(at)), "lossless": run.trace.lanes[at].lossless}
    yield last


@contextmanager
def _sentences() -> Iterator[None]:
    """A UserError as the error that Gradio passes on with its text, and does not print: it may quote what was asked."""
    try:
        yield
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from error
