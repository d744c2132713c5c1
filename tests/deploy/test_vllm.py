"""Exported and translated commands against the parser of the real vLLM. Chosen by hand: marker vllm."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from playground.decoding.sampling import Sampling
from playground.deploy.translate import translate
from playground.deploy.vllm import export_vllm, vllm_argv
from playground.methods import METHODS
from playground.models.catalog import PROJECT
from playground.models.wheel import SMOLLM2
from tests.deploy.test_export import plan
from tests.remote.vllm_server import build

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def verdicts(how, commands):
    """What vLLM says to the words after `vllm serve`."""
    script = Path(__file__).with_name("parse_commands.py")
    done = subprocess.run(
        [build() / "bin" / "python", script, how],
        input=json.dumps(commands).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def words(chosen):
    return [word for group in vllm_argv(chosen) for word in group][2:]


def test_every_exported_command_passes_the_parser():
    plans = [plan(method, sampling=sampling) for method in METHODS for sampling in (Sampling(), Sampling(1.0))]
    plans += [
        plan(
            method, tensor_parallel=4, pipeline_parallel=2, nodes=nodes, draft_tensor_parallel=1, settings={"batch": 8}
        )
        for method in METHODS
        for nodes in (1, 2)
    ]
    said = verdicts("parse", [words(chosen) for chosen in plans])
    assert dict(zip(map(str, plans), said, strict=True)) == dict.fromkeys(map(str, plans), "ok")


def test_vllm_makes_an_engine_of_every_exported_command(tmp_path, monkeypatch):
    """With SmolLM2 as its own draft, early exit with what its first block makes; and with the built-in models."""
    monkeypatch.chdir(tmp_path)
    folder = str(SMOLLM2.fetch())
    plans = [plan(method, target=folder, draft=folder, dtype="float32") for method in METHODS]
    (early_exit,) = [chosen for chosen in plans if chosen.method == "early-exit"]
    exec(compile(export_vllm(early_exit).blocks[0][2], "first, once", "exec"), {})
    own = {name: str(PROJECT / "assets" / "models" / name) for name in ("target", "draft")}
    plans += [plan(method, **own) for method in METHODS if method != "early-exit"]
    said = verdicts("configure", [words(chosen) for chosen in plans])
    expected = [
        f"ok {json.loads(argv[-1])['method']}" if argv[-1][0] == "{" else "ok None" for argv in map(words, plans)
    ]
    assert said == expected


OLD = [
    "--speculative-model [ngram] --num-speculative-tokens 5 --ngram-prompt-lookup-max 4 --use-v2-block-manager",
    "--speculative-model DRAFT --num-speculative-tokens 5 --speculative-draft-tensor-parallel-size 1",
    "--speculative-model DRAFT --num-speculative-tokens 5 --speculative-disable-by-batch-size 8",
    "--speculative-model x/medusa --num-speculative-tokens 3 --typical-acceptance-sampler-posterior-alpha 0.3",
    """--speculative-config '{"method": "[ngram]", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'""",
]


def test_translated_commands_are_taken_and_the_old_ones_are_not():
    folder = str(SMOLLM2.fetch())
    old = [f"vllm serve {folder} --dtype float32 {options.replace('DRAFT', folder)}" for options in OLD]
    new = [translate(command).text.replace("\\\n", " ") for command in old]
    assert all(said.startswith("ok ") for said in verdicts("configure", [shlex.split(each)[2:] for each in new]))
    refused = verdicts("parse", [shlex.split(each)[2:] for each in old[:-1]])
    assert all(not said.startswith("ok") for said in refused)
