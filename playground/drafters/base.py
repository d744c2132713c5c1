"""What most drafters have in common: nothing to read, nothing to remember."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from playground.decoding.codec import JSON
from playground.decoding.drafting import Context, Outcome, Proposal
from playground.decoding.sampling import Sampling


class StatelessDrafter(ABC):
    """Proposes from the committed ids alone. Subclasses override what they need."""

    needs: Collection[int] = ()
    notices: Sequence[str] = ()

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        """A run begins."""

    @abstractmethod
    def propose(self, context: Context) -> Proposal:
        """What to check in the next pass."""

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        """A pass has been judged."""
        return None

    def rewind(self, count: int) -> None:
        """The last `count` committed tokens are taken back."""
