"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from playground.errors import UserError
from playground.files import check_writable, write_whole


class FullDisk:
    """A file on a disk that has room for 10 more characters."""

    def __init__(self, file) -> None:
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, text: str) -> None:
        self.file.write(text[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("before", ["an older trace", None])
def test_a_full_disk_is_a_sentence_and_leaves_what_was_there(tmp_path, monkeypatch, before) -> None:
    file = tmp_path / "trace.jsonl"
    if before is not None:
        file.write_text(before)
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda *given, **more: FullDisk(opened(*given, **more)))
    with pytest.raises(UserError, match=r"The trace cannot be written to .*trace\.jsonl: No space left on device"):
        write_whole(file, "a trace" * 100, "The trace")
    monkeypatch.undo()
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_a_device_that_is_full_is_a_sentence() -> None:
    with pytest.raises(UserError, match="The page cannot be written to /dev/full: No space left on device"):
        write_whole(Path("/dev/full"), "text", "The page")


def test_text_arrives_whole_and_a_link_stays_a_link(tmp_path) -> None:
    file, link = tmp_path / "real", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    write_whole(link, "neu\n…", "The file")
    assert file.read_text(encoding="utf-8") == "neu\n…"
    assert link.is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pipe_is_written_to(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_writable(pipe, "The file")
    write_whole(pipe, "through", "The file")
    reader.join(10)
    assert got == ["through"]


def test_what_cannot_be_written_is_told_before_the_work(tmp_path) -> None:
    for never in (tmp_path, tmp_path / "absent" / "file", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match="The settings cannot be written to"):
            check_writable(never, "The settings")
        with pytest.raises(UserError, match="The settings cannot be written to"):
            write_whole(never, "text", "The settings")
    check_writable(tmp_path / "new", "The settings")
    assert list(tmp_path.iterdir()) == []
