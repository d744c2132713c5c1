"""The room in which a visitor measures lanes against each other, and asks what other settings would bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Annotated, Any

import gradio as gr

from playground.decoding.codec import JSON, Between, decode_value
from playground.errors import UserError
from playground.jobs import Jobs
from playground.run import get_kind
from playground.ui import pass_cost
from playground.ui.components import make_measure
from playground.ui.form import Form, Picked, model_names
from playground.ui.measuring import KIND, Measuring, Order
from playground.ui.pass_cost import PassCost
from playground.ui.what_if import what_if

LONGEST_LANE = 200  # characters
LONGEST_NAME = 80
MOST_SETTINGS = 64  # in all


@dataclass(frozen=True)
class _Asked:
    """What the room sends. `lanes` are typed, a lane a line; empty for those of the race form."""

    lanes: str = ""
    name: str = ""
    text: str | None = None
    rounds: Annotated[int, Between(1)] = 3
    limit: Annotated[int, Between(1)] | None = None
    length: Annotated[int, Between(1)] = 64
    reference: bool = False
    drop: bool = False
    afresh: bool = False


DROP_BELOW = 0.8  # of the fastest setting's speed, where slow ones are dropped


def make_measure_room(measuring: Measuring, cost: PassCost, jobs: Jobs, form: Form) -> gr.HTML:
    """The room. Its value is JSON: the benchmark's state, that of the pass costs, and lanes and models of the form."""
    shown = [form.lanes, *form.models.named]

    def report(kind: object) -> dict[str, str]:
        """A finished report as text, for the browser to save; what is wrong, as an error."""
        try:
            return {"text": measuring.report(str(_only(kind)))}
        except UserError as error:
            return {"error": str(error)}

    def expect(asked: object) -> dict[str, JSON]:
        """What other settings would bring; what is wrong, as an error."""
        try:
            samples, rows, target = measuring.samples()
            return what_if(_only(asked), samples, rows, cost.curve(target))
        except UserError as error:
            return {"error": str(error)}

    room = make_measure(asdict(measuring.limits), [report, expect])

    def told(visitor: str, act: Callable[[], None] | None = None, **more: JSON) -> Iterator[str]:
        """What there is to see after a visitor's act, with what was wrong with it."""
        if act is not None:
            more["notice"] = ""
            try:
                act()
            except UserError as error:
                more["notice"] = str(error)
        kind = pass_cost.KIND if jobs.busy(pass_cost.KIND) else KIND
        for state in jobs.watch(kind, visitor, lambda: measuring.view(visitor) | {"cost": cost.view()}):
            yield json.dumps(state | more)

    def start_measuring(
        lanes: object,
        target: object,
        draft: object,
        heads: object,
        draft_heads: object,
        asked: gr.EventData,
        request: gr.Request,
    ) -> Iterator[str]:
        visitor = str(request.session_hash)

        def act() -> None:
            order, text, afresh = read_order(asked._data, lanes, model_names(target, draft, heads, draft_heads))
            measuring.start(order, text, visitor, afresh)

        yield from told(visitor, act)

    def stop_measuring(request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)

        def act() -> None:
            measuring.stop(visitor)
            cost.stop(visitor)

        yield from told(visitor, act)

    def look_at_measuring(
        lanes: object, target: object, draft: object, heads: object, draft_heads: object, request: gr.Request
    ) -> Iterator[str]:
        try:
            models = [name for name in model_names(target, draft, heads, draft_heads) if name]
            now: dict[str, JSON] = {"models": [*models], "lanes": [*form_lanes(lanes)]}
        except UserError as error:
            now = {"error": str(error)}
        yield from told(str(request.session_hash), form=now)

    def measure_cost(target: object, request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)
        yield from told(visitor, lambda: cost.start(model_names(target)[0] or "", visitor))

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    room.submit(start_measuring, shown, room, **quiet)
    room.stop(stop_measuring, None, room, **quiet)
    room.tick(look_at_measuring, shown, room, **quiet)
    room.apply(measure_cost, form.models.target, room, **quiet)
    return room


def read_order(asked: object, lanes: object, models: list[str | None]) -> tuple[Order, str | None, bool]:
    """What to measure, the uploaded file's lines, and whether to begin afresh. `lanes` and `models` are the form's.

    Raises UserError for what is no order.
    """
    wanted = decode_value(_Asked, asked, "The benchmark")
    order = Order(
        typed_lanes(wanted.lanes) or form_lanes(lanes),
        models[0] or "",
        models[1],
        models[2],
        models[3],
        questions=wanted.name[:LONGEST_NAME],
        rounds=wanted.rounds,
        limit=wanted.limit,
        max_new_tokens=wanted.length,
        reference=wanted.reference,
        hopeless=DROP_BELOW if wanted.drop else 0.0,
    )
    if wanted.name and wanted.text is None:
        raise UserError(f"The question file {order.questions!r} came without its lines. Choose it again.")
    return order, wanted.text if wanted.name else None, wanted.afresh


def typed_lanes(text: str) -> list[str]:
    """The lanes that were typed, one a line. Raises UserError for more than anybody measures."""
    lanes = [line.strip() for line in text.splitlines() if line.strip()]
    for lane in lanes:
        settings = prod(pair.count("|") + 1 for pair in lane.split())
        if len(lane) > LONGEST_LANE or settings > MOST_SETTINGS:
            raise UserError(
                f"The lane {lane[:40]!r} is too much at once: a lane is at most {LONGEST_LANE} characters long and "
                f"stands for at most {MOST_SETTINGS} settings."
            )
    if len(lanes) > MOST_SETTINGS:
        raise UserError(f"There are {len(lanes)} lanes; type at most {MOST_SETTINGS}.")
    return lanes


def form_lanes(lanes: object) -> list[str]:
    """The lanes of the race form as they are typed: a method and the settings that differ from its defaults."""
    found = []
    for lane in decode_value(list[Picked], lanes, "Lanes"):
        kind = get_kind(lane.method)
        usual = kind.check({})
        pairs = [f"{name}={value}" for name, value in kind.check(lane.settings).items() if value != usual[name]]
        if any(len(pair.split()) != 1 or "|" in pair for pair in pairs):
            raise UserError(f"A setting of {kind.title} holds a blank or a |: such a lane cannot be measured here.")
        found.append(" ".join([lane.method, *pairs]))
    return list(dict.fromkeys(found))


def _only(given: object) -> object:
    """The one argument of a call from the browser, which may come as a list."""
    return given[0] if isinstance(given, list) and given else given
