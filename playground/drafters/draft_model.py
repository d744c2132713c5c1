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
        inner = replace(sampling, seed=derived_seed(sampling.seed, Purpose.INNER))
        self.session = Session(Executor(self.model), self.make_inner(), prompt_ids, inner, eos=False)
        self.notices = self.session.drafter.notices

    def propose(self, context: Context) -> Proposal:
        session, start = self.session, len(context.ids)
        # Rejected drafts, the target's own tokens, a rewind: whatever came between, only the difference is redone.
        same = _common_prefix(session.ids, context.ids)
        session.rewind(len(session.ids) - same)
        session.commit(context.ids[same:])
        k = min(self.k, context.room, self.model.context_length - start)
        if k <= 0:
            return Proposal(reason=f"the draft model's context of {self.model.context_length} tokens is full")
        if (unknown := max(session.ids[session.executor.cache.lengths[0] :])) >= self.model.vocab_size:
            return Proposal(reason=f"the draft model does not know token {unknown}")
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


def _common_prefix(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many tokens two texts share from the start."""
    for at, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return at
    return min(len(ours), len(theirs))
