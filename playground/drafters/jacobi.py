"""Jacobi decoding: guess a whole block, let one pass correct every position at once, and repeat.

Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel Decoding".
"""

from __future__ import annotations

from collections.abc import Sequence

from playground.decoding.codec import JSON
from playground.decoding.drafting import Context, Outcome, Proposal
from playground.decoding.sampling import Purpose, Sampling, uniform
from playground.decoding.tree import TokenTree
from playground.drafters.base import StatelessDrafter


class Jacobi(StatelessDrafter):
    """A block of `block` guesses behind the last committed token, moved along with the text.

    The unknown tokens are a system of equations: each is the target's own token after those before it. A pass
    evaluates all of them on the previous iterate. Leading positions that come out as they went in are solved: that is
    what verification accepts, so the block is a chain in the tree and its outputs are the next iterate. A position
    is a guess from the moment the block reaches it; it starts as a token of the prompt drawn by counter-based noise.

    The target's own token is its argmax, or its draw with the noise of that position. Noise does not change from pass
    to pass, so under sampling too the iteration settles on the ids of autoregressive decoding. Iterates are kept by
    absolute position: after a rewind the latest ones are guesses again.

    A Step's view:
      start   absolute position of the block's first token
      before  the iterate that was fed [b ids]; b is less than `block` where less fits
      after   the next iterate [b + 1 ids]: one position more, the output behind the whole block
      fixed   how many leading positions of `before` were solved
    """

    def __init__(self, block: int) -> None:
        self.block = block

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.prompt_ids, self.seed = list(prompt_ids), sampling.seed
        self.iterate: dict[int, int] = {}

    def propose(self, context: Context) -> Proposal:
        start = len(context.ids)
        size = min(self.block, context.room)
        if size <= 0:
            return Proposal(reason="no room for a guess: this step emits the last token that fits")
        places = range(start, start + size)
        guesses = [self._guess(place) for place in places]
        sources = ["previous pass" if place in self.iterate else "initial fill" for place in places]
        return Proposal(TokenTree.chain(guesses), source=sources, view={"start": start, "before": list(guesses)})

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        judged = outcome.judged
        if judged is None or not judged.tree:
            return None
        after = [judged.target_token(node) for node in range(-1, len(judged.tree))]
        self.iterate |= zip(range(judged.position, judged.position + len(after)), after, strict=True)
        return {"after": list(after), "fixed": len(outcome.path)}

    def _guess(self, place: int) -> int:
        if place in self.iterate:
            return self.iterate[place]
        return self.prompt_ids[int(uniform(self.seed, place, Purpose.FILL) * len(self.prompt_ids))]
