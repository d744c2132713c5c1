"""What the Dockerfile promises, as far as it can be read: user, port, health, caches on the volume."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from playground.models.cache import cache_dir
from playground.models.catalog import PROJECT

Steps = list[tuple[str, str]]


@pytest.fixture(scope="module")
def steps() -> Steps:
    """(instruction, rest) in order, comments left out and continued lines joined."""
    text = (PROJECT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def all_of(steps: Steps, wanted: str) -> Iterator[str]:
    return (rest for word, rest in steps if word == wanted)


def variables(steps: Steps) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(all_of(steps, "ENV"))))


def test_nothing_is_installed_or_run_as_root(steps: Steps) -> None:
    user = steps.index(("USER", "user"))
    assert [rest for word, rest in steps[:user] if word == "RUN"] == ["useradd --create-home --uid 1000 user"]
    assert len(list(all_of(steps, "USER"))) == 1
    assert all(rest.startswith("--chown=user ") for rest in all_of(steps, "COPY"))


def test_the_port_is_the_one_that_is_asked_for_health(steps: Steps) -> None:
    (port,) = all_of(steps, "EXPOSE")
    (health,) = all_of(steps, "HEALTHCHECK")
    assert port == variables(steps)["GRADIO_SERVER_PORT"] == "7860"
    assert f":{port}/healthz" in health
    assert variables(steps)["GRADIO_SERVER_NAME"] == "0.0.0.0"


def test_caches_are_on_a_volume_that_belongs_to_the_user(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    (volume,) = all_of(steps, "VOLUME")
    given = variables(steps)
    for name in ("SPECPLAY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", given["HOME"])
    for cache in (given["HF_HOME"], str(cache_dir())):
        assert PurePosixPath(cache).is_relative_to(volume)
    made = [rest.split() for word, rest in steps[steps.index(("USER", "user")) :] if word == "RUN"]
    assert any(words[0] == "mkdir" and volume in words for words in made)


def test_the_index_of_torch_is_an_argument(steps: Steps) -> None:
    (default,) = all_of(steps, "ARG")
    name, _, index = default.partition("=")
    assert index == "https://download.pytorch.org/whl/cpu"
    assert any(f'--extra-index-url "${name}"' in rest for rest in all_of(steps, "RUN"))


def test_tests_and_history_stay_outside(steps: Steps) -> None:
    ignored = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv", "tests"} <= set(ignored)
    assert not {"playground", "assets", "app.py", "requirements.txt"} & set(ignored)
