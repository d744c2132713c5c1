"""What the server tells about runs: one JSON object a line on stderr, and never what was asked or answered."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from playground.decoding.codec import JSON

LOG = logging.getLogger("playground")


class JsonLines(logging.Formatter):
    """A record as a line of JSON: time, level, event and its facts; the traceback of what was logged with one."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def tell(event: str, level: int = logging.INFO, **facts: JSON) -> None:
    """Log an event. `facts` hold ids, names and numbers; never a prompt, a text or a key."""
    LOG.log(level, event, extra={"facts": facts})


def log_to_stderr() -> None:
    """From now on events are written. Doing it twice does nothing more."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOG.handlers, LOG.propagate = [handler], False
    LOG.setLevel(logging.INFO)
