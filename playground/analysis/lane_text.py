"""Lanes as they are typed and named in reports: "draft-model k=4 temperature=0.7"."""

from __future__ import annotations

from itertools import product

SHARED = ("batch", "temperature")  # what a lane has in common with the baseline that it is compared with


def split_lane(lane: str) -> tuple[str, dict[str, str]]:
    """The method of a lane and what it was told: "medusa tree=auto" is ("medusa", {"tree": "auto"})."""
    method, *pairs = lane.split() or [""]
    return method, {name: value for name, equals, value in (pair.partition("=") for pair in pairs) if equals}


def each_setting(text: str) -> list[str]:
    """The lanes of a sweep: "draft-model k=2|4" is "draft-model k=2" and "draft-model k=4"."""
    method, *pairs = text.split() or [""]
    choices = []
    for pair in pairs:
        name, equals, values = pair.partition("=")
        choices.append([f"{name}{equals}{value}" for value in values.split("|")])
    return [" ".join([method, *chosen]) for chosen in product(*choices)]


def baseline_for(lane: str, baseline: str) -> str:
    """`baseline` with the batch and the temperature of `lane`: who it is fair to compare it with."""
    _, settings = split_lane(lane)
    return " ".join([baseline, *(f"{name}={settings[name]}" for name in SHARED if name in settings)])
