"""A page on a free port of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from playground.ui.api import Page
from playground.ui.page import serve


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def served(page: Page) -> Iterator[str]:
    """The address of `page`."""
    yield serve(page, "127.0.0.1", free_port(), wait=False)
    page.close()
