"""One long job at a time, of whatever kind; who started it may stop it, and everybody once they have left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from playground import jobs as jobs_module
from playground.errors import UserError
from playground.jobs import Jobs


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "LOOK_SECONDS", 0.01)


@pytest.fixture
def running() -> Iterator[tuple[Jobs, threading.Event]]:
    """A job of the kind "a" that "owner" started and that ends when the event is set."""
    jobs, end = Jobs(), threading.Event()
    jobs.start("a", "A thing is made", "owner", lambda: lambda: end.wait(60), pytest.fail)
    yield jobs, end
    end.set()
    list(jobs.watch("a", "owner", lambda: None))


def test_a_second_job_of_any_kind_is_refused_before_it_changes_anything(running: tuple[Jobs, threading.Event]) -> None:
    jobs, _ = running

    def prepare() -> Callable[[], None]:
        raise AssertionError("nothing may be prepared")

    for kind in ("a", "b"):
        with pytest.raises(UserError, match="A thing is made, and one such job at a time"):
            jobs.start(kind, "Another", "other", prepare, pytest.fail)
    assert jobs.busy("a")
    assert not jobs.busy("b")
    assert jobs.owns("a", "owner")


def test_only_who_started_it_stops_it_while_they_watch(
    running: tuple[Jobs, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, _ = running
    with pytest.raises(UserError, match="only they can stop it"):
        jobs.stop("a", "other")
    jobs.stop("b", "other")  # no such job: nothing to stop
    assert not jobs.halted
    monkeypatch.setattr(jobs_module, "GONE_SECONDS", -1.0)
    jobs.stop("a", "other")
    assert jobs.halted


def test_watching_tells_changes_until_the_job_has_ended(running: tuple[Jobs, threading.Event]) -> None:
    jobs, end = running
    seen = ["first"]
    views = jobs.watch("a", "owner", lambda: seen[-1])
    assert next(views) == "first"
    seen.append("second")
    assert next(views) == "second"
    end.set()
    assert list(views) == []
    assert list(jobs.watch("a", "late", lambda: seen[-1])) == ["second"], "who comes late sees how it ended"


def test_a_job_may_follow_another(running: tuple[Jobs, threading.Event]) -> None:
    jobs, end = running
    jobs.stop("a", "owner")
    end.set()
    list(jobs.watch("a", "owner", lambda: None))
    jobs.start("b", "Another", "other", lambda: lambda: None, pytest.fail)
    assert not jobs.halted
    assert jobs.owns("b", "other")
    list(jobs.watch("b", "other", lambda: None))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("There is no such model."), "There is no such model."),
        (ZeroDivisionError("secret"), "The thing broke off. The server’s own log says why."),
    ],
)
def test_work_that_fails_is_told_in_a_sentence_and_what_nobody_foresaw_is_logged(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: logged.append(failure.exc_type))

    def work() -> None:
        raise error

    jobs, told = Jobs(), list[str]()
    jobs.start("thing", "A thing is made", "owner", lambda: work, told.append)
    list(jobs.watch("thing", "owner", lambda: None))
    assert told == [said]
    assert logged == ([] if isinstance(error, UserError) else [ZeroDivisionError])
