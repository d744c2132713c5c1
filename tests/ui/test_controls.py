"""Controls are made from declared settings, and what they hold becomes a run or a sentence."""

from __future__ import annotations

import json
import math

import pytest

from playground.errors import UserError
from playground.methods import METHODS
from playground.run import LaneSpec
from playground.ui.components import describe
from playground.ui.form import run_spec

LANES = [
    {"method": "autoregressive", "settings": {}},
    {"method": "draft-model", "settings": {"k": 5, "confidence": "0.2"}},
]
FORM = {
    "prompt": "Once",
    "lanes": LANES,
    "models": "built-in",
    "max_new_tokens": 32,
    "temperature": 0.5,
    "seed": 7,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "repetition_penalty": 1,
    "chat": "auto",
    "stop": "",
}


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
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


def test_chat_and_stop_strings():
    spec = run_spec(**FORM | {"chat": "off", "stop": "\n.\nThe end\n"})
    assert spec.chat is False
    assert spec.stop == (".", "The end")


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
    ],
)
def test_bad_input_is_answered_with_a_sentence(field, value, said):
    with pytest.raises(UserError, match=said):
        run_spec(**FORM | {field: value})
