"""The earliest ending wins, wherever in a block it lies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.decoding.stopping import Ending

EOS = 9


def first_at(wanted: int):
    """A stopping rule that ends at the first occurrence of a token."""

    def stop(ids: Sequence[int], new: int) -> tuple[int, str] | None:
        for at in range(len(ids) - new, len(ids)):
            if ids[at] == wanted:
                return at + 1, "stop"
        return None

    return stop


@given(st.lists(st.lists(st.integers(5, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.integers(1, 12))
def test_a_run_ends_at_the_earliest_of_eos_stop_and_room(blocks: list[list[int]], room: int) -> None:
    ending = Ending([EOS], first_at(7), room, "length")
    ids: list[int] = []
    for block in blocks:
        ids += block
        cut = ending(ids, len(block))
        ends = [(at + 1, "eos") for at, token in enumerate(ids) if token == EOS]
        ends += [(at + 1, "stop") for at, token in enumerate(ids) if token == 7]
        ends += [(room, "length")] if len(ids) >= room else []
        if not ends:
            assert cut is None
            continue
        assert cut is not None
        assert cut[0] == min(end for end, _ in ends)
        assert cut in ends
        return


@pytest.mark.parametrize("reason", ["eos", "stop"])
def test_an_ending_on_the_last_token_that_fits_goes_by_its_own_name(reason: str) -> None:
    ending = Ending([EOS] if reason == "eos" else [], first_at(7) if reason == "stop" else None, 3, "length")
    assert ending([1, 2, EOS if reason == "eos" else 7], 1) == (3, reason)


def test_eos_goes_before_a_stop_at_the_same_token() -> None:
    assert Ending([7], first_at(7), 10, "length")([1, 7, 2], 3) == (2, "eos")


def test_the_cap_cuts_a_block_that_overshoots() -> None:
    ending = Ending([], None, 4, "context")
    assert ending([1, 2, 3], 3) is None
    assert ending([1, 2, 3, 4, 5, 6], 3) == (4, "context")


def test_the_stop_is_asked_once_per_step_even_where_another_ending_comes_first() -> None:
    """A stateful stop must see every block, in order."""
    calls: list[tuple[int, int]] = []

    def stop(ids: Sequence[int], new: int) -> None:
        calls.append((len(ids), new))

    ending = Ending([EOS], stop, 3, "length")
    ending([1], 1)
    ending([1, EOS, 2, 3], 3)
    assert calls == [(1, 1), (4, 3)]


@pytest.mark.parametrize("keep", [-1, 0, 2, 6])
def test_a_stop_that_cuts_elsewhere_than_in_the_new_tokens_is_a_defect(keep: int) -> None:
    """What an earlier step emitted is on the page and in the cache: it cannot be taken back by a later stop."""
    ending = Ending([], lambda ids, new: (keep, "stop"), 10, "length")
    with pytest.raises(ValueError, match=f"keep {keep} of 5 tokens"):
        ending([1, 2, 3, 4, 5], 3)
