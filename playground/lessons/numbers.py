"""What a trace says in numbers and tokens, by the names that lesson texts and their claims use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from playground.decoding.trace import Node, Status, Step, Trace, summarize
from playground.errors import UserError


class Token(str):
    """The label of a token, with the status that it is drawn with."""

    status: str

    def __new__(cls, label: str, status: Status) -> Token:
        token = super().__new__(cls, label)
        token.status = str(status)
        return token


def lane_numbers(trace: Trace, lane: int) -> SimpleNamespace:
    """Totals of a lane. `judged` counts the guesses that the target looked at; `alpha` is the share of them it took."""
    steps = trace.steps(lane)
    summary = summarize(steps)
    nodes = [node for step in steps for node in step.nodes]
    accepted, rejected = (sum(node.status is fate for node in nodes) for fate in (Status.ACCEPTED, Status.REJECTED))
    accepted = min(accepted, sum(step.accepted for step in steps))  # a stop may cut an accepted block
    passes, first = len(steps), trace.steps(0)
    return SimpleNamespace(
        **trace.lanes[lane].settings,
        tokens=len(summary.output_token_ids),
        steps=passes,
        passes=summary.target_forwards,
        tokens_per_pass=summary.tokens_per_target_pass,
        proposed=len(nodes),
        accepted=accepted,
        judged=accepted + rejected,
        unjudged=sum(node.status is Status.NEVER_REACHED for node in nodes),
        acceptance_rate=summary.draft_acceptance_rate or 0.0,
        alpha=accepted / (accepted + rejected) if accepted + rejected else 0.0,
        accepted_per_step=accepted / passes,
        rows=sum(step.rows for step in steps) / passes,
        discarded=sum(step.rows_discarded for step in steps),
        most=max(len(step.emitted) for step in steps),
        guessing=sum(bool(step.nodes) for step in steps),
        idle=sum(not step.nodes for step in steps),
        bonuses=sum(token.status is Status.BONUS for step in steps for token in step.emitted),
        pass_ms=1000 * sum(step.seconds.forward for step in steps) / passes,
        row_ms=1000 * sum(step.seconds.forward for step in steps) / (sum(step.rows for step in steps) or 1),
        draft_ms=1000 * sum(step.seconds.draft for step in steps) / passes,
        seconds=summary.seconds,
        rate=summary.tokens_per_second,
        speedup=summary.tokens_per_second / (summarize(first).tokens_per_second or 1),
        same=summary.output_token_ids == summarize(first).output_token_ids,
        differs_at=_first_difference(summary.output_token_ids, summarize(first).output_token_ids),
    )


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """The place, from 1, of the first id in which two texts differ; 0 if they are the same as far as both go."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False), 1) if a != b), 0)


def step_numbers(step: Step, pieces: Mapping[int, str]) -> SimpleNamespace:
    """A step: what was proposed, what became of it, and the guess that lost to the target's own token (`wrong`)."""
    own = next((token for token in step.emitted if token.status is not Status.ACCEPTED), None)
    wrong = lost(step)
    last = [at for at, node in enumerate(step.nodes) if node.status is Status.ACCEPTED]
    visited = next((one for one in step.detail if one.node == (last[-1] if last else -1)), None)

    def label(token: int, status: Status) -> Token:
        return Token(pieces.get(token, f"⟦{token}⟧"), status)

    return SimpleNamespace(
        number=step.index + 1,
        proposed=step.drafted,
        depth=step.depth,
        accepted=step.accepted,
        emitted=len(step.emitted),
        rows=step.rows,
        side_rows=step.side_rows,
        discarded=step.rows_discarded,
        branches=sum(node.parent < 0 for node in step.nodes),
        bonus=own is not None and own.status is Status.BONUS,
        corrected=own is not None and own.status is Status.CORRECTED,
        own=label(own.token, own.status) if own else "",
        wrong=label(wrong.token, Status.REJECTED) if wrong else "",
        p=_known(wrong.p if wrong else None),
        q=_known(wrong.q if wrong else None),
        u=_known(wrong.u if wrong else None),
        ratio=_known(wrong.threshold if wrong else None),
        drawn=wrong is not None and wrong.u is not None and wrong.q is not None,
        residual=dict(visited.residual).get(wrong.token, 0.0) if wrong and visited else -1.0,
        last=step.finish is not None,
    )


def lost(step: Step) -> Node | None:
    """The proposal that lost to the target's own token: the first rejected child of the last accepted node."""
    end = max((at for at, node in enumerate(step.nodes) if node.status is Status.ACCEPTED), default=-1)
    return next((node for node in step.nodes if node.status is Status.REJECTED and node.parent == end), None)


def _known(value: float | None) -> float:
    return -1.0 if value is None else value


def find_step(wanted: str, trace: Trace, lane: int) -> int:
    """How many steps of a lane lie before the playhead: "start", "end", or the first step for which `wanted` holds.

    Raises UserError if it holds for none.
    """
    steps = trace.steps(lane)
    if wanted in ("start", "end"):
        return 0 if wanted == "start" else len(steps)
    pieces = lane_pieces(trace, lane)
    for count, step in enumerate(steps, 1):
        if evaluate(wanted, vars(step_numbers(step, pieces))):
            return count
    raise UserError(f"No step of lane {trace.lanes[lane].title!r} in {trace.title!r} has {wanted}.")


def position(trace: Trace, lane: int, count: int) -> int:
    """The playhead behind the first `count` steps of a lane; behind everything, if these are all of the lane's."""
    mine = [at for at, (of, step) in enumerate(trace.order, 1) if of == lane and step.row == 0]
    return len(trace.order) if count == len(mine) else mine[count - 1] if count else 0


def lane_pieces(trace: Trace, lane: int) -> dict[int, str]:
    """The labels of a lane's tokens."""
    return {token: piece for step in trace.steps(lane) for token, piece in step.pieces.items()}


# Claims are Python's comparisons; they come with the project's own files and see nothing but the numbers.
def evaluate(expression: str, names: Mapping[str, object]) -> bool:
    """Whether a claim holds. Raises UserError for a claim that is none."""
    try:
        return bool(eval(expression, {"__builtins__": {"abs": abs}}, dict(names)))
    except (SyntaxError, NameError, AttributeError, TypeError) as error:
        raise UserError(f"The claim {expression!r} says nothing about these numbers: {error}.") from error
