"""The page on ZeroGPU: models in memory beforehand, each run in a forked process with all that crosses over pickled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from playground.models.catalog import PROJECT
from playground.run import LaneSpec, RunSpec
from playground.ui.form import DEFAULTS
from playground.ui.zero import BEGIN_SECONDS, gpu, run_seconds
from tests.serving import free_port

STAND_IN = Path(__file__).parent / "zero_gpu"
SLOW = pytest.mark.slow  # a page is started
LANES = [{"method": "autoregressive"}, {"method": "draft-model", "settings": {"k": 2}}]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stand-in notes what it was asked for."""
    file = tmp_path_factory.mktemp("zero") / "log"
    file.touch()
    return file


@pytest.fixture(scope="module")
def address(log: Path) -> Iterator[str]:
    environment = os.environ | {
        "SPACES_ZERO_GPU": "true",
        "ZERO_GPU_LOG": str(log),
        "PYTHONPATH": os.pathsep.join([str(STAND_IN), str(PROJECT)]),
        "SPECPLAY_CACHE": str(log.parent / "cache"),
    }
    command = [sys.executable, str(STAND_IN / "page.py"), str(free_port())]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield next(line.strip() for line in server.stdout if line.startswith("http"))
        server.stdin.close()


def fetch(url: str) -> dict[str, object]:
    return json.load(urllib.request.urlopen(url))


def asked(log: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@SLOW
def test_models_are_in_memory_before_anybody_asks(address: str) -> None:
    resident = {model["name"] for model in fetch(f"{address}healthz")["resident"]}
    models = {"built-in-target", "built-in-draft", "built-in-small-target"}
    assert models < resident
    assert len(resident - models) == 2, "heads for both targets"


@SLOW
def test_the_rooms_that_work_for_long_are_left_out_and_the_header_says_so(address: str) -> None:
    parts = {part["props"].get("elem_id"): part["props"] for part in fetch(f"{address}config")["components"]}
    assert parts["header"]["props"]["lent"] is True
    assert {"stage", "lessons", "advise"} < set(parts)
    assert not {"train", "measure"} & set(parts)


@SLOW
def test_a_race_is_one_call_in_a_process_of_its_own(address: str, log: Path) -> None:
    client, before = Client(address, verbose=False), len(asked(log))
    last = json.loads(client.predict("Once upon a time", LANES, max_new_tokens=8, api_name="/race"))
    plain, drafted = last["lanes"]
    assert plain["text"] == drafted["text"] != ""
    assert drafted["summary"]["num_accepted_draft_tokens"] > 0
    (call,) = asked(log)[before:]
    lanes = tuple(LaneSpec(lane["method"]) for lane in LANES)
    assert call["seconds"] == run_seconds(RunSpec("", lanes, max_new_tokens=8))


@SLOW
def test_the_pages_own_run_streams_and_leaves_nothing_behind(address: str, log: Path) -> None:
    before, resident = len(asked(log)), fetch(f"{address}healthz")["resident"]
    first, second = (run_on_page(address, length=6) for _ in range(2))
    for messages in (first, second):
        assert messages[0]["notice"]["kind"] == "progress"
        assert messages[1]["live"]
        assert messages[-1]["end"] == "done"
        steps = [step for message in messages for _, step in message.get("steps", [])]
        assert sum(step["emitted"]["n"] for step in steps) == 6 * len(DEFAULTS["lane"])
    workers = {call["worker"] for call in asked(log)[before:]}
    assert len(workers) == 2
    health = fetch(f"{address}healthz")
    assert health["resident"] == resident
    assert health["running"] == 0


@SLOW
def test_what_is_wrong_keeps_its_sentence_across_the_border(address: str) -> None:
    client = Client(address, verbose=False)
    with pytest.raises(AppError, match="The prompt is empty"):
        client.predict("", api_name="/generate")
    (*_, last) = run_on_page(address, prompt="")
    assert "The prompt is empty" in last["notice"]["text"]


@SLOW
def test_other_models_are_refused(address: str) -> None:
    with pytest.raises(AppError, match=re.escape("'owner/name' is not in memory here")):
        Client(address, verbose=False).predict("a", models="owner/name", api_name="/generate")


def run_on_page(address: str, **changes: object) -> list[dict[str, object]]:
    """The messages that the button Run brings, made with the form's values; by plain HTTP, as a browser does."""
    values = list((DEFAULTS | changes).values())
    url = f"{address}gradio_api/call/start"
    asking = urllib.request.Request(url, json.dumps({"data": values}).encode(), {"content-type": "application/json"})
    event = json.load(urllib.request.urlopen(asking))["event_id"]
    lines = urllib.request.urlopen(f"{url}/{event}").read().decode().splitlines()
    told = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(json.loads(line)[0]) for line in told[:-1]]  # the last one repeats the one before


def test_elsewhere_a_function_stays_what_it_is() -> None:
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    assert gpu(count, lambda to: to) is count


def test_more_lanes_and_tokens_ask_for_more_time() -> None:
    lane = LaneSpec("autoregressive")
    short = run_seconds(RunSpec("", (lane,), max_new_tokens=8))
    assert BEGIN_SECONDS < short < run_seconds(RunSpec("", (lane,), max_new_tokens=80))
    assert short < run_seconds(RunSpec("", (lane, lane), max_new_tokens=8))
