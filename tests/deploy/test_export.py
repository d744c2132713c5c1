"""Exports: no method forgotten, no key that the engine lacks, every word quoted, and Python that runs."""

import ast
import json
import shutil
import subprocess

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from playground.decoding.sampling import Sampling
from playground.decoding.target import TransformersTarget
from playground.deploy import hf, others, sglang, vllm
from playground.deploy.export import ENGINES, deploy_text, export, markdown
from playground.deploy.plan import Deployment
from playground.deploy.translate import current
from playground.errors import UserError
from playground.methods import METHODS, LaneModels
from tests.models.conftest import byte_level
from tests.tiny import tiny_model
from tests.world import baseline, run_method

PROMPT = "The quick brown fox jumps over the lazy dog. The quick brown fox"
BASH = shutil.which("bash")
NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name.isprintable() and not name.startswith("-"))


def plan(method, **more):
    return Deployment(
        **({"method": method, "target": "owner/target", "draft": "owner/draft", "heads": "owner/heads"} | more)
    )


def words(argv):
    return [word for group in argv for word in group]


def option_names(argv):
    return {word[2:].replace("-", "_") for word in words(argv) if word.startswith("--")}


def run_by_bash(command, program):
    """The words that a shell makes of the command."""
    script = f"{program}() {{ printf '%s\\0' {program} \"$@\"; }}\n{command}"
    done = subprocess.run([BASH, "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("table", [vllm.OFFERS, sglang.OFFERS, hf.OFFERS, others.TGI, others.LLAMA])
def test_every_engine_says_something_to_every_method(table):
    assert table.keys() == METHODS.keys()
    for offer in table.values():
        assert offer.fit == "same" or offer.lost or offer.fit == "near", offer


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_export_says_what_fits_and_what_to_run(engine, method):
    text = markdown(export(plan(method), engine))
    assert "### " in text
    assert "```" in text
    assert any(say in text for say in ("has this method", "in part", "has no such method"))


@pytest.mark.parametrize("method", METHODS)
def test_vllm_knows_every_key(method):
    chosen = plan(
        method, tensor_parallel=2, pipeline_parallel=2, nodes=2, draft_tensor_parallel=1, sampling=Sampling(1.0)
    )
    config = vllm.speculative_config(chosen)
    assert config.keys() <= current("vllm", "speculative_config")
    assert not config or config["method"] in current("vllm", "methods")
    assert option_names(vllm.vllm_argv(chosen)) <= current("vllm", "options")


@pytest.mark.parametrize("method", METHODS)
def test_sglang_knows_every_option(method):
    chosen = plan(method, tensor_parallel=2, pipeline_parallel=2)
    assert option_names(sglang.sglang_argv(chosen)) <= current("sglang", "options")
    assert {"nnodes", "node_rank", "dist_init_addr"} <= current("sglang", "options")


def test_settings_reach_the_engines():
    lookup = plan("prompt-lookup", settings={"k": 7, "max_ngram": 2, "batch": 4})
    assert vllm.speculative_config(lookup) == {
        "method": "ngram",
        "num_speculative_tokens": 7,
        "prompt_lookup_max": 2,
        "prompt_lookup_min": 1,
    }
    assert "--max-num-seqs 4" in " ".join(words(vllm.vllm_argv(lookup)))
    draft = plan("draft-model", settings={"k": 3, "confidence": 0.4}, draft_tensor_parallel=1)
    assert vllm.speculative_config(draft) == {
        "method": "draft_model",
        "model": "owner/draft",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 1,
    }
    assert (
        vllm.speculative_config(plan("draft-model", sampling=Sampling(1.0)))["draft_sample_method"] == "probabilistic"
    )
    assert any("always drafts k tokens" in note for note in export(draft, "vllm").notes)
    assert not any("always drafts k tokens" in note for note in export(plan("draft-model"), "vllm").notes)
    sg = " ".join(words(sglang.sglang_argv(draft)))
    assert "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4" in sg
    assert vllm.speculative_config(plan("lookahead", settings={"ngram": 7}))["num_speculative_tokens"] == 6
    assert vllm.speculative_config(plan("jacobi", settings={"block": 9}))["num_speculative_tokens"] == 9


@pytest.mark.parametrize("method", ["medusa", "lookahead", "jacobi"])
def test_what_an_engine_lacks_is_said_with_what_is_lost(method):
    for engine in ("vllm", "sglang", "transformers"):
        found = export(plan(method), engine)
        assert found.fit == "none"
        assert any("lost" in note.lower() or "cannot be used" in note for note in found.notes)
    assert "vLLM dropped Medusa" in deploy_text(plan("medusa"), "vllm")


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@given(NAMES, NAMES)
def test_a_shell_reads_back_the_words_that_were_meant(target, draft):
    chosen = plan("draft-model", target=target, draft=draft)
    title, language, command = export(chosen, "vllm").blocks[0]
    assert (title, language) == ("Server", "bash")
    assert run_by_bash(command, "vllm") == words(vllm.vllm_argv(chosen))
    config = run_by_bash(command, "vllm")[-1]
    assert json.loads(config)["model"] == draft


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_script_for_several_gpus_is_a_script(nodes):
    chosen = plan("draft-model", tensor_parallel=4, pipeline_parallel=2, nodes=nodes, target="it's")
    ((_, _, script),) = [block for block in export(chosen, "vllm").blocks if block[0].startswith("Several")]
    subprocess.run([BASH, "-n"], input=script.encode(), check=True)
    assert ("ray start" in script) == (nodes == 2)
    assert "--tensor-parallel-size 4" in script
    assert "draft_tensor_parallel_size" in script


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chat", [False, True])
def test_the_python_form_holds_the_same_configuration(method, chat):
    chosen = plan(method, target='it\'s "so"', chat=chat, tensor_parallel=2)
    ((_, _, code),) = [block for block in export(chosen, "vllm").blocks if block[0] == "Python"]
    calls = [
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    (arguments,) = [
        {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        for call in calls
        if call.func.id == "LLM"
    ]
    assert arguments["model"] == 'it\'s "so"'
    assert arguments["tensor_parallel_size"] == 2
    assert arguments.get("speculative_config", {}) == vllm.speculative_config(chosen)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"method": "magic"}, "no method called"),
        ({"settings": {"depth": 3}}, "no setting called"),
        ({"settings": {"k": 0}}, "k is 0"),
        ({"draft": None}, "needs a draft model"),
        ({"target": ""}, "No target model"),
        ({"target": "--trust-remote-code"}, "cannot be the name"),
        ({"draft": "a\nb"}, "cannot be the name"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0"),
        ({"tensor_parallel": 3, "nodes": 2}, "evenly over 2"),
        ({"tensor_parallel": 4, "draft_tensor_parallel": 2}, "allow 1 or the target's 4"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_a_sentence(more, says):
    with pytest.raises(UserError, match=says):
        plan(**({"method": "draft-model"} | more))


def test_an_unknown_engine():
    with pytest.raises(UserError, match=r"Engines: vllm, sglang, transformers, tgi, llama\.cpp"):
        deploy_text(plan("prompt-lookup"), "triton")


def test_markdown_cannot_be_broken_out_of():
    text = deploy_text(plan("prompt-lookup", target="a```b"), "vllm")
    assert text.count("````bash") == 1


# --- transformers: the scripts run here -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny target and a tiny draft as folders, with a tokenizer."""
    root, tokenizer = tmp_path_factory.mktemp("models"), byte_level()
    for name, seed in (("target", 1), ("draft", 2)):
        tiny_model("llama", seed, len(tokenizer)).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


def run_script(code):
    names = {}
    exec(compile(code, "script", "exec"), names)
    return names["output"][:, names["inputs"]["input_ids"].shape[1] :].tolist()


@pytest.fixture(scope="module")
def expected(folders):
    model = AutoModelForCausalLM.from_pretrained(folders / "target")
    prompt = byte_level().encode(PROMPT)
    models = LaneModels(TransformersTarget(model, "tiny", eos_ids=()))
    return baseline(models, prompt, Sampling(), max_new_tokens=24)


@pytest.mark.parametrize("method", METHODS)
def test_the_script_for_transformers_runs_and_yields_our_ids(folders, expected, method, capsys):
    settings = {"early-exit": {"exit_layer": 1}, "naive-batching": {"batch": 2}}.get(method, {})
    chosen = plan(
        method,
        target=str(folders / "target"),
        draft=str(folders / "draft"),
        settings=settings,
        prompt=PROMPT,
        max_new_tokens=24,
        dtype="float32",
    )
    ((_, language, code),) = export(chosen, "transformers").blocks
    assert language == "python"
    rows = run_script(code)
    assert rows == [expected] * settings.get("batch", 1)
    assert capsys.readouterr().out.strip()


def test_the_script_passes_the_settings_on(folders):
    chosen = plan(
        "draft-model",
        target=str(folders / "target"),
        draft=str(folders / "draft"),
        settings={"k": 3, "confidence": 0.25},
        sampling=Sampling(0.8, 20, 0.9, 0.05, 1.1, 7),
        chat=True,
        max_new_tokens=8,
    )
    ((_, _, code),) = export(chosen, "transformers").blocks
    names = {}
    exec(compile(code, "script", "exec"), names)
    generation = names["assistant"].generation_config
    assert (generation.num_assistant_tokens, generation.num_assistant_tokens_schedule) == (3, "constant")
    assert generation.assistant_confidence_threshold == 0.25
    assert "temperature=0.8" in code
    assert "min_p=0.05" in code
    assert names["output"].shape[1] <= names["inputs"]["input_ids"].shape[1] + 8


def test_the_draft_that_early_exit_becomes_for_vllm_drafts_the_same(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = str(folders / "target")
    title, _, code = export(plan("early-exit", target=target, settings={"exit_layer": 1}), "vllm").blocks[0]
    assert title == "First, once"
    exec(compile(code, "script", "exec"), {})
    cut = AutoModelForCausalLM.from_pretrained(tmp_path / "first-1-layers")
    assert cut.config.num_hidden_layers == 1
    whole = TransformersTarget(AutoModelForCausalLM.from_pretrained(target), "tiny", eos_ids=())
    models = LaneModels(whole, TransformersTarget(cut, "cut", eos_ids=()))
    prompt = byte_level().encode(PROMPT)
    drafts = []
    for method, settings in (("early-exit", {"exit_layer": 1, "k": 4}), ("draft-model", {"k": 4})):
        _, steps = run_method(METHODS[method], models, prompt, Sampling(), settings=settings, max_new_tokens=16)
        drafts.append([[node.token for node in step.nodes] for step in steps])
    assert drafts[0] == drafts[1]
    assert torch.equal(cut.lm_head.weight, whole.model.lm_head.weight)
