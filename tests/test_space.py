"""What a Hugging Face Space reads: the front matter of README.md, requirements.txt, and files that it takes.

Sources: https://huggingface.co/docs/hub/spaces-config-reference and https://huggingface.co/docs/hub/spaces-zerogpu.
"""

from __future__ import annotations

import subprocess

import pytest
import yaml
from packaging.requirements import Requirement

from playground.models.catalog import PROJECT

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
NEEDED = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file", "license"}
OPTIONAL = {"header", "pinned", "short_description", "models", "tags"}
LONGEST_DESCRIPTION = 60
ZERO_GPU_PYTHON = "3.12.12"
ZERO_GPU_TORCH = {"2.8.0", "2.9.1", "2.10.0", "2.11.0"}
LARGEST = 10_000_000  # bytes; what is larger has to go through Git LFS or Xet


@pytest.fixture(scope="module")
def front() -> dict[str, object]:
    opened, front, _ = (PROJECT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert opened == ""
    return yaml.safe_load(front)


def pinned(name: str, python: str) -> str:
    """The version of a package that requirements.txt installs with that Python."""
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line.partition(" #")[0]) for line in lines if line and not line.startswith("#")]
    (one,) = [
        one
        for one in wanted
        if one.name == name and (one.marker is None or one.marker.evaluate({"python_version": python}))
    ]
    (version,) = one.specifier
    assert version.operator == "=="
    return version.version


def test_the_front_matter_is_whole(front: dict[str, object]) -> None:
    assert set(front) >= NEEDED
    assert set(front) <= NEEDED | OPTIONAL
    assert {front["colorFrom"], front["colorTo"]} <= COLOURS
    assert front["sdk"] == "gradio"
    assert (PROJECT / str(front["app_file"])).is_file()
    assert len(str(front["short_description"])) <= LONGEST_DESCRIPTION


def test_the_space_has_the_gradio_that_is_tested(front: dict[str, object]) -> None:
    assert front["sdk_version"] == pinned("gradio", "3.12")


def test_zero_gpu_takes_its_python_and_torch(front: dict[str, object]) -> None:
    assert front["python_version"] == ZERO_GPU_PYTHON
    assert pinned("torch", "3.12") in ZERO_GPU_TORCH
    assert pinned("torch", "3.11") not in ZERO_GPU_TORCH, "the markers have lost their reason"


def test_every_committed_file_goes_into_a_plain_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True, text=True)
    files = [PROJECT / name for name in listed.stdout.split("\0") if name]
    assert PROJECT / "README.md" in files
    assert [file for file in files if file.is_file() and file.stat().st_size > LARGEST] == []
