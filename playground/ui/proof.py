"""The panel that proves a step: a thousand next tokens through the method itself, beside what the target says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from playground.analysis.next_token import Judged, fit, listen, next_tokens, without_residual
from playground.decoding.codec import JSON, decode_value
from playground.decoding.sampling import Sampling
from playground.errors import UserError
from playground.lanes import LocalLane
from playground.run import LaneSpec, Run, RunSpec

DRAWS = 1000
AT_ONCE = 50
SHOWN = 12  # tokens with a bar of their own
ROOM = 65  # tokens that the step may propose and emit: as many as any method guesses ahead, and its own


@dataclass(frozen=True)
class Asked:
    """A place in a lane's text, as the browser tells it. `prompt_ids` are all tokens before the place.

    `residual` False leaves out the residual, a mistake to look at. `first_seed` and those after it are used.
    """

    method: str
    settings: dict[str, JSON]
    models: dict[str, str]
    sampling: dict[str, JSON]
    prompt_ids: list[int]
    dtype: str = "auto"
    residual: bool = True
    first_seed: int = 1


def prove(asked: Any, open_run: Callable[[RunSpec], Run]) -> Iterator[str]:
    """JSON messages for the panel: that it works on it, then the counts so far and how they fit; or what is wrong."""
    yield _message(progress=True)
    try:
        request = decode_value(Asked, asked, "the place")
        with open_run(_spec(request)) as run:
            lane = run.local(0)
            judged = listen(lane.sessions[0], lane.gate)
            if not request.residual and judged.q is None:
                raise UserError("The guesses of this step are no draws, so there is no residual to leave out.")
            yield from _counted(request, judged, lane)
    except UserError as error:
        yield _message(error=str(error))


def _spec(asked: Asked) -> RunSpec:
    """A run of one lane at that place. A greedy lane is looked at with temperature 1: it has no law to speak of."""
    if not asked.prompt_ids:
        raise UserError("There is no text before this place. Choose a step of a run.")
    settings = {**asked.settings, "batch": 1} if "batch" in asked.settings else asked.settings
    names = {"target", "draft", "heads", "draft_heads"}
    if not {"target"} <= set(asked.models) <= names:
        raise UserError(f"A lane's models are {', '.join(sorted(names))}; this one names {sorted(asked.models)}.")
    sampling = decode_value(Sampling, asked.sampling | {"seed": 0}, "the sampling")
    if sampling.greedy:
        sampling = replace(sampling, temperature=1.0)
    return RunSpec(
        "",
        (LaneSpec(asked.method, settings, **asked.models),),  # type: ignore[arg-type]  # checked when opened
        **{name: value for name, value in asdict(sampling).items() if name != "seed"},
        max_new_tokens=ROOM,
        prompt_ids=tuple(asked.prompt_ids),
        dtype=asked.dtype,
    )


def _counted(asked: Asked, judged: Judged, lane: LocalLane) -> Iterator[str]:
    p = judged.p
    shown = p.topk(min(SHOWN, p.shape[0])).indices.tolist()
    labels = {token: lane.pieces.piece(token) for token in shown}
    tokens = next_tokens(
        judged, range(asked.first_seed, asked.first_seed + DRAWS), None if asked.residual else without_residual
    )
    counts: Counter[int] = Counter()
    for done in range(AT_ONCE, DRAWS + 1, AT_ONCE):
        with lane.gate:
            counts.update(islice(tokens, AT_ONCE))
        test = fit(counts, p)
        yield _message(
            draws=done,
            of=DRAWS,
            tokens=[[labels[token], float(p[token]), counts[token]] for token in shown],
            others=[max(0.0, 1 - float(p[shown].sum())), done - sum(counts[token] for token in shown)],
            p_value=test.p_value,
            bins=test.bins,
            greedy=asked.sampling.get("temperature") == 0,
            promise=lane.header.lossless,
            residual=asked.residual,
        )


def _message(**parts: object) -> str:
    return json.dumps(parts, separators=(",", ":"), allow_nan=False)
