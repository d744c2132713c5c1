"""The soak: runs of every kind one after the other, and that it notices what grows."""

from __future__ import annotations

import pytest

from benchmarks.soak import Reading, Soak

MB = 1_000_000


@pytest.mark.slow
def test_some_seconds_of_it_leave_no_thread_and_no_file_behind() -> None:
    soak = Soak(seconds=10)
    soak.measure()
    assert soak.kinds["ended"] > 10, "every method once, and more"
    assert soak.kinds["messages"] > soak.kinds["ended"]
    assert [told for told in soak.growth() if "memory" not in told and "too few" not in told] == []
    assert f"| runs, ended | {soak.kinds['ended']} |" in soak.table()


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (Reading(900 * MB, 9, 20), None),
        (Reading(915 * MB, 9, 20), None),
        (Reading(940 * MB, 9, 20), "memory grew by 40.0 MB"),
        (Reading(900 * MB, 10, 20), "threads grew from 9 to 10"),
        (Reading(900 * MB, 9, 21), "files grew from 20 to 21"),
    ],
)
def test_what_grows_is_told(last: Reading, said: str | None) -> None:
    soak = Soak(60, readings=[Reading(900 * MB, 9, 20)] * 6 + [last] * 3)
    assert soak.growth() == ([] if said is None else [said])


def test_few_runs_are_not_enough_to_tell() -> None:
    assert "too few" in Soak(60, readings=[Reading(900 * MB, 9, 20)] * 3).growth()[0]
