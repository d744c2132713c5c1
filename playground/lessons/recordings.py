"""The recorded runs that the lessons are told on: what was asked for is in `recordings.toml`, what happened in traces.

After the models change, `python -m playground record-lessons` makes all traces anew; whether the lessons still tell
the truth about them is then checked claim by claim.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO
from pathlib import Path

from playground.decoding.codec import JSON, decode_value
from playground.decoding.trace import Trace, Value, read_trace
from playground.errors import UserError
from playground.files import write_whole
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run

FOLDER = Path(__file__).parents[2] / "assets" / "lessons"


@dataclass(frozen=True)
class RecordedLane:
    """A lane of a recording; lessons call it by `name`."""

    name: str
    method: str
    settings: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """A run to record: fields of RunSpec, all lanes on one family of models."""

    title: str
    models: str
    prompt: str
    lanes: list[RecordedLane]
    max_new_tokens: int = 48
    temperature: float = 0.0
    seed: int = 1
    chat: bool | None = None
    detail: bool = True

    @property
    def spec(self) -> RunSpec:
        """The run as asked for: float32 on the CPU."""
        return RunSpec(
            self.prompt,
            tuple(LaneSpec(lane.method, lane.settings, self.models) for lane in self.lanes),
            temperature=self.temperature,
            seed=self.seed,
            max_new_tokens=self.max_new_tokens,
            chat=self.chat,
            dtype="float32",
            device="cpu",
            detail=self.detail,
        )

    def lane(self, name: str) -> int:
        """The index of a lane. Raises UserError for a name that it has not."""
        names = [lane.name for lane in self.lanes]
        if name not in names:
            raise UserError(f"The recording {self.title!r} has no lane called {name!r}. Its lanes: {', '.join(names)}.")
        return names.index(name)


def read_recordings(folder: Path = FOLDER) -> dict[str, Recording]:
    """All recordings by name. Raises UserError for what is not of their form."""
    given: JSON = tomllib.loads((folder / "recordings.toml").read_text(encoding="utf-8"))
    return decode_value(dict[str, Recording], given, "recordings.toml")


def trace_path(name: str, folder: Path = FOLDER) -> Path:
    """Where the trace of a recording is."""
    return folder / "traces" / f"{name}.jsonl"


@lru_cache(maxsize=32)
def recorded(path: Path) -> Trace:
    """The trace at `path`. Raises UserError if it is missing or broken."""
    try:
        with path.open(encoding="utf-8") as lines:
            return read_trace(lines)
    except OSError as error:
        raise UserError(f"{path} cannot be read. Record it: python -m playground record-lessons {path.stem}") from error


def record(name: str, recording: Recording, store: ModelStore, folder: Path = FOLDER) -> Path:
    """Make the run and write its trace. Raises UserError for what cannot be run."""
    with open_run(recording.spec, store) as run:
        for _ in run:
            pass
        run.trace.title = recording.title
        path = trace_path(name, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = StringIO()
        run.trace.write(lines)
        write_whole(path, lines.getvalue(), "The recording")
    return path


def record_all(names: list[str], tell: Callable[[str], None], store: ModelStore, folder: Path = FOLDER) -> None:
    """Record the named runs, or all. Raises UserError for an unknown name."""
    recordings = read_recordings(folder)
    if unknown := [name for name in names if name not in recordings]:
        raise UserError(f"There is no recording called {unknown[0]!r}. Recordings: {', '.join(recordings)}.")
    for name in names or recordings:
        tell(f"Recording {name} …")
        record(name, recordings[name], store, folder)
    recorded.cache_clear()
