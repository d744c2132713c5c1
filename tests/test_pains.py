"""docs/PAINS.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
ROWS = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", (PROJECT / "docs" / "PAINS.md").read_text(encoding="utf-8"), re.M)


def test_there_are_eighteen() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 19))


@pytest.mark.parametrize(("number", "tests"), ROWS)
def test_every_pain_has_tests_that_exist(number: str, tests: str) -> None:
    named = re.findall(r"`([^`]+)::([^`]+)`", tests)
    assert named, "no test is named"
    for file, name in named:
        source = (PROJECT / file).read_text(encoding="utf-8")
        assert f"def {name}(" in source if file.endswith(".py") else f"test('{name}'," in source, f"{file}::{name}"
