"""What the panel says: exports for the lane in focus, translations, and sentences where there is neither."""

from __future__ import annotations

import json

import pytest

from playground.decoding.trace import Trace
from playground.models.catalog import load_catalog
from playground.ui.deploy_panel import NO_RUN, WHOLE, exports, translation
from playground.ui.wire import stream
from tests.ui import traces

CATALOG = load_catalog()


def seen(trace: Trace, lane: int) -> str:
    """What the stage tells of itself."""
    (opening, *_) = stream(trace, [], "run")
    return json.dumps({"header": json.loads(opening)["header"], "lane": lane})


def shown(trace: Trace, lane: int = 1, engine: str = "vllm", **choices: object) -> str:
    machines = {"tensor": 1, "pipeline": 1, "nodes": 1, "draft": "like the target", "dtype": "auto"}
    return exports(CATALOG, seen(trace, lane), engine, *(machines | choices).values())


def race() -> Trace:
    trace = traces.race()
    trace.lanes[1].models = {"target": "smollm2-1.7b", "draft": "smollm2-135m"}
    trace.lanes[1].sampling["seed"] = 2**64 - 1
    return trace


@pytest.mark.parametrize(
    ("engine", "command"),
    [
        ("vllm", "vllm serve HuggingFaceTB/SmolLM2-1.7B-Instruct"),
        ("sglang", "--speculative-draft-model-path HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("transformers", "AutoModelForCausalLM.from_pretrained('HuggingFaceTB/SmolLM2-135M-Instruct'"),
        ("tgi", "text-generation-launcher"),
        ("llama.cpp", "llama-server"),
    ],
)
def test_the_lane_in_focus_is_exported(engine, command):
    text = shown(race(), engine=engine)
    assert text.startswith("**Lane 2, Draft model**")
    assert command in text


def test_machines_reach_the_export():
    text = shown(race(), tensor=4, pipeline=2, nodes=2, draft=WHOLE, dtype="bfloat16")
    for part in ("--tensor-parallel-size 4", "--pipeline-parallel-size 2", "ray start", "--dtype bfloat16"):
        assert part in text
    assert '"draft_tensor_parallel_size": 1' in text


def test_another_lane_is_another_export():
    trace = race()
    trace.lanes[0].models = {"target": "smollm2-135m"}
    assert "no speculation" in shown(trace, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (lambda: exports(CATALOG, "", "vllm", 1, 1, 1, WHOLE, "auto"), NO_RUN),
        (lambda: exports(CATALOG, '{"header": "", "lane": 0}', "vllm", 1, 1, 1, WHOLE, "auto"), NO_RUN),
        (lambda: exports(CATALOG, '{"header": "{}", "lane": 0}', "vllm", 1, 1, 1, WHOLE, "auto"), "not a trace"),
        (lambda: exports(CATALOG, "oops", "vllm", 1, 1, 1, WHOLE, "auto"), "cannot be read"),
        (lambda: exports(CATALOG, "[1]", "vllm", 1, 1, 1, WHOLE, "auto"), "The stage holds"),
        (lambda: shown(race(), tensor=None), "Tensor parallel is empty"),
        (lambda: shown(race(), nodes=float("inf")), "Machines holds inf"),
        (lambda: shown(race(), tensor=1.5), "Tensor parallel is 1.5"),
        (lambda: shown(race(), tensor=0), "tensor_parallel is 0"),
        (lambda: shown(race(), nodes=2), "cannot be spread evenly"),
        (lambda: shown(race(), engine="triton"), "no export for 'triton'"),
        (lambda: shown(traces.served()), "is in production already"),
        (lambda: translation(""), "nothing to translate"),
        (lambda: translation("ls -l"), "Nothing here looks like"),
    ],
)
def test_where_there_is_nothing_to_show_a_sentence_says_why(text, says):
    assert says in text()


def test_an_old_command_is_translated_key_by_key():
    text = translation("vllm serve big --speculative-model [ngram] --num-speculative-tokens 5")
    assert '"method": "ngram"' in text
    assert "| `--num-speculative-tokens 5` |" in text
