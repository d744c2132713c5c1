"""The loop: propose, one pass, accept, commit. Every method and every batch runs through `advance`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from time import perf_counter, sleep
from typing import overload

import torch
from torch import Tensor

from playground.decoding.acceptance import Rule, TargetView, Verdict, exact, full_detail
from playground.decoding.drafting import Context, Drafter, Outcome, Proposal
from playground.decoding.executor import Executor, Pass, Rows, Scratch, causal
from playground.decoding.sampling import Sampling
from playground.decoding.stopping import Ending, Stop
from playground.decoding.target import FINAL
from playground.decoding.trace import Emitted, Node, Seconds, Status, Step
from playground.decoding.tree import TokenTree, TreeShape
from playground.errors import UserError

PREFILL_CHUNK = 512
IDLE_SECONDS = 0.01  # between two looks at lanes that all wait for something outside
WIDEST = 128  # rows of a pass for which room is reserved; a wider pass lets the cache grow


class Session:
    """One sequence being decoded: committed ids, a row of the executor's cache, a drafter.

    The cache holds everything but the last committed token, so every step, the first included, feeds that token, the
    proposed tree and the side tokens in one pass. Without `max_new_tokens` it runs until the context is full.
    """

    def __init__(
        self,
        executor: Executor,
        drafter: Drafter,
        prompt_ids: Sequence[int],
        sampling: Sampling | None = None,
        *,
        rule: Rule = exact,
        max_new_tokens: int | None = None,
        stop: Stop | None = None,
        eos: bool = True,
        detail: bool = False,
        row: int = 0,
    ) -> None:
        model = executor.model
        self.executor, self.drafter, self.row = executor, drafter, row
        self.sampling, self.rule, self.detail = sampling or Sampling(), rule, detail
        self.ids = list(prompt_ids)
        self.prompt = len(self.ids)
        _check_prompt(self.ids, model.context_length, model.vocab_size, model.name)
        if max_new_tokens is not None and max_new_tokens < 0:
            raise UserError(f"max_new_tokens is {max_new_tokens}; it must be 0 or more.")
        left = model.context_length - self.prompt
        room, full = left, "context"
        if max_new_tokens is not None and max_new_tokens <= left:
            room, full = max_new_tokens, "length"
        self.ending = Ending(model.eos_ids if eos else (), stop, room, full)
        self.layers = {FINAL, *drafter.needs}
        self.finish: str | None = full if room == 0 else None
        self.index = 0
        self._seconds, self._forwards = Seconds(), 0
        self._proposal = Proposal()
        self._judged: tuple[TargetView, list[int]] | None = None
        executor.cache.rewind(row, 0)
        if max_new_tokens is not None:
            executor.cache.reserve(self.prompt + room + WIDEST)
        began = perf_counter()
        drafter.start(self.ids, self.sampling)
        self._seconds.draft += perf_counter() - began

    @property
    def output(self) -> list[int]:
        return self.ids[self.prompt :]

    @property
    def laws(self) -> list[Tensor]:
        """The processed distribution [V] of each token that the last step emitted."""
        if self._judged is None:
            return []
        view, nodes = self._judged
        return [view.p(node) for node in nodes]

    def step(self) -> Step:
        """One pass for this sequence alone, its prompt read first where that is still to be done."""
        while True:
            steps, failed = advance([self])
            if failed is not None:
                raise failed
            if steps:
                return steps[0]

    def rewind(self, count: int) -> None:
        """Take back the last `count` committed tokens, none of them the prompt's."""
        if not 0 <= count <= len(self.output):
            raise ValueError(f"cannot take back {count} of {len(self.output)} tokens")
        if count:
            del self.ids[len(self.ids) - count :]
            self.finish = None
            cache = self.executor.cache
            cache.rewind(self.row, min(cache.lengths[self.row], len(self.ids) - 1))
            self.drafter.rewind(count)

    def commit(self, ids: Sequence[int]) -> None:
        """Append tokens decided elsewhere; the next pass feeds them."""
        self.ids.extend(ids)

    def prefill(self) -> list[int] | None:
        """The prompt up to where its next chunk ends; None once the cache holds all of it but the last token."""
        done = self.executor.cache.lengths[self.row]
        end = min(done + PREFILL_CHUNK, self.prompt - 1)
        return self.ids[:end] if end > done else None

    def prefilled(self, end: int, rows: Rows, seconds: float, others: float) -> None:
        """Take over the prompt up to `end`; `seconds` of the forward are this sequence's share, `others` the rest."""
        began = perf_counter()
        cache = self.executor.cache
        start = cache.lengths[self.row]
        kept = range(end - start)
        cache.keep(self.row, kept)
        self.drafter.observe(Outcome(start, kept, rows))
        self._seconds.prefill += seconds + perf_counter() - began
        self._seconds.others += others
        self._forwards += 1

    def plan(self) -> Pass:
        """Ask the drafter and lay out the pass: uncached committed tokens, tree, side tokens."""
        began = perf_counter()
        model, length = self.executor.model, len(self.ids)
        room = self.ending.room - (length - self.prompt) - 1
        context = Context(
            self.ids,
            self.prompt,
            room,
            model.context_length - 1,
            self.sampling,
            lambda cut: Scratch(self.executor, self.row, cut),
        )
        proposal = self.drafter.propose(context)
        self._proposal = proposal = _cut(proposal, room)
        cached = self.executor.cache.lengths[self.row]
        fresh, tree, side = self.ids[cached:], proposal.tree, proposal.side
        visible = _visible(len(fresh), tree.shape)
        if side.ids:
            visible = torch.block_diag(visible, side.visible)
            visible[-len(side.ids) :, : len(fresh)] = True
        positions = [
            *range(cached, length),
            *(length - 1 + depth for depth in tree.shape.depths),
            *side.positions,
        ]
        self._seconds.draft += perf_counter() - began
        return Pass([*fresh, *tree.tokens, *side.ids], positions, visible)

    def finished(self, done: Pass, rows: Rows, shared: float, batch: int) -> Step:
        """Judge the proposal, commit, keep the rows that stay; `shared` seconds of forward are this sequence's."""
        began = perf_counter()
        proposal, tree = self._proposal, self._proposal.tree
        cache, row = self.executor.cache, self.row
        before = cache.lengths[row]
        fresh = len(self.ids) - before
        side_at = fresh + len(tree)
        asked: slice | list[int] = slice(fresh - 1, side_at)
        if proposal.side.ask:
            asked = [*range(fresh - 1, side_at), *(side_at + at for at in proposal.side.ask)]
        logits = rows.logits(asked)
        self._seconds.forward += shared + perf_counter() - began

        began = perf_counter()
        view = TargetView(logits[: 1 + len(tree)], tree, self.ids, self.sampling)
        verdict = self.rule(view, _nodes(proposal), proposal.q)
        self._seconds.acceptance += perf_counter() - began

        began = perf_counter()
        emitted = self._commit_verdict(verdict, tree)
        self._judged = view, [-1, *verdict.path][: len(emitted)]
        path = verdict.path[: len(emitted)]
        # The last emitted token stays out of the cache, be it the target's own or the node at which a stop cut.
        kept = [*range(fresh), *(fresh + node for node in path[: len(emitted) - 1])]
        cache.keep(row, kept)
        tokens = [token.token for token in emitted]
        outcome = Outcome(before, kept, rows, path, tokens, logits[1 + len(tree) :], view)
        extra = self.drafter.observe(outcome) or {}
        self._seconds.bookkeeping += perf_counter() - began
        step = Step(
            index=self.index,
            nodes=verdict.nodes,
            emitted=emitted,
            cache_before=before,
            cache_after=cache.lengths[row],
            rows=len(done.ids),
            side_rows=len(proposal.side.ids),
            forwards=1 + self._forwards,
            row=row,
            batch=batch,
            seconds=self._seconds,
            reason=proposal.reason,
            finish=self.finish,
            view=proposal.view | extra,
            children=proposal.children,
            detail=full_detail(view, verdict, proposal.q) if self.detail else [],
        )
        self.index += 1
        self._seconds, self._forwards = Seconds(), 0
        return step

    def _commit_verdict(self, verdict: Verdict, tree: TokenTree) -> list[Emitted]:
        emitted = [Emitted(tree.tokens[node], Status.ACCEPTED) for node in verdict.path]
        emitted.append(Emitted(verdict.final, verdict.status))
        self.ids.extend(token.token for token in emitted)
        if (cut := self.ending(self.output, len(emitted))) is not None:
            keep, self.finish = cut
            surplus = len(self.output) - keep
            for node in verdict.path[len(emitted) - surplus :]:
                verdict.nodes[node].status = Status.NEVER_REACHED
                verdict.nodes[node].reason = f"accepted, but cut off: {self.finish}"
            if surplus:
                del emitted[-surplus:], self.ids[-surplus:]
        return emitted


def advance(sessions: Sequence[Session]) -> tuple[list[Step], UserError | None]:
    """One forward for sessions that share an executor: a chunk of their prompts, or else a pass and its Steps.

    Where judging a sequence fails, that one ends and the error is handed back beside the others' Steps.
    """
    began = perf_counter()
    executor = sessions[0].executor
    layers = {layer for session in sessions for layer in session.layers}
    if texts := {session.row: text for session in sessions if (text := session.prefill()) is not None}:
        rows, seconds = executor.read(texts, layers)
        shared = seconds / len(texts)
        for session in sessions:
            if session.row in texts:
                session.prefilled(len(texts[session.row]), rows[session.row], shared, seconds - shared)
        return [], None
    passes = {session.row: session.plan() for session in sessions}
    ready = perf_counter()
    rows = executor.run(passes, layers)
    shared = (perf_counter() - ready) / len(sessions)
    steps: list[Step] = []
    failed: UserError | None = None
    for session in sessions:
        try:
            steps.append(session.finished(passes[session.row], rows[session.row], shared, len(sessions)))
        except UserError as error:
            session.finish, failed = "error", failed or error
    if len(sessions) > 1:
        wall = perf_counter() - began
        for step in steps:
            step.seconds.others += max(0.0, wall - (step.seconds.own - step.seconds.prefill))
    return steps, failed


def decode(sessions: Sequence[Session], gate: AbstractContextManager[object] | None = None) -> Iterator[Step]:
    """Steps of the sessions until all have finished. `gate` is held during a forward: one computes per device.

    Raises UserError when a sequence fails, after the Steps that its pass gave the others.
    """
    gate, waited = gate or nullcontext(), 0.0
    while running := [session for session in sessions if session.finish is None]:
        asked = perf_counter()
        with gate:
            waited += perf_counter() - asked
            steps, failed = advance(running)
        for step in steps:
            step.seconds.wait = waited / len(steps)
            yield step
        if failed is not None:
            raise failed
        waited = 0.0 if steps else waited


@overload
def race(lanes: Sequence[Iterator[Step]]) -> Iterator[tuple[int, Step]]: ...


@overload
def race(lanes: Sequence[Iterator[Step | None]]) -> Iterator[tuple[int, Step] | None]: ...


def race(lanes: Sequence[Iterator[Step | None]]) -> Iterator[tuple[int, Step] | None]:
    """Always advance the lane whose own clock is lowest: each lane's time is its own and it looks live.

    A lane may yield None: it waits for something outside, and it is the next one's turn. Where all of them wait, so
    does the race, and says so with a None of its own from time to time.
    """
    clocks = dict.fromkeys(range(len(lanes)), 0.0)
    while clocks:
        for lane in sorted(clocks, key=lambda at: (clocks[at], at)):
            try:
                step = next(lanes[lane])
            except StopIteration:
                del clocks[lane]
                break
            if step is not None:
                clocks[lane] += step.seconds.own
                yield lane, step
                break
        else:
            yield None
            sleep(IDLE_SECONDS)


@lru_cache(maxsize=256)
def _visible(fresh: int, shape: TreeShape) -> Tensor:
    """bool [q, q]: which rows of a pass over `fresh` committed tokens and a tree of this shape each of them may see."""
    width = fresh + len(shape)
    visible = torch.zeros(width, width, dtype=torch.bool)
    visible[:, :fresh] = True
    visible[:fresh, :fresh] = causal(fresh)
    visible[fresh:, fresh:] = shape.mask
    return visible


def _nodes(proposal: Proposal) -> list[Node]:
    tree, source = proposal.tree, proposal.source
    sources = [source] * len(tree) if isinstance(source, str) else source
    return [
        Node(parent, token, Status.NEVER_REACHED, origin)
        for parent, token, origin in zip(tree.shape.parents, tree.tokens, sources, strict=True)
    ]


def _cut(proposal: Proposal, room: int) -> Proposal:
    """Without nodes that could not be emitted any more: no pass reaches beyond the context or the length asked for."""
    if max(proposal.tree.shape.depths, default=0) > room:
        proposal.tree, kept = proposal.tree.cut(room)
        if proposal.q is not None:
            proposal.q = [proposal.q[node] for node in kept]
        if not isinstance(proposal.source, str):
            proposal.source = [proposal.source[node] for node in kept]
    if room <= 0:
        proposal.reason = "no room for a guess: this step emits the last token that fits"
    return proposal


def _check_prompt(ids: Sequence[int], context: int, vocab: int, name: str) -> None:
    if not ids:
        raise UserError("The prompt is empty. Write at least one character to continue from.")
    if len(ids) > context:
        raise UserError(f"The prompt has {len(ids)} tokens, but {name} reads at most {context}. Shorten the prompt.")
    if (worst := min(ids)) < 0 or (worst := max(ids)) >= vocab:
        raise UserError(
            f"The prompt holds token {worst}, but {name} knows {vocab} tokens. The tokenizer does not fit the model."
        )
