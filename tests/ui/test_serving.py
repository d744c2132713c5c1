"""What the server says beside the page: /healthz, headers, sizes, the log of a real run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from playground import __version__
from playground.models.store import ModelStore
from playground.ui.components import PLOTLY
from playground.ui.limits import STRANGERS
from playground.ui.page import build_page
from playground.ui.serving import HEADERS
from tests.serving import free_port, served

PROJECT = Path(__file__).parents[2]
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def address():
    """A page for strangers, whose runs are short and whose uploads are small."""
    page = build_page(ModelStore(), allow_local=False, limits=replace(STRANGERS, tokens=64, upload=1))
    with served(page) as address:
        yield address


def health(address: str) -> dict[str, object]:
    return httpx.get(f"{address}healthz").json()


def test_healthz_tells_what_is_resident_and_nothing_more(address: str) -> None:
    first = health(address)
    assert first == {"status": "ok", "version": __version__, "resident": [], "running": 0, "waiting": 0}
    with closing(Client(address, verbose=False)) as client:
        client.predict(PROMPT, method="jacobi", max_new_tokens=2, api_name="/generate")
    (resident,) = health(address)["resident"]
    assert (resident["name"], resident["kind"], resident["leases"]) == ("built-in-target", "model", 0)
    assert resident["size"] > 1e6


@pytest.mark.parametrize(
    "path", ["", "healthz", "config", f"gradio_api/file={PLOTLY}", "gradio_api/info", "no-such-page", "theme.css"]
)
def test_every_answer_carries_the_headers(address: str, path: str) -> None:
    answer = httpx.get(f"{address}{path}")
    for name, value in HEADERS.items():
        assert answer.headers[name] == value, path


def test_files_of_the_page_s_own_script_carry_them_too(address: str) -> None:
    (script, *_) = re.findall(r'src="\./(assets/[^"]+\.js)"', httpx.get(address).text)
    answer = httpx.get(f"{address}{script}")
    assert answer.status_code == 200
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_space_may_show_the_page_in_a_frame_and_others_may_not() -> None:
    (frames,) = re.findall(r"frame-ancestors ([^;]*)", HEADERS["Content-Security-Policy"])
    assert frames.split() == ["'self'", "https://huggingface.co", "https://*.huggingface.co", "https://*.hf.space"]


@pytest.mark.parametrize(("size", "status"), [(900_000, 200), (1_200_000, 413)])
def test_an_upload_may_be_so_large(address: str, size: int, status: int) -> None:
    answer = httpx.post(f"{address}gradio_api/upload", files={"files": ("trace.jsonl", b"x" * size)})
    assert answer.status_code == status
    if status == 413:
        assert "1048576 bytes" in answer.text


def test_programs_are_held_to_the_limits(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(Client(address, verbose=False)) as client:
        for asked, said in (
            ({"max_new_tokens": 65}, "65 tokens to write; here at most 64"),
            ({"prompt": "x" * 8_001, "max_new_tokens": 2}, "8,001 characters of prompt; here at most 8,000"),
        ):
            with pytest.raises(AppError, match=said):
                client.predict(**({"prompt": PROMPT} | asked), api_name="/generate")
        with pytest.raises(AppError, match="5 lanes; here at most 4"):
            client.predict(PROMPT, [{"method": "jacobi"}] * 5, max_new_tokens=2, api_name="/race")
    assert "Traceback" not in capfd.readouterr().err, "a refusal is no defect, and may quote what was asked"


def test_a_call_that_is_left_is_told_and_its_place_is_free(address: str, told: list[dict[str, object]]) -> None:
    lanes = [{"method": name} for name in ("autoregressive", "jacobi", "lookahead")]
    with closing(Client(address, verbose=False)) as client:
        left = client.submit(PROMPT, lanes, max_new_tokens=64, api_name="/race")
        next(left)
        assert health(address)["running"] == 1
        left.cancel()
        deadline = time.monotonic() + 60
        while health(address)["running"] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert health(address)["running"] == 0
    assert [line["event"] for line in told] == ["run started", "run cancelled"]


def test_the_log_of_a_run_has_no_word_of_it(address: str, told: list[dict[str, object]]) -> None:
    with closing(Client(address, verbose=False)) as client:
        last = json.loads(client.predict(PROMPT, method="jacobi", max_new_tokens=4, api_name="/generate"))
    started, ended = told
    assert (started["event"], ended["event"]) == ("run started", "run ended")
    (lane,) = ended["lanes"]
    assert (lane["method"], lane["tokens"], lane["finish"]) == ("jacobi", 4, "length")
    assert lane["models"] == {"target": "built-in-target"}
    assert PROMPT not in json.dumps(told)
    assert last["text"].strip() not in json.dumps(told)


@pytest.mark.slow
def test_python_app_py_answers_healthz_and_logs_on_a_space() -> None:
    port = free_port()
    environment = os.environ | {"GRADIO_SERVER_PORT": str(port), "SPACE_ID": "", "SPECPLAY_MAX_TOKENS": "8"}
    command = [sys.executable, "app.py"]
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = f"http://127.0.0.1:{port}/"
            assert wait_for(f"{address}healthz")["status"] == "ok"
            with closing(Client(address, verbose=False)) as client:
                with pytest.raises(AppError, match="9 tokens to write; here at most 8"):
                    client.predict(PROMPT, max_new_tokens=9, api_name="/generate")
                client.predict(PROMPT, method="jacobi", max_new_tokens=4, api_name="/generate")
        finally:
            server.terminate()
            told = [json.loads(line) for line in server.communicate()[1].splitlines() if line.startswith("{")]
    assert [line["event"] for line in told] == ["run started", "run ended"]


@pytest.mark.slow
def test_python_app_py_ends_with_a_sentence_where_a_limit_is_none() -> None:
    environment = os.environ | {"SPECPLAY_MAX_RUNS": "many"}
    done = subprocess.run([sys.executable, "app.py"], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("The environment variable SPECPLAY_MAX_RUNS is 'many'")


def test_the_container_s_health_check_asks_for_health() -> None:
    (url,) = re.findall(r"^HEALTHCHECK .*urlopen\('([^']+)'", (PROJECT / "Dockerfile").read_text(), re.M)
    assert url == "http://127.0.0.1:7860/healthz"


def wait_for(url: str) -> dict[str, object]:
    for _ in range(240):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except (HTTPError, OSError):
            time.sleep(0.5)
    pytest.fail(f"{url} did not answer within two minutes")
