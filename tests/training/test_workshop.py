"""One training at a time, in the background; who leaves loses nothing, and what was learned has a name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from playground import jobs
from playground.errors import UserError
from playground.models.catalog import Catalog, Entry, Family
from playground.models.medusa_heads import load_heads
from playground.models.sources import Folder
from playground.models.store import ModelStore
from playground.training import workshop as workshop_module
from playground.training.workshop import Order, Workshop, thinned

ORDER = Order("tiny", minutes=0.05, heads=2)


@pytest.fixture(scope="module")
def catalog(talkative: Path) -> Catalog:
    folder = talkative
    entry = Entry("tiny", Folder(folder), None, "", None, False, True)
    family = Family("tiny", "Tiny", "", "laptop", entry)
    absent = Family("absent", "Absent", "", "laptop", replace(entry, source=Folder(folder / "nowhere")))
    return Catalog({}, {}, {"tiny": family, "absent": absent})


@pytest.fixture
def workshop(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    monkeypatch.setattr(workshop_module, "PROMPTS", 40)
    monkeypatch.setattr(workshop_module, "CODE_PROMPTS", 10)
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.01)
    shop = Workshop(ModelStore(), catalog, tmp_path / "trained")
    yield shop
    shop.stop("owner")
    ended(shop)


def ended(shop: Workshop, visitor: str = "owner") -> dict[str, object]:
    *_, last = shop.watch(visitor)
    return last


def until(shop: Workshop, phase: str) -> None:
    for state in shop.watch("owner"):
        if state["phase"] == phase:
            return
    raise AssertionError(f"it ended before {phase}")


def test_heads_are_trained_watched_and_found_by_their_name(workshop: Workshop) -> None:
    assert ended(workshop)["phase"] == "idle"
    workshop.start(ORDER, "owner")
    states = list(workshop.watch("owner"))
    phases = list(dict.fromkeys(state["phase"] for state in states))
    assert phases[-1] == "done"
    assert set(phases) <= {"loading", "writing", "learning", "judging", "done"}
    last = states[-1]
    assert last["mine"]
    assert last["trained"] == {"tiny": "tiny-trained-here"}
    assert last["paused"] == {}
    assert len(last["checks"][0]) == 2 + ORDER.heads
    assert 0 < last["loss"][-1][0] <= last["of"]
    result = last["result"]
    assert set(result) == {"nodes", "expected", "accuracy", "trial"}
    assert all(len(tops) == 4 for tops in result["accuracy"]["greedy"])
    folder = workshop.catalog.source("tiny-trained-here", allow_local=False).find()
    assert load_heads(folder).heads.num_heads == ORDER.heads


def test_a_second_visitor_gets_a_sentence_and_may_watch(workshop: Workshop) -> None:
    workshop.start(ORDER, "owner")
    with pytest.raises(UserError, match="for tiny are being trained, and one such job at a time"):
        workshop.start(ORDER, "other")
    assert not next(workshop.watch("other"))["mine"]
    with pytest.raises(UserError, match="only they can stop it"):
        workshop.stop("other")
    workshop.stop("owner")
    assert ended(workshop)["phase"] == "paused"
    workshop.start(ORDER, "other")
    workshop.stop("other")
    ended(workshop)


def test_who_has_left_can_be_stopped_for_and_loses_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.start(ORDER, "owner")
    until(workshop, "learning")  # and looks no more
    monkeypatch.setattr(jobs, "GONE_SECONDS", 0.0)
    time.sleep(0.01)
    workshop.stop("other")
    last = ended(workshop, "other")
    assert last["phase"] == "paused"
    assert last["paused"] == {"tiny": {"family": "tiny", "minutes": 0.05, "heads": 2, "variant": "own-vocabulary"}}


def test_what_was_paused_goes_on_and_can_be_begun_afresh(workshop: Workshop) -> None:
    workshop.start(ORDER, "owner")
    until(workshop, "learning")
    workshop.stop("owner")
    before = ended(workshop)
    assert before["phase"] == "paused"
    workshop.start(replace(ORDER, heads=1), "owner")  # what was begun decides
    until(workshop, "learning")
    after = workshop.view("owner")
    assert after["loss"][: len(before["loss"])] == before["loss"]
    assert after["order"]["heads"] == 2
    workshop.stop("owner")
    ended(workshop)
    workshop.start(replace(ORDER, heads=1), "owner", afresh=True)
    assert ended(workshop)["order"]["heads"] == 1


def test_a_failure_is_told(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise UserError("There is no text.")

    monkeypatch.setattr(workshop_module, "make_heads", fail)
    workshop.start(ORDER, "owner")
    last = ended(workshop)
    assert (last["phase"], last["error"]) == ("failed", "There is no text.")


def test_orders_that_cannot_be_are_sentences(workshop: Workshop) -> None:
    for settings, said in (({"minutes": 999}, "minutes"), ({"heads": 9}, "heads"), ({"variant": "x"}, "shared-head")):
        with pytest.raises(UserError, match=said):
            Order("tiny", **settings)
    with pytest.raises(UserError, match="Fetch it"):
        workshop.start(Order("absent"), "owner")
    assert workshop.families() == [("tiny", "Tiny")]


def test_points_are_thinned_from_the_end() -> None:
    points = [[float(i), 0.0] for i in range(1000)]
    few = thinned(points, 300)
    assert len(few) <= 300
    assert few[-1] == points[-1]
    assert thinned(points[:5], 300) == points[:5]
    assert thinned([], 300) == []
