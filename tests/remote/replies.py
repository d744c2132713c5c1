"""What a vLLM server replies: a good run of five tokens, of which two were guessed."""

import json
from contextlib import contextmanager

from playground.remote.lane import Patience
from tests.remote.fault_server import answer, fault_server

MODELS = answer(200, json.dumps({"data": [{"id": "m"}]}))
QUICK = Patience(connect=5, silence=1, whole=60, retry=(0.0, 0.0))
COUNTS = {
    "mean_acceptance_length": 3.0,
    "draft_acceptance_rate": 1.0,
    "acceptance_histogram": [0, 0, 1],
    "num_spec_steps": 1,
    "num_draft_tokens": 2,
    "num_accepted_draft_tokens": 2,
    "num_spec_tokens": 2,
    "per_step_accepted": [2],
    "per_step_drafted": [2],
    "a_field_of_tomorrow": {"x": 1},
}


def event(*ids, finish=None, **choice):
    choice = {"index": 0, "text": "".join(f" {token}" for token in ids), "token_ids": list(ids)} | choice
    return {"model": "m", "choices": [choice | {"finish_reason": finish}]}


TOKENS = (event(5, prompt_token_ids=[1, 2, 3]), event(6, 7, 8), event(9, finish="length"))
USAGE = {"choices": [], "usage": {"completion_tokens": 5}, "metrics": {"speculative_decoding": COUNTS}}


@contextmanager
def serving(*completions, **paths):
    scripts = {"/v1/models": [MODELS], "/v1/completions": list(completions)}
    scripts |= {f"/{name}": [script] if isinstance(script[0], bytes) else script for name, script in paths.items()}
    with fault_server(scripts) as server:
        yield server
