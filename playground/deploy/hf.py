"""Exports for transformers: a script around `generate` that runs as it stands."""

from __future__ import annotations

from textwrap import indent

from playground.deploy.plan import Deployment, Export, Literals, Offer

VERSION = "5.24.0"

# In these tables a key "owner.name" belongs into the owner's generation_config: `generate` reads it nowhere else.
ASSISTANT: dict[str, Literals] = {
    "assistant.num_assistant_tokens": "$k",
    "assistant.num_assistant_tokens_schedule": "constant",
    "assistant.assistant_confidence_threshold": "$confidence",
}
EARLY_EXIT: dict[str, Literals] = {
    "model.num_assistant_tokens": "$k",
    "model.num_assistant_tokens_schedule": "constant",
    "model.assistant_confidence_threshold": 0.0,
    "assistant_early_exit": "$exit_layer",
}
LOOKUP: dict[str, Literals] = {"prompt_lookup_num_tokens": "$k", "max_matching_ngram_size": "$max_ngram"}
LOOKUP_NAME = "prompt_lookup_num_tokens"
FIRST_PLACE = "transformers copies from the first place where the words occurred, this project from the latest."
ONE_ROW = {"batch": (1, "transformers speculates for one sequence at a time.")}

OFFERS: dict[str, Offer] = {
    "autoregressive": Offer("generate", "same"),
    "naive-batching": Offer("generate with a batch", "same"),
    "draft-model": Offer("assistant_model", "same", ASSISTANT, ignores=ONE_ROW),
    "prompt-lookup": Offer(LOOKUP_NAME, "same", LOOKUP, (FIRST_PLACE,), ONE_ROW),
    "medusa": Offer(
        LOOKUP_NAME,
        "none",
        LOOKUP,
        ("transformers has no Medusa. Lost: the trained heads and their tree; lookup needs nothing trained.",),
        ONE_ROW,
    ),
    "lookahead": Offer(
        LOOKUP_NAME,
        "none",
        LOOKUP,
        ("transformers has no Lookahead. Lost: n-grams that the target's own window finds before they occur.",),
        ONE_ROW,
    ),
    "jacobi": Offer(
        LOOKUP_NAME,
        "none",
        LOOKUP,
        ("transformers has no Jacobi decoding. Lost: guesses that are iterated until they stop changing.",),
        ONE_ROW,
    ),
    "medusa-draft": Offer(
        "assistant_model",
        "near",
        ASSISTANT,
        ("Lost: the draft model's Medusa heads. The same draft model runs k passes for k tokens.",),
        ONE_ROW,
    ),
    "early-exit": Offer("assistant_early_exit", "same", EARLY_EXIT, ignores=ONE_ROW),
    "cascade": Offer(
        "assistant_model",
        "near",
        ASSISTANT,
        ("One drafter at a time. Lost: prompt lookup, which is tried first here.",),
        ONE_ROW,
    ),
}

SCRIPT = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({target!r})
model = AutoModelForCausalLM.from_pretrained({target!r}, {load})
{drafter}
{inputs}
inputs = inputs.to(model.device)

torch.manual_seed({seed})
output = model.generate(
    **inputs,
{arguments}
)
for row in output[:, inputs["input_ids"].shape[1] :]:
    print(tokenizer.decode(row, skip_special_tokens=True))
"""
ONE = 'inputs = tokenizer({prompt!r}, return_tensors="pt")'
CHAT = """\
messages = [{{"role": "user", "content": {prompt!r}}}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")"""
ROWS = """\
tokenizer.padding_side = "left"
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
prompts = [{prompt!r}] * {batch}
inputs = tokenizer(prompts, padding=len(set(prompts)) > 1, return_tensors="pt")"""


def export_transformers(plan: Deployment) -> Export:
    """A script that runs as it stands; with several GPUs it needs `accelerate` as well."""
    offer = OFFERS[plan.method]
    notes = offer.notes(plan)
    if plan.gpus > 1:
        notes.append("device_map spreads the layers over the GPUs of one machine; they work one after the other.")
    if plan.sampling.temperature:
        notes.append("Sampled text is not ours token for token: other random numbers, the same distribution.")
    return Export("transformers", VERSION, offer.name, offer.fit, (("Script", "python", _script(plan)),), tuple(notes))


def _script(plan: Deployment) -> str:
    keys = OFFERS[plan.method].fill(plan)
    batch = 1 if keys else int(plan.checked["batch"])
    load = f"dtype={plan.dtype!r}" + (', device_map="auto"' if plan.gpus > 1 else "")
    drafter = [f"{key.replace('.', '.generation_config.')} = {value!r}" for key, value in keys.items() if "." in key]
    arguments = {"max_new_tokens": plan.max_new_tokens, **_sampling(plan)}
    arguments |= {key: value for key, value in keys.items() if "." not in key}
    lines = [f"{key}={value!r}," for key, value in arguments.items()]
    if OFFERS[plan.method].name == "assistant_model":
        drafter.insert(0, f"assistant = AutoModelForCausalLM.from_pretrained({plan.draft!r}, {load})")
        lines.append("assistant_model=assistant,")
    inputs = CHAT if plan.chat else ONE if batch == 1 else ROWS
    return SCRIPT.format(
        target=plan.target,
        load=load,
        drafter="".join(f"{line}\n" for line in drafter),
        inputs=inputs.format(prompt=plan.prompt, batch=batch),
        seed=plan.sampling.seed,
        arguments=indent("\n".join(lines), "    "),
    )


def _sampling(plan: Deployment) -> dict[str, Literals]:
    sampling = plan.sampling
    keys: dict[str, Literals] = {"do_sample": sampling.temperature > 0}
    if sampling.temperature:
        keys |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
        keys |= {"min_p": sampling.min_p} if sampling.min_p else {}
    return keys | {"repetition_penalty": sampling.repetition_penalty}
