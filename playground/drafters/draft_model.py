"""Draft-model speculative decoding: a smaller model writes ahead, the target checks.

Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"; Chen et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from playground.decoding.drafting import Context, Drafter, Proposal
from playground.decoding.executor import Executor
from playground.decoding.sampling import Purpose, Sampling, derived_seed
from playground.decoding.session import Session
from playground.decoding.target import TargetModel
from playground.decoding.trace import Step
from playground.decoding.tree import TokenTree
from playground.drafters.base import StatelessDrafter


class DraftModel(StatelessDrafter):
    """Drafts `k` tokens with an inner session on the draft model, whose text follows the committed one.

    The inner session's own drafter is autoregressive for a plain draft model; with Medusa inside it is the hybrid.
    Whatever it is, the inner tokens follow the draft's processed distribution, which is the q of the acceptance rule.
    `confidence`: stop drafting after a token whose q is below it; that token itself is always kept, since dropping
    it would bias the output. `vocab_size` is the target's, to which q is padded.
    """

    def __init__(
        self,
        model: TargetModel,
        inner: Callable[[], Drafter],
        k: int,
        vocab_size: int,
        confidence: float = 0.0,
    ) -> None:
        self.model, self.make_inner, self.k = model, inner, k
        self.vocab_size, self.confidence = vocab_size, confidence

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.sampling = replace(sampling, seed=derived_seed(sampling.seed, Purpose.INNER))
        self.drafter = self.make_inner()
        self.notices = self.drafter.notices
        self.session: Session | None = None
        self.agreed = 0  # tokens that the inner session's text is known to share with the committed text

    def propose(self, context: Context) -> Proposal:
        start = len(context.ids)
        k = min(self.k, context.room, self.model.context_length - start)
        if k <= 0:
            return Proposal(reason=f"the draft model's context of {self.model.context_length} tokens is full")
        if (unknown := max(context.ids[self.agreed :], default=0)) >= self.model.vocab_size:
            return Proposal(reason=f"the draft model does not know token {unknown}")
        session = self._follow(context.ids)
        steps: list[Step] = []
        laws: list[Tensor] = []
        while len(laws) < k:
            steps.append(session.step())
            for emitted, law in zip(steps[-1].emitted, session.laws, strict=True):
                laws.append(law)
                if self.confidence and float(law[emitted.token]) < self.confidence:
                    k = min(k, len(laws))
        session.rewind(len(laws) - k)
        missing = self.vocab_size - self.model.vocab_size
        q = [F.pad(law, (0, missing)) if missing else law for law in laws[:k]]
        return Proposal(TokenTree.chain(session.ids[start:]), q, source="draft model", children=steps)

    def rewind(self, count: int) -> None:
        self.agreed = max(0, self.agreed - count)

    def _follow(self, ids: Sequence[int]) -> Session:
        """The inner session, its text made the committed one.

        Rejected drafts, the target's own tokens, a rewind: whatever came between, only the difference is redone.
        """
        session, same = self.session, 0
        if session is not None:
            same = self.agreed + _common_prefix(session.ids[self.agreed :], ids[self.agreed :])
        if session is None or same < session.prompt:
            session = self.session = Session(Executor(self.model), self.drafter, ids, self.sampling, eos=False)
        else:
            session.rewind(len(session.ids) - same)
            session.commit(ids[same:])
        self.agreed = len(ids)
        return session


def _common_prefix(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many tokens two texts share from the start."""
    for at, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return at
    return min(len(ours), len(theirs))
