"""The Train room: what the workshop tells is drawn, two visitors get along, and fresh heads reach the race."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.models.medusa_trees import OwnTree
from playground.models.store import ModelStore
from playground.training import workshop as workshop_module
from playground.training.gathering import Judging, Learned, Wrote
from playground.training.make_heads import Event, Made
from playground.training.prompts import Prompts
from playground.training.self_distillation import TextCount
from playground.training.tree_search import FoundTree
from playground.training.trial import Trial
from playground.ui import page as page_module
from tests.serving import served

pytestmark = pytest.mark.browser

TRAINED = Made(
    Path(),
    FoundTree(OwnTree([[0], [0, 0], [1]], 3), 1.9),
    {"greedy": [[0.5, 0.1, *[0.0] * 8]] * 2},
    None,
    Trial(8, 384, 2.0, 1.75, 1.2),
)


@pytest.fixture(scope="module")
def going_on() -> threading.Event:
    return threading.Event()


@pytest.fixture(scope="module")
def address(tmp_path_factory, going_on) -> Iterator[str]:
    """The page, with a training that is quick and waits in its middle until `going_on` is set."""

    def make_heads(target: object, prompts: object, recipe: object, work: Path, out: Path) -> Iterator[Event]:
        yield Wrote(TextCount(kept=32), 64)
        for step in range(40):
            line = {"step": step, "loss": 9 - step / 10}
            if step % 10 == 9:
                line |= {"held_out_loss": 9 - step / 12, "accuracy_1": step / 100, "accuracy_2": step / 200}
            yield Learned(line, 40)
            if step == 20:
                going_on.wait(60)
        yield Judging()
        save_heads(MedusaHeads(256, 2), out, "built-in-target", TRAINED.tree.own)
        yield TRAINED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workshop_module, "make_heads", make_heads)
        patch.setattr(workshop_module, "_beginnings", lambda model: Prompts([[1]], [[2]]))
        cache = tmp_path_factory.mktemp("cache")
        patch.setattr(workshop_module, "cache_dir", lambda: cache)
        patch.setattr(workshop_module, "read_log", lambda folder: [])
        with served(page_module.build_page(ModelStore())) as address:
            yield address


def enter(page) -> None:
    page.click(".rooms [data-room=train]")
    page.wait_for_function("document.querySelector('.train [data-part=family]').value === 'built-in'")


def test_a_training_is_watched_by_two_and_its_heads_race(open_page, going_on):
    owner, other = open_page(), open_page(width=390, height=844, dark=True)
    enter(owner)
    assert not owner.is_visible("#desk")
    owner.click(".train [data-part=start]")
    owner.wait_for_selector("text=The heads learn: step 21 of 40")
    owner.wait_for_function("document.querySelector('.train [data-part=loss]').data?.[0]?.y.length === 21")
    shares = "document.querySelector('.train [data-part=accuracy]').data.map((line) => line.y)"
    owner.wait_for_function(f"{shares}.length === 2")
    assert owner.evaluate(shares) == [[0.09, 0.19], [0.045, 0.095]]

    enter(other)
    other.wait_for_selector("text=The heads learn: step 21 of 40")
    other.click(".train [data-part=stop]")
    other.wait_for_selector("text=only they can stop it")
    assert other.evaluate("document.documentElement.scrollWidth") <= 390

    going_on.set()
    for page in (owner, other):
        page.wait_for_selector("text=1.75 tokens per pass of the target")
        assert not page.is_visible(".train progress")
    owner.click("text=Use these heads now")
    owner.wait_for_function("document.body.dataset.room === 'race'")
    owner.wait_for_selector(".lane-2 select.method")
    owner.wait_for_function("document.querySelector('.lane-form.lane-2 select.method').value === 'medusa'")
    owner.click("#other-models button >> nth=0")
    owner.wait_for_function("document.querySelector('#heads textarea')?.value === 'built-in-trained-here'")


def test_a_training_that_is_stopped_can_go_on(open_page, going_on, stop_heard):
    going_on.clear()
    page = open_page()
    enter(page)
    page.fill(".train [data-part=heads]", "1.5")
    page.click(".train [data-part=start]")
    page.wait_for_selector(".train [data-part=notice]:has-text('Heads: ')")
    page.fill(".train [data-part=heads]", "2")
    page.click(".train [data-part=start]")
    page.wait_for_selector("text=The heads learn: step 21 of 40")
    page.click(".train [data-part=stop]")
    page.wait_for_selector(".train [data-part=stop]:disabled:has-text('Stopping …')")
    assert stop_heard.wait(60)
    going_on.set()
    page.wait_for_selector("text=Everything is kept")
    assert page.inner_text(".train [data-part=start]") == "Go on"
    page.click(".train [data-part=start]")
    page.wait_for_selector("text=1.75 tokens per pass of the target")
