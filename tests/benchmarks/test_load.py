"""The load test: three clients on the real page, and that it notices what must not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from benchmarks.load import Load, Ran, report
from playground.models.store import ModelStore
from playground.ui.page import build_page
from tests.serving import served


@pytest.fixture
def address() -> Iterator[str]:
    with served(build_page(ModelStore())) as address:
        yield address


@pytest.mark.slow
def test_three_clients_lose_nothing_and_get_their_own(address: str) -> None:
    load = Load(address, clients=3, seconds=4)
    load.measure()
    assert [ran.wrong for ran in load.runs if ran.wrong] == []
    assert all(ran.ended for ran in load.runs)
    assert {ran.client for ran in load.good} == {0, 1, 2}
    assert 1 <= load.most_at_once <= 2
    assert all(ran.position for ran in load.runs if ran.client == 1), "who speaks the page's protocol is told a place"
    assert f"| runs that ended well | {len(load.good)} |" in load.table()


def fine(clients: int = 10, each: int = 4) -> Load:
    """Everybody asks again when served, and is served in turn, a second each."""
    load = Load("", clients, 60.0, most_at_once=2, wall=60.0)
    for number in range(each):
        for client in range(clients):
            asked = float(number * clients + client)
            ran = Ran(
                client, number, "jacobi", asked, asked, asked + 0.1, asked + clients, asked + clients + 1, tokens=8
            )
            load.runs.append(ran)
    return load


def test_a_fair_load_has_no_violation() -> None:
    assert fine().violations() == []


def late(load: Load) -> None:
    load.runs[25].first = load.runs[25].asked + 21


def passed_over(load: Load) -> None:
    load.runs[25].first = load.runs[25].asked + 14


def crowded(load: Load) -> None:
    load.most_at_once = 3


def silent(load: Load) -> None:
    load.runs[25].position = None


def slow(load: Load) -> None:
    load.runs[25].position = load.runs[25].asked + 1.5


def lost(load: Load) -> None:
    load.runs[25] = replace(load.runs[25], tokens=0)


def another_s(load: Load) -> None:
    load.runs[25].wrong = "other tokens than when alone"


def nothing(load: Load) -> None:
    load.runs.clear()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (late, "is more than twice the median"),
        (passed_over, "served before one who had come earlier"),
        (crowded, "3 runs computed at once"),
        (silent, "never 1 times"),
        (slow, "late 1 times"),
        (lost, "never came to its end"),
        (another_s, "other tokens than when alone"),
        (nothing, "no run came to its end"),
    ],
)
def test_each_violation_is_told(spoil: Callable[[Load], None], said: str) -> None:
    load = fine()
    spoil(load)
    assert said in "\n".join(load.violations())


def test_the_exit_status_says_whether_all_held(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(Load, "measure", lambda self: self.__dict__.update(fine().__dict__))
    assert report("", 10, 60) == 0
    assert "All that must hold held." in capsys.readouterr().out
    monkeypatch.setattr(Load, "measure", lambda self: self.__dict__.update(fine().__dict__ | {"most_at_once": 3}))
    assert report("", 10, 60) == 1
    assert "- 3 runs computed at once" in capsys.readouterr().out
