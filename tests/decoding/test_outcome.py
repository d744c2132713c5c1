"""What a drafter learns from a pass, beyond the tokens that were kept."""

import pytest

from playground.decoding.drafting import Context, Outcome, Proposal
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session
from playground.decoding.table import TableTarget
from playground.decoding.tree import TokenTree
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.base import StatelessDrafter

PROMPT = [1, 4, 2, 4, 1]


class Offers(StatelessDrafter):
    """Proposes one chain and remembers what came of every pass."""

    def __init__(self, guesses: list[int]) -> None:
        self.guesses, self.outcomes = guesses, []

    def propose(self, context: Context) -> Proposal:
        return Proposal(TokenTree.chain(self.guesses))

    def observe(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@pytest.mark.parametrize("penalty", [1.0, 1.5])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_what_the_target_says_after_a_rejected_token_is_what_it_would_have_decoded(penalty, temperature, seed):
    target = TableTarget.random(6, 2, seed=3)
    sampling = Sampling(temperature, repetition_penalty=penalty, seed=seed)
    for guesses in [[0, 3], [5, 5], [2, 0]]:
        drafter = Offers(guesses)
        Session(Executor(target), drafter, PROMPT, sampling, max_new_tokens=8).step()
        prefill, outcome = drafter.outcomes
        assert prefill.judged is None
        for node in range(-1, len(guesses)):
            text = [*PROMPT, *guesses[: node + 1]]
            plain = Session(Executor(target), Autoregressive(), text, sampling, max_new_tokens=1)
            assert outcome.judged.target_token(node) == plain.step().emitted[0].token
