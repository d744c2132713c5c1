"""Prompt lookup: the continuation of the last place where the text's ending occurred before.

Saxena 2023, "Prompt Lookup Decoding"; in other engines: n-gram speculation.
"""

from __future__ import annotations

from collections.abc import Sequence

from playground.decoding.codec import JSON
from playground.decoding.drafting import Context, Proposal
from playground.decoding.sampling import Sampling
from playground.decoding.tree import TokenTree
from playground.drafters.base import StatelessDrafter


class PromptLookup(StatelessDrafter):
    """Looks for the longest ending of at most `max_ngram` tokens that occurred before, the latest place first.

    Proposes the up to `k` tokens that followed it. An index from n-gram to the place after it grows with the text,
    so a step costs the new tokens only.
    """

    def __init__(self, k: int, max_ngram: int) -> None:
        self.k, self.max_ngram = k, max_ngram

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.after: dict[tuple[int, ...], int] = {}
        self.indexed = 0

    def propose(self, context: Context) -> Proposal:
        ids = context.ids
        self._index(ids)
        for size in range(min(self.max_ngram, len(ids) - 1), 0, -1):
            at = self.after.get(tuple(ids[-size:]))
            if at is not None:
                tokens = ids[at : at + min(self.k, context.room)]
                view: dict[str, JSON] = {"match": [at - size, at], "size": size}
                return Proposal(TokenTree.chain(tokens), source="prompt lookup", view=view)
        return Proposal(reason="the text's last token has not occurred before")

    def _index(self, ids: Sequence[int]) -> None:
        """Enter the n-grams that end before the last token: that one's continuation is still unknown."""
        for end in range(self.indexed + 1, len(ids)):
            for size in range(1, min(self.max_ngram, end) + 1):
                self.after[tuple(ids[end - size : end])] = end
        self.indexed = len(ids) - 1

    def rewind(self, count: int) -> None:
        # Places past the new end would dangle; rewinding is rare enough to start over.
        self.after, self.indexed = {}, 0
