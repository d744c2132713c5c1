"""Prometheus counters of a vLLM server: what it counted between two readings, where no reply tells it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from playground.decoding.trace import Counts

Reading = Mapping[tuple[str, str], float]
"""Counter name and draft position ("" where there is none) to value, summed over the server's engines."""

GENERATED = ("vllm:generation_tokens_total", "")
STEPS = ("vllm:spec_decode_num_drafts_total", "")
DRAFTED = ("vllm:spec_decode_num_draft_tokens_total", "")
ACCEPTED = ("vllm:spec_decode_num_accepted_tokens_total", "")
BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

_SAMPLE = re.compile(r"^(vllm:\w+_total)\{([^}]*)\} ([0-9.eE+]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def read_counters(page: str, model: str) -> Reading:
    """The counters of `model` on a `/metrics` page in Prometheus' text format."""
    reading: defaultdict[tuple[str, str], float] = defaultdict(float)
    for name, labels, value in _SAMPLE.findall(page):
        found = dict(_LABEL.findall(labels))
        if found.get("model_name") == model:
            reading[name, found.get("position", "")] += float(value)
    return reading


def counts_between(before: Reading, after: Reading, tokens: int) -> Counts | None:
    """What the server counted for one request of `tokens` tokens that lay between the readings.

    None if the server keeps no such counters, was restarted, or generated any other tokens in between: the counters
    are the whole server's, and only then are they this request's.
    """
    if GENERATED not in after or after[GENERATED] - before.get(GENERATED, 0) != tokens:
        return None
    if STEPS not in after:  # vLLM registers these counters if and only if it speculates
        return Counts(0, 0, 0, source="counters")
    steps, drafted, accepted = (int(after.get(key, 0) - before.get(key, 0)) for key in (STEPS, DRAFTED, ACCEPTED))
    positions = sorted((int(at) for name, at in after if name == BY_POSITION and at.isdecimal()))
    reached = [steps] + [int(after[BY_POSITION, str(at)] - before.get((BY_POSITION, str(at)), 0)) for at in positions]
    if min(steps, drafted, accepted, *reached) < 0:
        return None
    return Counts(
        num_spec_steps=steps,
        num_draft_tokens=drafted,
        num_accepted_draft_tokens=accepted,
        mean_acceptance_length=1 + accepted / steps if steps else None,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        acceptance_histogram=[at - next_ for at, next_ in zip(reached, [*reached[1:], 0], strict=True)],
        num_spec_tokens=len(positions) or None,
        source="counters",
    )
