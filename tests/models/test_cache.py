import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from playground.errors import UserError
from playground.models import cache
from playground.models.cache import build_once, cache_dir, find_built

BUILDER = """
import sys, time
from pathlib import Path
from playground.models.cache import build_once
def build(folder):
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    (folder / "a").write_text("half")
    print("started", flush=True)
    time.sleep(float(sys.argv[2]))
    (folder / "a").write_text("whole")
print(build_once("thing", 0, build))
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start(log: Path, seconds: float) -> subprocess.Popen:
    command = [sys.executable, "-c", BUILDER, str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(cache.__file__).parents[2])


def write(folder: Path) -> None:
    (folder / "a").write_text("whole")


def test_built_once_and_found_afterwards(root):
    calls = []
    for _ in range(2):
        folder = build_once("thing", 0, lambda folder: (calls.append(folder), write(folder)))
    assert folder == root / "thing" == find_built("thing")
    assert len(calls) == 1
    assert (folder / "a").read_text() == "whole"


def test_a_failed_build_leaves_nothing(root):
    def fail(folder):
        write(folder)
        raise UserError("no good")

    with pytest.raises(UserError, match="no good"):
        build_once("thing", 0, fail)
    assert find_built("thing") is None
    assert [path.name for path in root.iterdir()] == ["thing.lock"]


def test_two_processes_build_it_once(root, tmp_path):
    log = tmp_path / "log"
    both = [start(log, 0.3), start(log, 0.3)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert log.read_text() == "built\n"
    assert (root / "thing" / "a").read_text() == "whole"


def test_a_killed_build_is_not_taken_for_a_finished_one(root, tmp_path):
    process = start(tmp_path / "log", 60)
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert find_built("thing") is None
    assert (build_once("thing", 0, write) / "a").read_text() == "whole"
    assert sorted(path.name for path in root.iterdir()) == ["thing", "thing.lock"]


def test_a_full_disk_is_a_sentence(root, monkeypatch):
    with pytest.raises(UserError, match=r"disk is too full: this needs .* MB in .* SPECPLAY_CACHE"):
        build_once("thing", 10**18, write)

    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError, match="disk became full"):
        build_once("thing", 0, full)
    assert find_built("thing") is None


def test_an_unwritable_cache_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="Cannot write to"):
        build_once("thing", 0, write)


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache_dir() == Path(os.environ["SPECPLAY_CACHE"])
    monkeypatch.delenv("SPECPLAY_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "speculative-decoding-playground"
