"""Early exit: the target's own first layers draft, the whole target checks.

Elhoushi et al. 2024, "LayerSkip"; Zhang et al. 2024, "Draft & Verify". No second model and no second cache: the
drafted tokens are read on scratch rows of the target's cache, which the verifying pass overwrites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from playground.decoding.acceptance import TargetView
from playground.decoding.drafting import Context, Proposal
from playground.decoding.sampling import Purpose, Sampling, derived_seed
from playground.decoding.target import TargetModel
from playground.decoding.tree import EMPTY_TREE, TokenTree
from playground.drafters.base import StatelessDrafter


class EarlyExit(StatelessDrafter):
    """Drafts `k` tokens with the first `exit_layer` layers, the final norm and the head of `target`."""

    def __init__(self, target: TargetModel, exit_layer: int, k: int) -> None:
        self.cut, self.exit_layer, self.k = target.early_exit(exit_layer), exit_layer, k

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        # The draft's draws must not be the target's own: same seed, other streams.
        self.sampling = replace(sampling, seed=derived_seed(sampling.seed, Purpose.INNER))

    def propose(self, context: Context) -> Proposal:
        scratch = context.scratch(self.cut)
        ids = list(context.ids)
        laws: list[Tensor] = []
        unread = ids[scratch.length :]
        for _ in range(min(self.k, context.room)):
            view = TargetView(scratch.read(unread).unsqueeze(0), EMPTY_TREE, ids, self.sampling)
            unread = [view.target_token(-1)]
            laws.append(view.p(-1))
            ids += unread
        tree = TokenTree.chain(ids[len(context.ids) :])
        return Proposal(tree, laws, source=f"layer {self.exit_layer}")
