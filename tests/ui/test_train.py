"""The Train room's orders, as the page takes them."""

from __future__ import annotations

import json
from types import SimpleNamespace

from playground.models.store import ModelStore
from playground.ui.page import build_page


def test_strangers_train_for_some_minutes_only() -> None:
    page = build_page(ModelStore(limit=0), allow_local=False)
    (start,) = (block.fn for block in page.fns.values() if block.name == "start_training")
    asked = SimpleNamespace(_data={"family": "built-in", "minutes": 6})
    *_, last = start(asked, SimpleNamespace(session_hash="me"))
    told = json.loads(last)
    assert told["notice"] == "That would be 6.0 minutes of training; here at most 5 are allowed. Ask for fewer."
    assert told["phase"] == "idle"
