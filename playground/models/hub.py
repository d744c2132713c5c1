"""A repository of the Hugging Face hub as a source."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from httpx2 import HTTPError
from huggingface_hub import constants, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    DryRunError,
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from tqdm import tqdm

from playground.errors import UserError
from playground.models.cache import Progress, check_room, quiet
from playground.models.folder import ModelFolder

REPO = re.compile(r"[A-Za-z0-9]([\w.-]*\w)?(/[A-Za-z0-9]([\w.-]*\w)?)?", re.ASCII)
LONGEST_REPO = 96
REVISION = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*", re.ASCII)
DESCRIPTIONS = (".json", ".jinja", ".model", ".txt")
WEIGHTS = (".safetensors", ".bin", ".pt")
"""Weight formats by preference; the pickled ones are read with weights_only=True."""


@dataclass(frozen=True)
class Hub:
    """`repo` ("owner/name") at `revision` (branch, tag or commit). Downloads resume where they were interrupted.

    Raises UserError for an id or a revision that cannot exist.
    """

    repo: str
    revision: str = "main"

    def __post_init__(self) -> None:
        never = ".." in self.repo or "--" in self.repo or self.repo.endswith(".git") or len(self.repo) > LONGEST_REPO
        if never or not REPO.fullmatch(self.repo):
            raise UserError(f"{self.repo!r} is no hub id: expected owner/name.")
        if not REVISION.fullmatch(self.revision) or ".." in self.revision:
            raise UserError(f"{self.revision!r} is no revision: give a branch, a tag or a commit.")

    @property
    def name(self) -> str:
        return self.repo if self.revision == "main" else f"{self.repo}@{self.revision}"

    def find(self) -> Path | None:
        """The snapshot on this machine, if all its weights are there. Never touches the network."""
        config = try_to_load_from_cache(self.repo, "config.json", revision=self.revision)
        if not isinstance(config, str):
            return None
        folder = Path(config).parent
        return folder if _is_whole(folder) else None

    def fetch(self, progress: Progress = quiet) -> Path:
        """The snapshot, downloaded if need be. Raises UserError: no such model, no network, disk full."""
        if (found := self.find()) is not None:
            return found
        progress(f"Asking the hub for {self.name}", None)
        try:
            return self._download(progress)
        except DryRunError as error:
            raise self._reason(error.__cause__ or error) from error
        except (HTTPError, OSError) as error:
            raise self._reason(error) from error

    def _reason(self, error: BaseException) -> UserError:
        if isinstance(error, GatedRepoError):
            return UserError(
                f"{self.repo} asks for its licence to be accepted: do so on its page of the hub, "
                "then log in here with `hf auth login`."
            )
        if isinstance(error, RepositoryNotFoundError):
            return UserError(f"The hub has no model {self.repo} (or it is private): check the spelling.")
        if isinstance(error, RevisionNotFoundError):
            return UserError(f"{self.repo} has no revision {self.revision!r}: try main.")
        if isinstance(error, OSError) and error.errno is not None:
            what = "does not fit on the disk" if error.errno == errno.ENOSPC else "cannot be saved"
            return UserError(f"{self.name} {what}: {error}.")
        return UserError(
            f"The model hub cannot be reached, and {self.name} is not (whole) on this machine. Check the connection "
            "and try again, which goes on where it stopped; or give a local folder or a GGUF file."
        )

    def _download(self, progress: Progress) -> Path:
        silent = _bar_class("", 0, quiet)
        files = snapshot_download(self.repo, revision=self.revision, dry_run=True, tqdm_class=silent)
        wanted = _choose(file.filename for file in files)
        if not any(name.endswith(WEIGHTS) for name in wanted):
            raise UserError(f"{self.name} holds no weights that can be loaded (safetensors, .bin or .pt).")
        missing = sum(file.file_size or 0 for file in files if file.filename in wanted and file.will_download)
        cache = Path(constants.HF_HUB_CACHE)
        cache.mkdir(parents=True, exist_ok=True)
        check_room(cache, missing)
        bar = _bar_class(f"Downloading {self.name}", missing, progress)
        return Path(snapshot_download(self.repo, revision=self.revision, allow_patterns=sorted(wanted), tqdm_class=bar))


def _bar_class(message: str, total: int, progress: Progress) -> type[tqdm[Any]]:
    """A tqdm that draws nothing and tells `progress` which part of `total` bytes is on the disk."""

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # the hub keeps a second bar of bytes, for what came over the wire
            self._counts = kwargs.get("unit") == "B" and not str(kwargs.get("desc")).startswith("Downloading")
            super().__init__(*args, **kwargs | {"disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            with self.get_lock():  # files are downloaded by several threads
                self.n += n or 0
                if self._counts and total:
                    progress(message, min(1.0, self.n / total))
            return None

    return Bar


def _choose(names: Iterable[str]) -> set[str]:
    """The files of a repository to fetch: top level only, weights in the first format that is there, and once
    ("consolidated" files are the same weights in their makers' own layout)."""
    top = [name for name in names if "/" not in name and not name.startswith("consolidated")]
    weights = next((found for kind in WEIGHTS if (found := [name for name in top if name.endswith(kind)])), [])
    return {name for name in top if name.endswith(DESCRIPTIONS)} | set(weights)


def _is_whole(folder: Path) -> bool:
    if any(folder.glob("medusa_lm_head.*")):
        return True
    try:
        return bool(ModelFolder(folder).weight_files)
    except UserError:
        return False
