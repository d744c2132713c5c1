"""In order: asks several drafters one after the other and takes the first guess, cheapest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from playground.decoding.codec import JSON
from playground.decoding.drafting import Context, Drafter, Outcome, Proposal
from playground.decoding.sampling import Sampling


class Cascade:
    """Whoever is not chosen still learns what was committed, so it can take over in any step.

    Members must not use side tokens: only one proposal rides in a pass.
    """

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = members
        self.needs: Collection[int] = {layer for member in members for layer in member.needs}
        self.chosen: Drafter | None = None

    @property
    def notices(self) -> Sequence[str]:
        """What the members have to say."""
        return [notice for member in self.members for notice in member.notices]

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        for member in self.members:
            member.start(prompt_ids, sampling)

    def propose(self, context: Context) -> Proposal:
        reasons = []
        for member in self.members:
            proposal = member.propose(context)
            if proposal.side.ids:
                raise ValueError("a member of a cascade proposed side tokens, which only its own pass could carry")
            if proposal.tree.tokens:
                self.chosen = member
                return proposal
            reasons.append(proposal.reason)
        self.chosen = None
        return Proposal(reason="; ".join(reasons))

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        seen: dict[str, JSON] = {}
        for member in self.members:
            # To the others nothing was proposed: every emitted token is news.
            own = outcome if member is self.chosen else replace(outcome, path=())
            seen |= member.observe(own) or {}
        return seen

    def rewind(self, count: int) -> None:
        for member in self.members:
            member.rewind(count)
