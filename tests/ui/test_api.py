"""The page's calls for programs, made the way a program makes them; and what the page keeps to itself."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from playground.decoding.codec import decode_value
from playground.decoding.trace import Step, summarize
from playground.models.store import ModelStore
from playground.ui.page import build_page
from tests.serving import served

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def address():
    with served(build_page(ModelStore())) as address:
        yield address


@pytest.fixture(scope="module")
def client(address):
    return Client(address, verbose=False)


def test_only_three_calls_are_public(client):
    calls = client.view_api(return_format="dict")
    assert set(calls["named_endpoints"]) == {"/generate", "/race", "/models"}
    assert calls["unnamed_endpoints"] == {}


def test_generate_streams_text_and_steps_and_ends_with_the_summary(client):
    answers = list(
        map(json.loads, client.submit("Once upon a time", method="jacobi", max_new_tokens=12, api_name="/generate"))
    )
    *running, last = answers
    assert running
    assert not any(answer["done"] for answer in running)
    steps = [decode_value(Step, step, "step") for answer in answers for step in answer["steps"]]
    assert last["done"]
    assert last["summary"]["output_token_ids"] == summarize(steps).output_token_ids
    assert len(summarize(steps).output_token_ids) == 12
    assert last["text"] == "".join(token.text for step in steps for token in step.emitted)
    assert all(last["text"].startswith(answer["text"]) for answer in running)


def test_race_keeps_lanes_apart(client):
    lanes = [{"method": "autoregressive"}, {"method": "draft-model", "settings": {"k": 2}}]
    last = json.loads(client.predict("Once upon a time", lanes, max_new_tokens=8, api_name="/race"))
    assert [lane["title"] for lane in last["lanes"]] == ["Autoregressive", "Draft model"]
    assert last["lanes"][0]["text"] == last["lanes"][1]["text"]
    assert all(len(lane["summary"]["output_token_ids"]) == 8 for lane in last["lanes"])


def test_models_tells_what_is_here(client):
    families = {family["id"]: family for family in client.predict(api_name="/models")}
    assert all(model["here"] for model in families["built-in"]["models"])


@pytest.mark.parametrize(
    ("call", "given", "said"),
    [
        ("/generate", {"prompt": "a", "method": "telepathy"}, "no method called 'telepathy'"),
        ("/generate", {"prompt": "a", "settings": {"k": 0}}, "k is 0"),
        ("/generate", {"prompt": 5}, "Prompt holds 5"),
        ("/generate", {"prompt": ""}, "The prompt is empty"),
        ("/generate", {"prompt": "a", "stop": "x"}, "stop holds 'x'"),
        ("/generate", {"prompt": "a", "max_new_tokens": "many"}, "Length holds 'many'"),
        ("/race", {"prompt": "a", "lanes": []}, "A run has 1 to"),
        ("/race", {"prompt": "a", "lanes": "jacobi"}, "Lanes holds 'jacobi'"),
    ],
)
def test_what_cannot_be_run_is_a_sentence(client, call, given, said):
    with pytest.raises(AppError, match=re.escape(said)):
        client.predict(**given, api_name=call)


def ask(address, call, data):
    """A call by plain HTTP: the events of its answer."""
    url = f"{address}gradio_api/call/{call}"
    asked = urllib.request.Request(url, json.dumps({"data": data}).encode(), {"content-type": "application/json"})
    event = json.load(urllib.request.urlopen(asked))["event_id"]
    return urllib.request.urlopen(f"{url}/{event}").read().decode()


@pytest.mark.parametrize("call", ["start", "fetch_named", "fitting", "link"])
def test_a_private_call_with_nothing_in_it_is_a_sentence(address, call):
    answer = ask(address, call, [])
    assert "event: error" in answer
    assert "It belongs to the page; programs call generate, race and models." in answer


def test_values_left_out_take_their_defaults_and_a_missing_prompt_is_a_sentence(address):
    assert "The prompt is empty" in ask(address, "generate", [])
    assert "Lanes holds None" in ask(address, "race", ["a"])
    assert '"here": true' in ask(address, "models", [])
    assert "event: complete" in ask(address, "generate", ["Once", "autoregressive", None, "built-in", "", "", "", 2])


def test_the_readme_s_example_runs(address, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(code.replace("http://127.0.0.1:7860", address), {})
    shown = capsys.readouterr().out
    assert "tokens a pass" in shown
    assert "built-in" in shown
