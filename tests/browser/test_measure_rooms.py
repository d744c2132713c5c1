"""The rooms Measure and Advise: a benchmark is watched, stopped and gone on with; advice reaches the race."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from playground.analysis import bench as bench_module
from playground.analysis.benchmark import Answer
from playground.models.store import ModelStore
from playground.ui import measuring as measuring_module
from playground.ui import page as page_module
from tests.serving import served

pytestmark = pytest.mark.browser

SHARES = {"draft": 0.2, "forward": 0.7, "other": 0.1}


@pytest.fixture(scope="module")
def going_on() -> threading.Event:
    return threading.Event()


@pytest.fixture(scope="module")
def address(tmp_path_factory, going_on) -> Iterator[str]:
    """The page, with lanes that answer at once; the ninth answer waits until `going_on` is set."""

    class Quick:
        promise = "ids"
        answers = 0

        def __init__(self, name: str, *_: object) -> None:
            self.name, self.group = name, name.split()[0]

        def answer(self, prompt: str, earlier: object) -> Answer:
            Quick.answers += 1
            if Quick.answers == 9:
                going_on.wait(60)
            if self.group == "autoregressive":
                return Answer([1], [1, 2, 3, 4], "text", 2.0, 4, [], 0, {"draft": 0.0, "forward": 1.0, "other": 0.0})
            return Answer([1], [1, 2, 3, 4], "text", 1.0 if "k=4" in self.name else 4.0, 2, [1, 1], 4, SHARES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_module, "OwnLane", Quick)
        patch.setattr(bench_module, "judge", lambda *_: {})
        patch.setattr(measuring_module, "DRAW_SECONDS", 0.0)
        cache = tmp_path_factory.mktemp("cache")
        patch.setattr(measuring_module, "cache_dir", lambda: cache)
        with served(page_module.build_page(ModelStore())) as address:
            yield address


def enter(page, room: str) -> None:
    page.click(f".rooms [data-room={room}]")
    page.wait_for_function("room => document.body.dataset.room === room", arg=room)


def part(name: str) -> str:
    return f".measure [data-part={name}]"


def test_a_benchmark_is_watched_stopped_gone_on_with_and_saved(open_page, going_on, stop_heard, tmp_path):
    questions = tmp_path / "mine.jsonl"
    lines = [{"question_id": at, "category": "ab"[at % 2], "turns": ["Hello"]} for at in range(4)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    owner, other = open_page(), open_page(width=390, height=844, dark=True)
    enter(owner, "measure")
    assert not owner.is_visible("#desk")
    owner.wait_for_function("document.querySelector('.measure [data-part=form]').textContent.includes('draft-model')")

    for typed in ("", "0", "1.5"):
        owner.fill(part("rounds"), typed)
        owner.click(part("start"))
        owner.wait_for_selector(f"{part('notice')}:has-text('Rounds: ')")
    owner.fill(part("rounds"), "3")
    owner.set_input_files(part("file"), files=[{"name": "bad.jsonl", "mimeType": "text/plain", "buffer": b"{}"}])
    owner.click(part("start"))
    owner.wait_for_selector("text=Line 1 of bad.jsonl has no question_id")
    owner.set_input_files(part("file"), questions)
    owner.fill(part("typed"), "draft-model k=2|4")
    owner.fill(part("rounds"), "2")
    owner.uncheck(part("drop"))
    owner.click(part("start"))
    owner.wait_for_selector("text=round 1 of 2: 8 of 24 answers")
    assert owner.locator(".measure tbody tr").count() == 3
    assert owner.is_hidden(part("notice"))

    enter(other, "measure")
    other.wait_for_selector("text=round 1 of 2: 8 of 24 answers")
    other.click(part("stop"))
    other.wait_for_selector("text=only they can stop it")
    assert other.inner_text(part("stop")) == "Stop"
    assert other.evaluate("document.documentElement.scrollWidth") <= 390

    owner.click(part("stop"))
    owner.wait_for_selector(f"{part('stop')}:disabled:has-text('Stopping …')")
    assert stop_heard.wait(60)
    going_on.set()
    owner.wait_for_selector("text=Everything is kept")
    assert owner.inner_text(part("start")) == "Go on"
    owner.click(part("start"))
    owner.wait_for_selector("text=Finished.")
    rows = owner.locator(".measure tbody tr").all_inner_texts()
    assert "Slower:" in rows[1]
    assert "2.00 (2.00 – 2.00)" in rows[2]
    assert "Faster:" in rows[2]
    owner.wait_for_function("document.querySelector('.measure [data-part=speed]').data?.length === 2")
    owner.wait_for_function("document.querySelector('.measure [data-part=positions]').data?.length === 2")
    assert owner.locator(".measure [data-part=sweeps] figure").count() == 1
    with owner.expect_download() as saved:
        owner.click("text=as JSON")
    assert {row["lane"] for row in json.loads(saved.value.path().read_text())["rows"]} == {
        "autoregressive",
        "draft-model k=2",
        "draft-model k=4",
    }

    # The panel starts from the lane in focus, by mouse or keyboard.
    whatif = part("what-if")
    owner.wait_for_selector(f"{whatif} >> text=Starts from draft-model k=2")
    owner.focus(".measure tbody tr:nth-child(3) button")
    owner.keyboard.press("Enter")
    owner.wait_for_selector(f"{whatif} >> text=Measured with these settings: 2.00 times")
    owner.wait_for_function("document.querySelector('.measure [data-part=across]').data?.length === 2")
    owner.focus(f"{whatif} [data-name=alpha] input")
    owner.keyboard.press("End")
    owner.wait_for_selector(f"{whatif} >> text=Measured where the panel started: 2.00 times")
    assert owner.inner_text(f"{whatif} [data-name=alpha] output") == "1.00"

    enter(owner, "advise")
    owner.fill(".advise [data-part=draft]", "0.7")
    owner.click(".advise button[type=submit]")
    owner.wait_for_selector("text=What was measured in the room Measure counts here")
    assert "2.00× (draft-model k=4)" in owner.inner_text(".advise [data-part=methods]")


def test_advice_has_reasons_and_reaches_the_race(open_page):
    page = open_page(width=390, height=844)
    enter(page, "advise")
    page.fill(".advise [data-part=target]", "0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".advise [data-part=notice]:not([hidden])")
    for name, said in (("target", "Your model, billions of parameters: "), ("batch", "Sequences at a time: ")):
        typed = page.input_value(f".advise [data-part={name}]")
        page.fill(f".advise [data-part={name}]", "")
        page.keyboard.press("Enter")
        page.wait_for_selector(f".advise [data-part=notice]:has-text('{said}')")
        page.fill(f".advise [data-part={name}]", typed)
    page.fill(".advise [data-part=target]", "13")
    page.fill(".advise [data-part=draft]", "1.3")
    page.keyboard.press("Enter")
    page.wait_for_selector(".advise .evidence >> text=formula")
    assert page.is_hidden(".advise [data-part=notice]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click(".advise button:has-text('Race with Lookahead')")
    page.wait_for_function("document.body.dataset.room === 'race'")
    page.wait_for_function("document.querySelector('.lane-form.lane-2 select.method')?.value === 'lookahead'")
