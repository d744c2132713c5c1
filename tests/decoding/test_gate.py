"""One at a time, in the order of asking."""

from __future__ import annotations

import threading
import time

import pytest

from playground.decoding.gate import Gate


def waiting(gate: Gate, many: int) -> None:
    """Return once `many` threads stand in the queue, the holder counted."""
    while len(gate._queue) < many:
        time.sleep(0.001)


def test_whoever_asked_first_goes_first() -> None:
    gate, order, threads = Gate(), [], []

    def run(name: int) -> None:
        with gate:
            order.append(name)

    with gate:
        for name in range(8):
            threads.append(threading.Thread(target=run, args=(name,)))
            threads[-1].start()
            waiting(gate, name + 2)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_a_holder_that_asks_again_at_once_stands_behind_the_others() -> None:
    gate, order = Gate(), []

    def run() -> None:
        with gate:
            order.append("other")

    other = threading.Thread(target=run)
    with gate:
        other.start()
        waiting(gate, 2)
    with gate:
        order.append("again")
    other.join()
    assert order == ["other", "again"]


def test_two_never_hold_it_together() -> None:
    gate, inside, most = Gate(), 0, 0

    def run() -> None:
        nonlocal inside, most
        for _ in range(50):
            with gate:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert not gate._queue


def test_an_error_inside_lets_the_next_one_in() -> None:
    gate = Gate()
    with pytest.raises(RuntimeError), gate:
        raise RuntimeError
    with gate:
        pass
    assert not gate._queue


def test_whoever_gives_up_waiting_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate._changed, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.__enter__()
    monkeypatch.undo()
    with gate:
        pass
