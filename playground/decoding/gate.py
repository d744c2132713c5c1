"""One pass at a time per device, in the order of asking."""

from __future__ import annotations

from collections import deque
from threading import Condition, get_ident
from types import TracebackType


class Gate:
    """A lock that is fair: whoever asked first goes first, so that no run starves another between its passes."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._queue: deque[int] = deque()

    def __enter__(self) -> None:
        me = get_ident()
        with self._changed:
            self._queue.append(me)
            mine = False
            try:
                mine = self._changed.wait_for(lambda: self._queue[0] == me)
            finally:
                if not mine:  # interrupted: whoever waits behind must not wait for ever
                    self._queue.remove(me)
                    self._changed.notify_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()
