"""What a visitor may ask for: said once, changed by the environment, refused in sentences."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from playground.errors import UserError
from playground.run import LaneSpec, RunSpec
from playground.ui.limits import OWN_MACHINE, PREFIX, STRANGERS, Limits, read_limits

README = Path(__file__).parents[2] / "README.md"
SPEC = RunSpec("Once", (LaneSpec("jacobi"),))
TIGHT = Limits(tokens=64, lanes=2, prompt=10, seconds=1, runs=1, upload=1, minutes=1)


def test_strangers_are_held_to_less_in_everything() -> None:
    for field in fields(Limits):
        assert getattr(STRANGERS, field.name) < getattr(OWN_MACHINE, field.name)
    assert read_limits(True, {}) == OWN_MACHINE
    assert read_limits(False, {}) == STRANGERS


def test_the_environment_changes_each_of_them() -> None:
    for field in fields(Limits):
        variable = f"{PREFIX}{field.name.upper()}"
        assert read_limits(False, {variable: "7"}) == replace(STRANGERS, **{field.name: 7})
        assert read_limits(False, {variable: ""}) == STRANGERS


@pytest.mark.parametrize("held", ["0", "-1", "2.5", "many", " "])
def test_a_variable_that_holds_no_limit_is_a_sentence(held: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"SPECPLAY_MAX_TOKENS is {held!r}; it must be a whole number")):
        read_limits(True, {"SPECPLAY_MAX_TOKENS": held})


def test_what_is_within_the_limits_passes() -> None:
    TIGHT.check(SPEC)
    TIGHT.check(replace(SPEC, prompt="x" * 10, lanes=SPEC.lanes * 2))


@pytest.mark.parametrize(
    ("much", "said"),
    [
        ({"max_new_tokens": 65}, "65 tokens to write; here at most 64"),
        ({"lanes": SPEC.lanes * 3}, "3 lanes; here at most 2"),
        ({"prompt": "x" * 11}, "11 characters of prompt; here at most 10"),
        ({"system": "x" * 7}, "11 characters of prompt"),
        ({"earlier": ("xxxx", "xxx")}, "11 characters of prompt"),
        ({"companions": ("x" * 1_000,)}, "1,004 characters of prompt"),
        ({"stop": ("x" * 7,)}, "11 characters of prompt"),
    ],
)
def test_too_much_is_a_sentence_with_the_value_and_the_limit(much: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        TIGHT.check(replace(SPEC, **much))


def test_the_readme_says_what_they_are() -> None:
    rows = re.findall(r"^\| `(SPECPLAY_MAX_\w+)` \|[^|]*\| ([\d,]+) \| ([\d,]+) \|$", README.read_text("utf-8"), re.M)
    told = {name: (int(own.replace(",", "")), int(others.replace(",", ""))) for name, own, others in rows}
    assert told == {
        f"{PREFIX}{field.name.upper()}": (getattr(OWN_MACHINE, field.name), getattr(STRANGERS, field.name))
        for field in fields(Limits)
    }
