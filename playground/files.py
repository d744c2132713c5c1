"""Files written whole or not at all; for those that a user asked for, what stands in the way is a sentence."""

from __future__ import annotations

import os
from pathlib import Path

from playground.errors import UserError


def check_writable(path: Path, what: str) -> None:
    """Raises UserError, before any work is done for it, where no file can be written; leaves `path` as it was.

    `what` is what the sentence calls it ("The trace").
    """
    if _is_stream(path):
        return
    try:
        there = path.exists()
        path.open("a", encoding="utf-8").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise unwritten(path, what, error) from error


def write_whole(path: Path, text: str, what: str) -> None:
    """Write `text` (UTF-8) to `path`: all of it, or `path` stays as it was and UserError says why.

    The text goes to a file beside it first, which is renamed. A pipe or a device is written to as it is.
    """
    try:
        replace_whole(path, text)
    except OSError as error:
        raise unwritten(path, what, error) from error


def replace_whole(path: Path, text: str) -> None:
    """As `write_whole`, for files of the playground's own: raises OSError where the text cannot be written."""
    target = path if _is_stream(path) else Path(os.path.realpath(path))
    unfinished = target if target is path else target.with_name(f"{target.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
        if unfinished != target:
            os.replace(unfinished, target)
    except OSError:
        if unfinished != target and os.path.exists(unfinished):
            unfinished.unlink()
        raise


def unwritten(path: Path, what: str, error: OSError) -> UserError:
    """The sentence for a file that could not be written."""
    return UserError(f"{what} cannot be written to {path}: {error.strerror or error}. Choose another file.")


def _is_stream(path: Path) -> bool:
    """Whether `path` is a pipe or a device, such as /dev/stdout: there is no half of it to take back."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
