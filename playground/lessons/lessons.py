"""The lessons: data, one file each, whose sentences take their numbers from recorded runs.

A lesson is a list of steps. Each names a recording, a lane, a place in it, and what to look at; its text holds
`{lane.number}` and `{here.number}`, filled with what the trace says, and its claims are comparisons of such numbers,
which must hold.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from types import SimpleNamespace
from typing import TypeAlias

from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.lessons.numbers import Token, evaluate, find_step, lane_numbers, lane_pieces, position, step_numbers
from playground.lessons.recordings import FOLDER, Recording, read_recordings, recorded, trace_path
from playground.lessons.writing import LANGUAGES, Language

ORDER = ("why-fast", "acceptance", "length", "medusa", "lookahead", "no-help", "myths")
NUMBER = re.compile(r"\b[a-z]\w*\.\w+\b")

Part: TypeAlias = "str | dict[str, str]"  # text, or a token with its status


@dataclass(frozen=True)
class LessonStep:
    """A step as written. `at` is a place for `find_step`, `claims` pairs of words and a comparison."""

    recording: str
    lane: str
    text: str
    at: str = "end"
    point: str = ""
    view: str = ""
    room: str = "race"
    predict: bool = False
    claims: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Lesson:
    """A lesson as written."""

    title: str
    summary: str
    steps: list[LessonStep]


def read_lessons(language: str = "en", folder: Path = FOLDER) -> dict[str, Lesson]:
    """All lessons in their order. Raises UserError for what is not of their form."""
    lessons = {}
    for name in ORDER:
        file = folder / language / f"{name}.toml"
        given: JSON = tomllib.loads(file.read_text(encoding="utf-8"))
        lessons[name] = decode_value(Lesson, given, file.name)
    return lessons


def fill_lessons(language: str = "en", folder: Path = FOLDER) -> list[dict[str, JSON]]:
    """The lessons as the page shows them, every number taken from the traces.

    A step that its recording cannot show is left out, so that a page on new recordings starts; `broken_claims` tells.
    """
    recordings, lessons = read_recordings(folder), list[dict[str, JSON]]()
    for name, lesson in read_lessons(language, folder).items():
        steps: list[JSON] = []
        for step in lesson.steps:
            with suppress(UserError):
                steps.append(fill_step(step, recordings, folder, LANGUAGES[language]))
        if steps:
            lessons.append({"id": name, "title": lesson.title, "summary": lesson.summary, "steps": steps})
    return lessons


def broken_claims(language: str = "en", folder: Path = FOLDER) -> list[str]:
    """What the lessons say that is not so in their recorded runs, a sentence each; steps that there are not, too."""
    recordings, broken = read_recordings(folder), []
    for name, lesson in read_lessons(language, folder).items():
        for number, step in enumerate(lesson.steps, 1):
            try:
                claims = fill_step(step, recordings, folder)["claims"]
            except UserError as error:
                broken.append(f"{name}, step {number}: {error}")
                continue
            broken += [f"{name}, step {number}: {one['words']}: {one['shown']}" for one in claims if not one["holds"]]  # type: ignore[index,union-attr,call-overload]
    return broken


def fill_step(
    step: LessonStep, recordings: dict[str, Recording], folder: Path = FOLDER, language: Language = LANGUAGES["en"]
) -> dict[str, JSON]:
    """A step with its place, its text and its claims worked out. Raises UserError where its recording has no such."""
    if step.recording not in recordings:
        raise UserError(f"A lesson names the recording {step.recording!r}, which is not among the recorded ones.")
    recording = recordings[step.recording]
    trace, lane = recorded(trace_path(step.recording, folder)), recording.lane(step.lane)
    count = find_step(step.at, trace, lane)
    names = {one.name: lane_numbers(trace, at) for at, one in enumerate(recording.lanes)}
    if count:
        names["here"] = step_numbers(trace.steps(lane)[count - 1], lane_pieces(trace, lane))
    return {
        "recording": step.recording,
        "lane": lane,
        "head": position(trace, lane, count),
        "point": step.point,
        "view": step.view,
        "room": step.room,
        "predict": step.predict,
        "text": [_fill(paragraph, names, language) for paragraph in re.split(r"\n\s*\n", step.text.strip())],
        "claims": [_claim(words, holds, names, language) for words, holds in step.claims],
    }


def _fill(text: str, names: dict[str, SimpleNamespace], language: Language) -> JSON:
    """`text` as parts, every `{name}` replaced; tokens stay apart, so that the page can mark them."""
    parts: list[JSON] = []
    for literal, name, form, _ in Formatter().parse(" ".join(text.split())):
        if literal:
            parts.append(literal)
        if name is None:
            continue
        value = _look_up(name, names)
        parts.append(
            {"token": str(value), "status": value.status} if isinstance(value, Token) else language.number(value, form)
        )
    return parts


def _claim(words: str, holds: str, names: dict[str, SimpleNamespace], language: Language) -> JSON:
    """A claim with its numbers put in: what is claimed, the comparison, and whether it holds."""
    shown = language.comparison(NUMBER.sub(lambda found: language.number(_look_up(found[0], names)), holds))
    return {"words": words, "shown": shown, "holds": evaluate(holds, names)}


def _look_up(name: str, names: dict[str, SimpleNamespace]) -> object:
    owner, _, number = name.partition(".")
    if owner not in names or not hasattr(names[owner], number):
        raise UserError(f"A lesson asks for {name!r}, which its recording does not have.")
    return getattr(names[owner], number)
