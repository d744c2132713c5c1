"""Stands in for Hugging Face's package `spaces` on ZeroGPU: a call runs in a process forked for it.

As with the real one, arguments and whatever the call yields are pickled, nothing else comes back, and of an error only
its class, unless it is one of Gradio's. What was asked for is written to the file that $ZERO_GPU_LOG names.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from multiprocessing.connection import Connection
from pathlib import Path

import gradio as gr

FORK = multiprocessing.get_context("fork")


def GPU(task: Callable[..., Iterator[object]], duration: Callable[..., int]) -> Callable[..., Iterator[object]]:  # noqa: N802
    """`task` in a process of its own."""
    assert isgeneratorfunction(task)

    def lent(*args: object) -> Iterator[object]:
        seconds = duration(*args)
        ours, theirs = FORK.Pipe()
        worker = FORK.Process(target=_work, args=(task, theirs), daemon=True)
        worker.start()
        theirs.close()
        _log(seconds=seconds, worker=worker.pid)
        try:
            ours.send(args)
            while True:
                kind, value = ours.recv()
                if kind == "ended":
                    return
                if kind == "failed":
                    raise value if isinstance(value, gr.Error) else gr.Error(f"ZeroGPU worker error: {value}")
                yield value
        finally:
            worker.kill()
            worker.join()

    return lent


def _work(task: Callable[..., Iterator[object]], connection: Connection) -> None:
    try:
        for item in task(*connection.recv()):
            connection.send(("item", item))
        connection.send(("ended", None))
    except Exception as error:  # noqa: BLE001  # as the real one
        connection.send(("failed", error if isinstance(error, gr.Error) else type(error).__name__))


def _log(**facts: object) -> None:
    with Path(os.environ["ZERO_GPU_LOG"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
