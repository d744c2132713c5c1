"""Recorded runs that come as files: traces of the playground, and stored replies of a vLLM server."""

from __future__ import annotations

import json
from pathlib import Path

from playground.decoding.trace import Trace, read_trace
from playground.errors import UserError
from playground.remote.vllm_reply import read_reply

KINDS = [".jsonl", ".json", ".sse", ".txt"]  # a trace; a whole reply; a streamed one


def read_recording(path: Path) -> Trace:
    """The run in a file. Raises UserError, with a sentence, for a file that is neither or cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            "This is not a trace of the playground: it is no text. Choose a .jsonl file that the playground wrote, "
            "or a stored reply of a vLLM server."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Choose another file.") from error
    return read_reply(text, path.name) if _is_reply(text) else read_trace(text.split("\n"))


def _is_reply(text: str) -> bool:
    """Whether `text` is a reply of a server, whole (JSON with choices) or streamed (server-sent events)."""
    if text.lstrip().startswith(("data:", ": ", "event:")):
        return True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False  # a trace is several lines of JSON
    return isinstance(value, dict) and ("choices" in value or "error" in value)
