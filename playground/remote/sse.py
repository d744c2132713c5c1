"""Server-sent events out of a stream of bytes (WHATWG HTML Living Standard, section 9.2.6)."""

from __future__ import annotations

import re

from playground.errors import UserError

LARGEST_EVENT = 1 << 20
_LINE_END = re.compile(rb"\r\n|\r|\n")


class EventParser:
    """Feed it bytes however they were cut; it returns the data of every event that they complete.

    Comments and the fields `event`, `id` and `retry` are ignored. What follows the last blank line is no event yet.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False
        self._first_line = True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that end in `chunk`. Raises UserError for one of more than `LARGEST_EVENT` bytes."""
        if self._after_return and chunk.startswith(b"\n"):  # the second half of a line end that was cut in two
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        events: list[str] = []
        head, *tail = _LINE_END.split(chunk)
        self._extend(head)
        for part in tail:
            if (event := self._end_line()) is not None:
                events.append(event)
            self._extend(part)
        return events

    def _extend(self, part: bytes) -> None:
        self._line += part
        self._size += len(part)
        if self._size > LARGEST_EVENT:
            raise UserError(
                f"The server sent an event of more than {LARGEST_EVENT} bytes. This is no answer that can be shown; "
                "check the address."
            )

    def _end_line(self) -> str | None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line, line = False, line.removeprefix(b"\xef\xbb\xbf")
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data, self._size = self._data, [], 0
        return b"\n".join(data).decode(errors="replace") if data else None
