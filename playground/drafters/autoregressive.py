"""Autoregressive decoding: the baseline, which proposes nothing."""

from __future__ import annotations

from playground.decoding.drafting import Context, Proposal
from playground.drafters.base import StatelessDrafter


class Autoregressive(StatelessDrafter):
    """One token per pass."""

    def propose(self, context: Context) -> Proposal:
        return Proposal(reason="autoregressive decoding guesses nothing")
