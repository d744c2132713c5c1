"""Controls are made from declared settings, and what they hold becomes a run or a sentence."""

from __future__ import annotations

import json
import math

import gradio as gr
import pytest

from playground.errors import UserError
from playground.methods import METHODS
from playground.models.catalog import load_catalog
from playground.models.store import ModelStore
from playground.run import LaneSpec, lane_kinds
from playground.ui.components import describe
from playground.ui.form import make_form, run_spec
from playground.ui.model_controls import family_choices
from playground.ui.page import build_page

LANES = [
    {"method": "autoregressive", "settings": {}},
    {"method": "draft-model", "settings": {"k": 5, "confidence": "0.2"}},
]
FORM = {
    "prompt": "Once",
    "lanes": LANES,
    "models": "built-in",
    "draft": "",
    "heads": None,
    "draft_heads": "",
    "max_new_tokens": 32,
    "temperature": 0.5,
    "seed": 7,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "repetition_penalty": 1,
    "chat": "auto",
    "system": "",
    "stop": "",
}


@pytest.mark.parametrize("method", lane_kinds().values(), ids=list(lane_kinds()))
def test_every_declared_setting_is_described_in_full(method):
    described = describe(method)
    json.dumps(described, allow_nan=False)
    assert [entry["name"] for entry in described["settings"]] == [setting.name for setting in method.settings]
    for entry, setting in zip(described["settings"], method.settings, strict=True):
        assert entry["kind"] in ("int", "float", "choice", "bool", "text")
        assert setting.parse(entry["default"]) == setting.default
        for bound in ("minimum", "maximum"):
            declared = getattr(setting, bound)
            assert entry[bound] == (declared if math.isfinite(declared) else None)
        assert set(entry["choices"]) == set(setting.choices)


def test_the_form_becomes_a_run():
    spec = run_spec(**FORM)
    assert spec.lanes[0].method == "autoregressive"
    assert spec.lanes[1] == LaneSpec("draft-model", METHODS["draft-model"].check({"k": 5, "confidence": 0.2}))
    assert (spec.temperature, spec.seed, spec.max_new_tokens, spec.chat, spec.stop) == (0.5, 7, 32, None, ())


def test_a_server_is_a_lane_like_any_other():
    picked = {"method": "vllm", "settings": {"server": "http://host:8000"}}
    spec = run_spec(**FORM | {"lanes": [*LANES, picked]})
    assert spec.lanes[2].settings == {"server": "http://host:8000", "model": ""}


def test_chat_and_stop_strings():
    spec = run_spec(**FORM | {"chat": "off", "stop": "\n.\nThe end\n"})
    assert spec.chat is False
    assert spec.stop == (".", "The end")


def test_empty_names_are_the_family_s_own_and_given_ones_reach_every_lane():
    assert run_spec(**FORM).lanes[1].draft is run_spec(**FORM).lanes[1].heads is None
    named = {"models": " me/target ", "draft": "me/draft", "heads": "heads.pt", "draft_heads": " ./draft-heads"}
    for lane in run_spec(**FORM | named).lanes:
        assert (lane.target, lane.draft, lane.heads, lane.draft_heads) == (
            "me/target",
            "me/draft",
            "heads.pt",
            "./draft-heads",
        )


def test_a_system_prompt_is_passed_on_and_an_empty_one_is_none():
    assert run_spec(**FORM).system is None
    assert run_spec(**FORM | {"system": "Answer in rhymes."}).system == "Answer in rhymes."


CATALOG = """
[models]
here = { folder = "here", licence = "mit" }
away = { folder = "away", licence = "mit" }
[families]
far = { title = "Far", about = "", hardware = "16 GB GPU", target = "away", draft = "here" }
near = { title = "Near", about = "", hardware = "laptop", target = "here" }
half = { title = "Half", about = "", hardware = "laptop", target = "here", draft = "away" }
"""


def test_families_on_this_machine_come_first_and_say_their_hardware(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "catalog.toml").write_text(CATALOG)
    assert family_choices(load_catalog(tmp_path / "catalog.toml", tmp_path)) == [
        ("Near · near · laptop, on this machine", "near"),
        ("Half · half · laptop, partly on this machine", "half"),
        ("Far · far · 16 GB GPU", "far"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", None, "Temperature is empty"),
        ("seed", 1.5, "Seed is 1.5"),
        ("max_new_tokens", None, "Length is empty"),
        ("lanes", [{"method": "draft-model", "settings": {"k": 0}}], "k is 0"),
        ("lanes", [{"method": "draft-model", "settings": {"k": 1000}}], "k is 1000"),
        ("lanes", [{"method": "draft-model", "settings": {"k": ""}}], "k is ''"),
        ("lanes", [{"method": "telepathy", "settings": {}}], "no method called 'telepathy'"),
        ("lanes", [{"method": "draft-model", "settings": {"q": 1}}], "no setting called 'q'"),
        ("lanes", None, "Lanes holds None"),
        ("lanes", 5, "Lanes holds 5"),
        ("lanes", ["jacobi"], "Lanes.0. holds 'jacobi'"),
        ("lanes", [{}], "lacks the field 'method'"),
        ("lanes", [{"method": []}], "method holds"),
        ("lanes", [{"method": "jacobi", "settings": ["block"]}], "settings holds"),
        ("lanes", [{"method": "jacobi", "settings": None}], "settings holds None"),
        ("prompt", 5, "Prompt holds 5"),
        ("models", ["built-in"], "Models holds"),
        ("draft", {"a": 1}, "A model holds"),
        ("system", 5, "System prompt holds 5"),
        ("stop", ["x"], "Stop strings holds"),
        ("max_new_tokens", math.inf, "Length holds inf"),
        ("seed", 10**400, "Seed holds"),
        ("temperature", math.nan, "Temperature holds nan"),
        ("top_p", "much", "Top-p holds 'much'"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(field, value, said):
    with pytest.raises(UserError, match=said):
        run_spec(**FORM | {field: value})


def test_no_number_of_the_page_is_refused_before_the_page_is_asked():
    numbers = [block for block in build_page(ModelStore(limit=0)).blocks.values() if isinstance(block, gr.Number)]
    assert len(numbers) > 5
    for number in numbers:
        for value in (-1, 0, 2, 3.5, 10**9):
            assert number.preprocess(value) == value, "a bound of Gradio's own breaks off the run, or rounds unasked"


@pytest.mark.parametrize("allow_local", [True, False])
def test_servers_are_offered_where_no_strangers_are(allow_local):
    with gr.Blocks():
        (_, lanes, *_) = make_form(load_catalog(), allow_local).fields
    offered = [kind["id"] for kind in lanes.props["methods"]]
    assert offered == [*METHODS, *(["vllm"] if allow_local else [])]
