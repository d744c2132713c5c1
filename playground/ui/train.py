"""The room in which a visitor trains Medusa heads and takes them into a race."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from playground.decoding.codec import decode_value
from playground.errors import UserError
from playground.training.medusa import VARIANTS
from playground.training.workshop import MOST_HEADS, Order, Workshop, trained_name
from playground.ui.components import make_train

ENTER_RACE = "() => document.querySelector('.rooms [data-room=race]').click()"


def make_train_room(workshop: Workshop, target: gr.Dropdown, heads: gr.Textbox) -> gr.HTML:
    """The room. Its value is the workshop's state as JSON; heads in it can be put into the fields of the form."""
    room = make_train(VARIANTS, MOST_HEADS)

    def told(visitor: str, act: Callable[[], None]) -> Iterator[str]:
        try:
            act()
        except UserError as error:
            yield json.dumps(workshop.view(visitor) | {"notice": str(error)})
        for state in workshop.watch(visitor):
            yield json.dumps(state)

    def start(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)

        def act() -> None:
            wanted = dict(asked._data)
            afresh = wanted.pop("afresh", False) is True
            workshop.start(decode_value(Order, wanted, "The training"), visitor, afresh)

        yield from told(visitor, act)

    def stop(request: gr.Request) -> Iterator[str]:
        visitor = str(request.session_hash)
        yield from told(visitor, lambda: workshop.stop(visitor))

    def look(request: gr.Request) -> Iterator[str]:
        yield from told(str(request.session_hash), lambda: None)

    def use(asked: gr.EventData) -> tuple[object, object]:
        family = asked._data.get("family")
        known = family in dict(workshop.families())
        return (family, trained_name(family)) if known else (gr.skip(), gr.skip())

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    room.submit(start, None, room, **quiet)
    room.stop(stop, None, room, **quiet)
    room.tick(look, None, room, **quiet)
    room.apply(use, None, [target, heads], **quiet).then(None, js=ENTER_RACE, api_visibility="private")
    return room
