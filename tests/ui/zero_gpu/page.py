"""The page as a ZeroGPU Space serves it, but on the CPU: `python page.py PORT`. Ends with its standard input.

A model that decodes in this process, where a Space has no GPU, is an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from playground.decoding import session
from playground.models.store import ModelStore
from playground.ui import zero
from playground.ui.page import build_page, serve

SERVER = os.getpid()
advance = session.advance


def only_on_the_gpu(sessions: Sequence[session.Session]) -> object:
    if os.getpid() == SERVER:
        raise RuntimeError("a model decodes where there is no GPU")
    return advance(sessions)


session.advance = only_on_the_gpu
zero.FAMILIES = ("built-in",)  # the quick one
page = build_page(ModelStore(), allow_local=False)
print(serve(page, "127.0.0.1", int(sys.argv[1]), wait=False), flush=True)
os.read(0, 1)  # unlike sys.stdin.read(), it holds no lock, on which a forked process would wait
