"""Names of the playground become names that an engine finds, and what a lane was becomes what is deployed."""

from __future__ import annotations

import pytest

from playground.decoding.sampling import Sampling
from playground.decoding.trace import Lane, Trace
from playground.deploy.export import deploy_text
from playground.deploy.named import chosen, of_lane
from playground.errors import UserError
from playground.models.catalog import PROJECT, load_catalog

CATALOG = load_catalog()


def lane(**given) -> Trace:
    fields = {
        "method": "draft-model",
        "title": "Draft model",
        "settings": {"k": 3, "confidence": 0.0, "batch": 1},
        "models": {"target": "smollm2-1.7b", "draft": "smollm2-135m"},
        "sampling": {"temperature": 0.5, "top_k": 5, "seed": 2**63},
        "lossless": "distribution",
        "prompt_ids": [1],
        "prompt": "Once",
        "chat": True,
    }
    return Trace([Lane(**(fields | given))], max_new_tokens=20)


def test_a_family_brings_its_partners_and_is_called_by_its_hub_ids():
    plan, notes = chosen(CATALOG, "draft-model", {"k": 3}, "smollm2-1.7b")
    assert (plan.target, plan.draft) == ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct")
    assert notes == []
    medusa, _ = chosen(CATALOG, "medusa", {}, "vicuna-7b")
    assert medusa.heads == "FasterDecoding/medusa-vicuna-7b-v1.3"
    hybrid, _ = chosen(CATALOG, "medusa-draft", {}, "vicuna-33b")
    assert hybrid.draft == "lmsys/vicuna-7b-v1.3"


def test_every_target_of_the_catalog_has_a_name_that_is_found():
    for family in CATALOG.families:
        plan, notes = chosen(CATALOG, "prompt-lookup", {}, family)
        if notes:
            assert (PROJECT / plan.target / "config.json").exists()
        else:
            assert plan.target.count("/") == 1


def test_what_comes_with_the_project_is_a_path_and_a_sentence():
    plan, notes = chosen(CATALOG, "draft-model", {}, "built-in")
    assert (plan.target, plan.draft) == ("assets/models/target", "assets/models/draft")
    assert notes[0].startswith("`built-in-target` is on no hub: it is the folder `assets/models/target` of")
    assert deploy_text(plan, "vllm", notes).startswith("- `built-in-target` is on no hub")


def test_names_of_ones_own_stay():
    plan, _ = chosen(CATALOG, "draft-model", {}, "./my model", "owner/draft")
    assert (plan.target, plan.draft) == ("my model", "owner/draft")
    _, notes = chosen(CATALOG, "autoregressive", {}, "owner/target@abc123")
    assert notes == ["`owner/target` ran at revision `abc123`: pin that one too."]


def test_a_lane_is_deployed_as_it_ran():
    plan, notes = of_lane(CATALOG, lane(), 0)
    assert (plan.method, plan.checked["k"]) == ("draft-model", 3)
    assert (plan.target, plan.draft) == ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct")
    assert plan.sampling == Sampling(0.5, 5, seed=2**63)
    assert (plan.prompt, plan.chat, plan.max_new_tokens) == ("Once", True, 20)
    assert notes == []


def test_a_folder_that_a_trace_names_is_put_in_by_the_user():
    plan, notes = of_lane(CATALOG, lane(models={"target": "my-model", "draft": "owner/draft@v1"}), 0)
    assert (plan.target, plan.draft) == ("my-model", "owner/draft")
    assert notes == [
        "`my-model` is a folder or file of the machine that made this run: put its path there.",
        "`owner/draft` ran at revision `v1`: pin that one too.",
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "vllm", "title": "vLLM at host"}, "vLLM at host is in production already"),
        ({"method": "telepathy"}, "no method called 'telepathy'"),
        ({"settings": {"depth": 3}}, "no setting called 'depth'"),
        ({"models": {"target": "smollm2-1.7b"}}, "needs a draft model"),
        ({"models": {"draft": "smollm2-135m"}}, "No target model is named"),
        ({"models": {"target": "--trust-remote-code", "draft": "x"}}, "cannot be the name of a model"),
        ({"models": {"target": "a/b/c", "draft": "x"}}, "a/b/c"),
        ({"sampling": {"warmth": 1}}, "warmth"),
        ({"sampling": {"temperature": -1}}, "temperature is -1"),
    ],
)
def test_a_lane_that_cannot_be_deployed_says_why(given, says):
    with pytest.raises(UserError, match=says):
        of_lane(CATALOG, lane(**given), 0)


def test_without_a_run_there_is_nothing_to_deploy():
    with pytest.raises(UserError, match="There is no run yet"):
        of_lane(CATALOG, Trace([]), 0)
