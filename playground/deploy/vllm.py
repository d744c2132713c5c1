"""Exports for vLLM: the server's command, the Python form, and the script for several GPUs and machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pprint import pformat
from textwrap import indent

from playground.deploy.plan import Deployment, Export, Literals, Offer, flags, shell

VERSION = "keys of 0.33.0; commands parsed by 0.32.0"

NGRAM: dict[str, Literals] = {
    "method": "ngram",
    "num_speculative_tokens": "$k",
    "prompt_lookup_max": "$max_ngram",
    "prompt_lookup_min": 1,
}
DRAFT_MODEL: dict[str, Literals] = {
    "method": "draft_model",
    "model": "$draft",
    "num_speculative_tokens": "$k",
    "draft_sample_method": "$draft_sample",
    "draft_tensor_parallel_size": "$draft_tp",
}
CONFIDENCE = {"confidence": (0.0, "vLLM always drafts k tokens: it has no stop at low confidence.")}
SAME_VOCABULARY = (
    'vLLM wants equal vocabulary sizes. Where they differ, add "use_heterogeneous_vocab": true (greedy drafts only).'
)
NO_TRAINING = "n-gram speculation needs nothing trained: it copies what followed the same words before."
CUT_MODEL = "first-{exit_layer}-layers"
CUT = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

# The draft: the first {exit_layer} layers, the final norm and the head of the target, as a model of its own.
draft = AutoModelForCausalLM.from_pretrained({target!r}, num_hidden_layers={exit_layer}, dtype="auto")
draft.save_pretrained({cut!r})
AutoTokenizer.from_pretrained({target!r}).save_pretrained({cut!r})
"""

OFFERS: dict[str, Offer] = {
    "autoregressive": Offer("no speculation", "same"),
    "naive-batching": Offer(
        "continuous batching",
        "near",
        lost=("vLLM batches better than naively: a row that has ended makes room at once for the next request.",),
    ),
    "draft-model": Offer("draft_model", "same", DRAFT_MODEL, (SAME_VOCABULARY,), CONFIDENCE),
    "prompt-lookup": Offer(
        "ngram",
        "same",
        NGRAM,
        ("vLLM copies from the first place where the words occurred, this project from the latest.",),
    ),
    "medusa": Offer(
        "ngram",
        "none",
        NGRAM,
        (
            "vLLM dropped Medusa (it is in no part of 0.33.0). Your heads cannot be used, and neither can their tree.",
            "The heads of today are EAGLE-3 heads, trained for the same target: "
            '{"method": "eagle3", "model": "<head>", "num_speculative_tokens": 4}.',
            NO_TRAINING,
        ),
    ),
    "lookahead": Offer(
        "ngram",
        "none",
        NGRAM,
        (
            "vLLM has no Lookahead. Lost: n-grams that the target's own window finds before they occur.",
            NO_TRAINING,
        ),
    ),
    "jacobi": Offer(
        "ngram",
        "none",
        NGRAM,
        (
            "vLLM has no Jacobi decoding with the target (XPress heads refine their drafts that way). Lost: guesses "
            "that the target iterates until they stop changing.",
            NO_TRAINING,
        ),
    ),
    "medusa-draft": Offer(
        "draft_model",
        "near",
        DRAFT_MODEL,
        ("Lost: the draft model's Medusa heads. The same draft model runs k passes for k tokens.", SAME_VOCABULARY),
        CONFIDENCE,
    ),
    "early-exit": Offer(
        "draft_model",
        "near",
        DRAFT_MODEL,
        (
            "The drafts are the same, but the draft is a model of its own: the target cannot reuse what its first "
            "layers have computed, and they take their memory twice.",
        ),
        prepare=CUT,
    ),
    "cascade": Offer(
        "draft_model",
        "near",
        DRAFT_MODEL,
        ("A vLLM server has one drafter. Lost: prompt lookup, which is tried first here.", SAME_VOCABULARY),
        CONFIDENCE,
    ),
}


def vllm_argv(plan: Deployment) -> list[list[str]]:
    """The words of the `vllm serve` command, grouped by option."""
    keys: dict[str, Literals] = {
        "dtype": plan.dtype,
        # The server would else let the model's generation_config.json change how requests are sampled.
        "generation_config": "vllm",
        **({"max_num_seqs": plan.checked["batch"]} if plan.values["batch"] != 1 else {}),
        **_parallel(plan),
    }
    config: list[list[str]] = []
    if speculation := speculative_config(plan):
        keys["per_request_spec_decode_metrics"] = "detailed"  # refused by a server that does not speculate
        config = [["--speculative-config", json.dumps(speculation)]]
    return [["vllm", "serve", plan.target], *flags(keys), *config]


def speculative_config(plan: Deployment) -> dict[str, Literals]:
    """The value of `--speculative-config` and of `LLM(speculative_config=...)`; empty without speculation."""
    offer = OFFERS[plan.method]
    return offer.fill(replace(plan, draft=_cut(plan)) if offer.prepare else plan)


def export_vllm(plan: Deployment) -> Export:
    """The server's command, the Python form, and for several GPUs a script with everything around it."""
    offer = OFFERS[plan.method]
    blocks = [("Server", "bash", shell(vllm_argv(plan))), ("Python", "python", _python(plan))]
    if offer.prepare:
        code = offer.prepare.format(target=plan.target, cut=_cut(plan), **plan.checked)
        blocks.insert(0, ("First, once", "python", code))
    if plan.gpus > 1:
        blocks.append(("Several GPUs" if plan.nodes == 1 else "Several machines", "bash", _script(plan)))
    return Export("vLLM", VERSION, offer.name, offer.fit, tuple(blocks), tuple(offer.notes(plan)))


def _cut(plan: Deployment) -> str:
    return CUT_MODEL.format(**plan.checked)


def _parallel(plan: Deployment) -> dict[str, Literals]:
    keys: dict[str, Literals] = {}
    if plan.tensor_parallel > 1:
        keys["tensor_parallel_size"] = plan.tensor_parallel
    if plan.pipeline_parallel > 1:
        keys["pipeline_parallel_size"] = plan.pipeline_parallel
    if plan.nodes > 1:
        keys["distributed_executor_backend"] = "ray"
    return keys


def _python(plan: Deployment) -> str:
    sampling, speculation = plan.sampling, speculative_config(plan)
    arguments: dict[str, Literals] = {"model": plan.target, "dtype": plan.dtype, **_parallel(plan)}
    if speculation:
        arguments["speculative_config"] = speculation
    options = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": sampling.seed,
        "max_tokens": plan.max_new_tokens,
    }
    ask = "llm.generate" if not plan.chat else "llm.chat"
    prompt = repr(plan.prompt) if not plan.chat else repr([{"role": "user", "content": plan.prompt}])
    return (
        "from vllm import LLM, SamplingParams\n\n"
        f"llm = {_call('LLM', arguments)}\n"
        f"sampling = {_call('SamplingParams', dict(options))}\n"
        f"print({ask}({prompt}, sampling)[0].outputs[0].text)\n"
    )


def _call(name: str, arguments: dict[str, Literals]) -> str:
    lines = [f"{key}={pformat(value, width=100, sort_dicts=False)}," for key, value in arguments.items()]
    return f"{name}(\n{indent(chr(10).join(lines), '    ')}\n)"


SCRIPT = """\
#!/usr/bin/env bash
# {gpus} GPUs: every layer is split over {tensor} of them (tensor parallelism), the layers over {pipeline} groups
# (pipeline parallelism). {draft}
set -euo pipefail
{ray}
{command}
"""
DRAFT_SPLIT = """The draft model is split over {size} of them (draft_tensor_parallel_size); vLLM allows 1 or
# {tensor}: a small draft is often faster unsplit, since splitting it costs a round of messages a layer."""
NO_DRAFT = "The drafter is no model and needs no GPU of its own."
RAY = """
# Run this script on every machine: with HEAD=this on the first, with HEAD=<address of the first> on the others.
# Each needs {per_node} GPUs, the same versions of vLLM and Ray (pip install ray), the model under the same name, and
# open ports to the others. Where a machine has several networks, set VLLM_HOST_IP to its address in the common one.
if [ "${{HEAD:?set HEAD=this on the first machine, its address on the others}}" != this ]; then
    exec ray start --address="$HEAD:6379" --block
fi
ray start --head --port=6379
# Wait until the GPUs of all machines have joined.
COUNT='import ray; ray.init("auto", log_to_driver=False); print(int(ray.cluster_resources().get("GPU", 0)))'
until [ "$(python -c "$COUNT")" -ge {gpus} ]; do sleep 5; done
"""


def _script(plan: Deployment) -> str:
    has_draft = "draft_tensor_parallel_size" in OFFERS[plan.method].keys
    size = plan.draft_tensor_parallel or plan.tensor_parallel
    return SCRIPT.format(
        gpus=plan.gpus,
        tensor=plan.tensor_parallel,
        pipeline=plan.pipeline_parallel,
        draft=DRAFT_SPLIT.format(size=size, tensor=plan.tensor_parallel) if has_draft else NO_DRAFT,
        ray=RAY.format(gpus=plan.gpus, per_node=plan.gpus // plan.nodes) if plan.nodes > 1 else "",
        command=shell(vllm_argv(plan)),
    )
