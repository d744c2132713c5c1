"""JSON back into dataclasses: every kind a field can have, and what is said of a value that does not fit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import pytest

from playground.decoding.codec import JSON, Between, decode_value
from playground.errors import UserError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Leaf:
    name: str
    weight: float = 0.5


@dataclass
class Root:
    count: Annotated[int, Between(0, 99)]
    flag: bool
    colour: Colour
    shade: Annotated[Colour, (Colour.RED,)] = Colour.RED
    maybe: float | None = None
    either: int | float | str = 0
    leaves: list[Leaf] = field(default_factory=list)
    pair: tuple[int, str] = (0, "")
    table: dict[int, float] = field(default_factory=dict)
    free: JSON = None


GOOD: dict[str, object] = {"count": 3, "flag": True, "colour": "blue"}


def test_every_kind_of_field_is_decoded() -> None:
    value = GOOD | {
        "maybe": 2,
        "either": 7,
        "leaves": [{"name": "a"}, {"name": "b", "weight": 1}],
        "pair": [4, "x"],
        "table": {"5": 0.25, "-1": 3},
        "free": {"any": [None, 1.5, {"thing": "goes"}]},
    }
    root = decode_value(Root, json.loads(json.dumps(value)), "here")
    assert root == Root(
        3,
        True,
        Colour.BLUE,
        maybe=2.0,
        either=7,
        leaves=[Leaf("a"), Leaf("b", 1.0)],
        pair=(4, "x"),
        table={5: 0.25, -1: 3.0},
        free={"any": [None, 1.5, {"thing": "goes"}]},
    )
    assert type(root.maybe) is float
    assert type(root.either) is int
    assert type(root.colour) is Colour


def test_the_first_fitting_kind_of_a_union_is_taken() -> None:
    assert decode_value(Root, GOOD | {"either": 2**63 + 1}, "here").either == 2**63 + 1
    assert type(decode_value(Root, GOOD | {"either": 4.0}, "here").either) is float
    assert decode_value(Root, GOOD | {"either": "4"}, "here").either == "4"


@pytest.mark.parametrize(
    ("name", "value", "saying"),
    [
        ("count", -1, "here.count holds -1, where int from 0 to 99 belongs."),
        ("count", 100, "here.count holds 100, where int from 0 to 99 belongs."),
        ("count", True, "here.count holds True, where int belongs."),
        ("count", 3.0, "here.count holds 3.0, where int belongs."),
        ("flag", 1, "here.flag holds 1, where bool belongs."),
        ("colour", "green", "here.colour holds 'green', where Colour belongs."),
        ("colour", 5, "here.colour holds 5, where Colour belongs."),
        ("shade", "blue", "here.shade holds 'blue', where Colour of red belongs."),
        ("maybe", "x", "here.maybe holds 'x', where float or NoneType belongs."),
        ("maybe", False, "here.maybe holds False, where float or NoneType belongs."),
        ("maybe", float("nan"), "here.maybe holds nan"),
        ("maybe", float("inf"), "here.maybe holds inf"),
        ("maybe", 10**400, r"here.maybe holds 1000000000"),
        ("either", None, "here.either holds None, where int or float or str belongs."),
        ("either", [], r"here.either holds \[\], where int or float or str belongs."),
        ("leaves", {}, "here.leaves holds {}"),
        ("leaves", [{}], r"here.leaves\[0\] lacks the field 'name'."),
        ("leaves", [{"name": "a"}, {"name": 1}], r"here.leaves\[1\].name holds 1, where str belongs."),
        ("leaves", [{"name": "a", "size": 1}], r"here.leaves\[0\] has a field 'size' that this version does not know."),
        ("pair", [1], r"here.pair holds \[1\]"),
        ("pair", [1, "x", 2], r"here.pair holds \[1, 'x', 2\]"),
        ("pair", ["x", 1], r"here.pair\[0\] holds 'x', where int belongs."),
        ("table", {"x": 1.0}, "here.table has the key 'x', where a whole number belongs."),
        ("table", {"1": "x"}, "here.table.1 holds 'x', where float belongs."),
        ("table", [], r"here.table holds \[\]"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: object, saying: str) -> None:
    with pytest.raises(UserError, match=saying):
        decode_value(Root, GOOD | {name: value}, "here")


@pytest.mark.parametrize("value", [None, 3, "x", [], [GOOD]])
def test_something_else_than_an_object_is_named(value: object) -> None:
    with pytest.raises(UserError, match=r"here holds .*, where Root belongs."):
        decode_value(Root, value, "here")


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(UserError) as told:
        decode_value(Root, GOOD | {"count": "x" * 10_000}, "here")
    assert len(str(told.value)) < 150
