"""The room in which a visitor trains Medusa heads and takes them into a race."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.methods import METHODS
from playground.training.medusa import VARIANTS
from playground.training.workshop import MOST_HEADS, Order, Workshop, trained_name
from playground.ui.components import make_train
from playground.ui.form import Form
from playground.ui.limits import Limits, at_most

LANES = ("autoregressive", "medusa")  # of a race with fresh heads
ENTER_RACE = "() => document.querySelector('.rooms [data-room=race]').click()"


def make_train_room(workshop: Workshop, form: Form, limits: Limits) -> gr.HTML:
    """The room. Its value is the workshop's state as JSON; its finished heads can be put into the form."""
    room = make_train(VARIANTS, MOST_HEADS)

    def told(visitor: str, act: Callable[[], None] | None = None) -> Iterator[str]:
        """What there is to see after a visitor's act, with what was wrong with it."""
        notice = ""
        try:
            if act is not None:
                act()
        except UserError as error:
            notice = str(error)
        for state in workshop.watch(visitor):
            yield json.dumps(state | ({} if act is None else {"notice": notice}))

    def start_training(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)

        def act() -> None:
            wanted = decode_value(dict[str, JSON], asked._data, "The training")
            afresh = wanted.pop("afresh", False) is True
            order = decode_value(Order, wanted, "The training")
            at_most(order.minutes, limits.minutes, "minutes of training")
            workshop.start(order, visitor, afresh)

        yield from told(visitor, act)

    def stop_training(request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)
        yield from told(visitor, lambda: workshop.stop(visitor))

    def look_at_training(request: gr.Request) -> Iterator[str]:
        yield from told(str(request.session_hash))

    def use_heads(asked: gr.EventData) -> tuple[object, object, object]:
        family = asked._data.get("family") if isinstance(asked._data, dict) else None
        if family not in list(dict(workshop.families())):
            return gr.skip(), gr.skip(), gr.skip()
        lanes = [{"method": name, "settings": METHODS[name].check({})} for name in LANES]
        return family, trained_name(family), lanes

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    room.submit(start_training, None, room, **quiet)
    room.stop(stop_training, None, room, **quiet)
    room.tick(look_at_training, None, room, **quiet)
    filled = [form.models.target, form.models.heads, form.lanes]
    room.apply(use_heads, None, filled, **quiet).then(None, js=ENTER_RACE, api_visibility="private")
    return room
