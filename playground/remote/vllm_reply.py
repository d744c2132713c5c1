"""A reply of a vLLM server as Steps: one for each server-sent event, roles where the server's own counts settle them.

Of a speculative server the stream tells which tokens came together, and its closing event tells, under
`--per-request-spec-decode-metrics detailed`, how many tokens each speculative step drafted and accepted. Steps in
which nothing was drafted are not among those. What the two do not settle together stays unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime

from playground.decoding.codec import JSON, decode_value
from playground.decoding.trace import Counts, Emitted, Lane, Seconds, Status, Step, Trace
from playground.errors import UserError
from playground.remote.sse import EventParser

UNTOLD = "the server does not tell what it proposed"
TIMES = "Wall clock: a step lasts from one arrival to the next, network and queue included."
PASSES = "Passes are not told: counted are the server's events, and by its own counts those that came as one."
NO_TIMES = "A stored reply holds no times."


class StepBuilder:
    """Takes the events of one streamed reply and makes Steps.

    A Step is handed out when the next one begins, the last by `close`: until then an event without tokens may still
    add text, the finish reason and the server's counts to it. `limit` is how many tokens were asked for.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.steps: list[Step] = []
        self.counts: Counts | None = None
        self.prompt_ids: list[int] | None = None
        self.model = self.fingerprint = self.recorded = ""
        self.notices: list[str] = []
        self.done = False
        self._limit, self._tokens = limit, 0
        self._named: set[int] = set()
        self._at = 0.0

    @property
    def complete(self) -> bool:
        """The server said that the reply has ended."""
        return self.done or bool(self.steps and self.steps[-1].finish)

    def add(self, data: str, at: float = 0.0) -> Step | None:
        """Take an event that arrived `at` seconds after the request was sent; the Step that it completes, if any.

        Raises UserError for an event that is not of vLLM's form, for one that reports an error, and for more tokens
        than were asked for.
        """
        if data.strip() == "[DONE]":
            self.done = True
            return None
        event = _parse(data)
        if "error" in event:
            raise UserError(f"The server broke off with an error: {_message(event['error'])}")
        self._read_header(event)
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) > 1:
            raise UserError(f"The server sent an event without a single choice: {_short(data)}. Is this a vLLM server?")
        self._read_counts(event.get("metrics"))
        return self._read_choice(choices[0], at) if choices else None

    def close(self) -> Step | None:
        """The last Step, once no more events come; roles are filled in all Steps where the counts settle them."""
        if self.counts is not None and self.steps:
            self._settle(self.counts)
            self.steps[-1].counts = self.counts
        return self.steps[-1] if self.steps else None

    def _read_header(self, event: dict[str, JSON]) -> None:
        self.model = self.model or _text(event.get("model"))
        self.fingerprint = self.fingerprint or _text(event.get("system_fingerprint"))
        created = event.get("created")
        if not self.recorded and isinstance(created, int) and 0 < created < 1 << 33:
            self.recorded = datetime.fromtimestamp(created, UTC).isoformat()

    def _read_choice(self, choice: JSON, at: float) -> Step | None:
        if not isinstance(choice, dict):
            raise UserError(f"The server sent a choice that is no object: {_short(choice)}. Is this a vLLM server?")
        if self.prompt_ids is None and choice.get("prompt_token_ids") is not None:
            self.prompt_ids = token_ids(choice["prompt_token_ids"])
        ids, text = token_ids(choice.get("token_ids")), _text(choice.get("text"))
        before = self.steps[-1] if self.steps else None
        if ids:
            self._tokens += len(ids)
            if self._limit is not None and self._tokens > self._limit:
                raise UserError(f"The server sent more than the {self._limit} tokens that were asked for.")
            self.steps.append(self._step(ids, text, choice.get("logprobs"), at))
        elif text and before is not None:
            before.emitted[-1].text += text
        if self.steps and choice.get("finish_reason") is not None:
            self.steps[-1].finish = _finish(choice)
        return before if ids else None

    def _step(self, ids: list[int], text: str, logprobs: JSON, at: float) -> Step:
        told = logprobs if isinstance(logprobs, dict) else {}
        names = _strings(told.get("tokens"))
        texts = _share(text, names if len(names) == len(ids) else [""] * len(ids))
        step = Step(
            index=len(self.steps),
            nodes=[],
            emitted=[Emitted(token, Status.UNKNOWN, piece) for token, piece in zip(ids, texts, strict=True)],
            cache_before=0,
            cache_after=0,
            rows=0,
            seconds=Seconds(forward=at - self._at),
            reason=UNTOLD,
        )
        if len(names) == len(ids):
            step.pieces = {token: name for token, name in zip(ids, names, strict=True) if token not in self._named}
            self._named |= step.pieces.keys()
        if isinstance(chosen := told.get("token_logprobs"), list) and len(chosen) == len(ids):
            step.view["logprobs"] = [_finite(value) for value in chosen]
        if isinstance(best := told.get("top_logprobs"), list) and len(best) == len(ids):
            step.view["margins"] = [_margin(values) for values in best]
        self._at = at
        return step

    def _read_counts(self, metrics: JSON) -> None:
        told = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
        if isinstance(told, dict):
            names = {field.name for field in fields(Counts)} - {"source"}
            known: dict[str, JSON] = {name: value for name, value in told.items() if name in names}
            self.counts = decode_value(Counts, known, "The server's metrics.speculative_decoding")

    def _settle(self, counts: Counts) -> None:
        accepted, drafted = counts.per_step_accepted, counts.per_step_drafted
        if counts.num_spec_steps == 0 and all(len(step.emitted) == 1 for step in self.steps):
            accepted, drafted = [], []
        if accepted is None or drafted is None:
            return
        bounds = _align([len(step.emitted) for step in self.steps], accepted) if _sound(accepted, drafted) else []
        if not bounds:
            self.notices.append(
                "Several steps of the server arrived as one event, so it stays unknown which tokens were proposed. By "
                f"its own counts it made about {self._tokens - counts.num_accepted_draft_tokens} passes."
            )
            return
        for at, step in enumerate(self.steps):
            if len({(bound[at], bound[at + 1]) for bound in bounds}) > 1:
                continue
            first, after = bounds[0][at], bounds[0][at + 1]
            if first == after:
                step.emitted[0].status, step.reason = Status.PLAIN, "the server proposed nothing in this step"
            else:
                _assign(step, accepted[first], drafted[first])


def read_reply(text: str, title: str = "") -> Trace:
    """A stored reply of `/v1/completions` as a Trace: the JSON of a whole one, or the events of a streamed one.

    Raises UserError for anything else. A stream that was cut off gives the steps it holds, and a notice.
    """
    builder = StepBuilder()
    parts = [text] if text.lstrip().startswith("{") else EventParser().feed(text.encode(errors="replace"))
    for part in parts:
        builder.add(part)
    builder.close()
    if not builder.steps:
        raise UserError("This reply holds no tokens. Choose a reply of /v1/completions, sent with return_token_ids.")
    notices = [NO_TIMES, PASSES, *builder.notices]
    if not builder.complete:
        notices.append("The stored reply is cut off: its end is missing.")
    lane = Lane(
        method="vllm",
        title="vLLM",
        settings={},
        models={"target": builder.model},
        sampling={},
        lossless="unknown",
        prompt_ids=builder.prompt_ids or [],
        dtype="unknown",
        device="unknown",
        notices=notices,
    )
    order = [(0, step) for step in builder.steps]
    return Trace([lane], machine=builder.fingerprint, recorded=builder.recorded, title=title, order=order)


def _align(bursts: Sequence[int], accepted: Sequence[int]) -> list[list[int]]:
    """The ways to lay the speculative steps over the bursts; extremes only, between which all others lie.

    Each way lists how many speculative steps are used up before each burst and after the last. A speculative step
    that accepted a tokens is a burst of a + 1; a step without a draft is a burst of 1; the first burst comes from
    the prompt, before anything can be drafted; the last may have been cut by a limit or a stop. Empty if none fits.
    """
    total = len(accepted)
    if bursts[0] != 1:
        return []
    if len(bursts) == 1:
        return [[0, 0]] if not total else []
    # The last step proposed nothing and emitted one token, or it is the last of the list, perhaps cut.
    rests = [accepted] if bursts[-1] == 1 else []
    if total and bursts[-1] <= accepted[-1] + 1:
        rests.append(accepted[:-1])
    middle, ways = bursts[1:-1], []
    for rest in rests:
        early, late = _greedy(middle, rest), _greedy(middle[::-1], rest[::-1])
        if early is not None and late is not None:
            ways += [[0, *early, total], [0, *(len(rest) - used for used in reversed(late)), total]]
    return ways


def _greedy(bursts: Sequence[int], accepted: Sequence[int]) -> list[int] | None:
    """Speculative steps used up before each burst and after the last, each used as early as can be."""
    used = [0]
    for burst in bursts:
        if used[-1] < len(accepted) and accepted[used[-1]] + 1 == burst:
            used.append(used[-1] + 1)
        elif burst == 1:
            used.append(used[-1])
        else:
            return None
    return used if used[-1] == len(accepted) else None


def _assign(step: Step, accepted: int, drafted: int) -> None:
    for at, token in enumerate(step.emitted):
        if at < accepted:
            token.status = Status.ACCEPTED
        else:
            token.status = Status.BONUS if accepted == drafted else Status.CORRECTED
    step.view |= {"accepted": accepted, "drafted": drafted}
    step.reason = ""


def _sound(accepted: Sequence[int], drafted: Sequence[int]) -> bool:
    return len(accepted) == len(drafted) and all(0 <= a <= d for a, d in zip(accepted, drafted, strict=True))


def _share(text: str, names: Sequence[str]) -> list[str]:
    """`text` of a burst dealt out to its tokens where it spells their names; what is left goes to the last token.

    The two differ at special tokens, which are no text, and where the server held text back for a stop string.
    """
    pieces = []
    for name in names:
        pieces.append(name if text.startswith(name) else "")
        text = text[len(pieces[-1]) :]
    pieces[-1] += text
    return pieces


def _parse(data: str) -> dict[str, JSON]:
    try:
        event = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The server sent an event that is no JSON: {_short(data)}.") from error
    if not isinstance(event, dict):
        raise UserError(f"The server sent an event that is no JSON object: {_short(data)}.")
    return event


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def token_ids(value: JSON) -> list[int]:
    """Token ids as the server tells them. Raises UserError for anything else."""
    if value is None:
        raise UserError(
            "The server does not tell token ids. This needs a vLLM server that knows `return_token_ids` on "
            "/v1/completions."
        )
    if not isinstance(value, list):
        raise UserError(f"The server sent {_short(value)} where a list of token ids belongs.")
    ids = []
    for item in value:
        if type(item) is not int or not 0 <= item < 1 << 31:
            raise UserError(f"The server sent {_short(item)} where a token id belongs.")
        ids.append(item)
    return ids


def _finish(choice: dict[str, JSON]) -> str:
    """The finish reason in the words of our own lanes: "stop" without a stop string is the end of the text."""
    reason = _text(choice.get("finish_reason"))
    return "eos" if reason == "stop" and not isinstance(choice.get("stop_reason"), str) else reason


def _text(value: JSON) -> str:
    """A string that can be written as UTF-8, empty for anything that is no string."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _strings(value: JSON) -> list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else []


def _finite(value: JSON) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _margin(values: JSON) -> float | None:
    """By how much the most probable token leads the next one, in nats."""
    found = [_finite(value) for value in values.values()] if isinstance(values, dict) else []
    best = sorted((value for value in found if value is not None), reverse=True)
    return best[0] - best[1] if len(best) > 1 else None


def _message(error: JSON) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(_text(message).split())[:300] or "it gives no reason."


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
