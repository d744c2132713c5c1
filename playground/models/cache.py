"""A folder of models made once on this machine: whole or absent, also when two processes want the same one."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError

from playground.errors import UserError

Progress = Callable[[str, float | None], None]
"""Called with what is going on and the fraction done, None where that is unknown."""

PARTIAL = ".partial-"


def quiet(message: str, fraction: float | None) -> None:
    """A Progress that shows nothing."""


def cache_dir() -> Path:
    """Where fetched and converted models lie: $SPECPLAY_CACHE, or a folder where this platform keeps caches."""
    if chosen := os.environ.get("SPECPLAY_CACHE"):
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", home / ".cache"))
    return base / "speculative-decoding-playground"


def find_built(name: str) -> Path | None:
    """The finished folder `name`, if it is there."""
    folder = cache_dir() / name
    return folder if folder.is_dir() else None


def build_once(name: str, size: int, build: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, made by `build(empty folder)` if it is not there yet.

    The work happens in a folder beside it that is renamed when all its bytes are on the disk, so an
    interrupted build leaves nothing that could be taken for a finished one. A second process waits for the
    first and then finds the result. `size` is how many bytes the build needs at its peak.

    Raises UserError if the disk is too full or the cache cannot be written; what `build` raises passes through.
    """
    root = cache_dir()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f"{name}.lock"):
            if (done := find_built(name)) is not None:
                return done
            for leftover in root.glob(f"{PARTIAL}{name}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            check_room(root, size)
            work = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{name}-", dir=root))
            try:
                build(work)
                work.chmod(0o755)
                _settle(work)
                return work.rename(root / name)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise _cannot_write(root, error) from error


def check_room(folder: Path, size: int) -> None:
    """Raises UserError if the disk that holds `folder` has less than `size` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise UserError(
            f"The disk is too full: this needs {_mb(size)} in {folder} and {_mb(free)} are free. "
            "Free some space, or set SPECPLAY_CACHE to a folder on another disk."
        )


def _cannot_write(root: Path, error: Exception) -> UserError:
    full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
    what = "The disk became full while writing to" if full else "Cannot write to"
    return UserError(f"{what} {root} ({error}). Set SPECPLAY_CACHE to a folder with room that you may write to.")


def _settle(folder: Path) -> None:
    """Files readable by other users of the machine, and their bytes on the disk before the rename says so."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
