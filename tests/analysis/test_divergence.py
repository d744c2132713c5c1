"""A difference between outputs is a tie only where the target itself can hardly tell the two tokens apart."""

from __future__ import annotations

import copy

import pytest
import torch

from playground.analysis.divergence import LEAST, compare
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.target import TransformersTarget
from playground.drafters.autoregressive import Autoregressive
from tests.oracle import Guess, OracleDrafter
from tests.tiny import VOCAB, tiny_model, tiny_target

PROMPT = [5, 9, 3]


def greedy(target, drafter=None, new: int = 30, penalty: float = 1.0, prompt=PROMPT) -> list[int]:
    sampling = Sampling(repetition_penalty=penalty)
    session = Session(Executor(target), drafter or Autoregressive(), prompt, sampling, max_new_tokens=new)
    list(decode([session]))
    return session.output


def table(first: float, second: float) -> TableTarget:
    """Always token 3, then 5, at these logits; 1 is far behind."""
    return TableTarget(torch.tensor([0.0, -9.0, 0.0, first, 0.0, second]).expand(6, 6))


def test_equal_outputs_do_not_diverge() -> None:
    target = table(7.0, 6.0)
    assert compare(target, [0], [], []) is None
    assert compare(target, [0], [3, 3], [3, 3]) is None


def test_the_first_difference_is_reported_with_the_margin_there() -> None:
    found = compare(table(7.0, 6.5), [0], [3, 3, 3, 5], [3, 3, 5, 3])
    assert found is not None
    assert (found.position, found.left, found.right) == (2, 3, 5)
    assert found.margin == pytest.approx(0.5)
    assert found.lag == pytest.approx(0.5)
    assert found.verdict == "bug"


def test_a_margin_within_rounding_is_a_tie() -> None:
    found = compare(table(7.0, 7.0 - LEAST / 2), [0], [3], [5])
    assert found is not None
    assert found.verdict == "tie"


def test_a_third_token_is_a_bug_however_close_the_first_two_are() -> None:
    found = compare(table(7.0, 7.0), [0], [3], [1])
    assert found is not None
    assert found.margin == 0
    assert found.lag == pytest.approx(16.0)
    assert found.verdict == "bug"


@pytest.mark.parametrize(("left", "right"), [([3, 3], [3]), ([3], [3, 3]), ([], [3])])
def test_an_output_that_ends_too_early_is_a_bug(left: list[int], right: list[int]) -> None:
    found = compare(table(7.0, 7.0), [0], left, right)
    assert found is not None
    assert found.position == min(len(left), len(right))
    assert None in (found.left, found.right)
    assert found.verdict == "bug"


def test_the_penalty_is_part_of_the_margin() -> None:
    """Token 3 leads by half, but has been seen: with the penalty 5 leads."""
    bare = compare(table(7.0, 6.5), [3], [3], [5])
    penalised = compare(table(7.0, 6.5), [3], [3], [5], penalty=1.3)
    assert bare is not None
    assert penalised is not None
    assert bare.margin == pytest.approx(0.5)
    assert penalised.margin == pytest.approx(6.5 - 7.0 / 1.3)


def test_the_last_position_of_the_context_can_be_judged() -> None:
    target = tiny_target("llama", context=16)
    output = greedy(target)
    wrong = [*output[:-1], (output[-1] + 1) % VOCAB]
    assert len(output) == 13
    found = compare(target, PROMPT, output, wrong)
    assert found is not None
    assert found.position == 12
    assert found.verdict == "bug"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt2"])
def test_half_precision_never_diverges_by_more_than_a_tie(name: str, dtype: torch.dtype) -> None:
    """Trees of all widths on real architectures: either the same output, or a tie where it parts."""
    parted = []
    for seed in range(6):
        target = TransformersTarget(copy.deepcopy(tiny_model(name, seed)).to(dtype), eos_ids=())
        for prompt in ([5, 9, 3], [1, 2, 3, 4, 5, 6, 7, 8]):
            plain = greedy(target, new=60, prompt=prompt)
            guesses = [Guess(4, right, siblings=3, before=1) for right in (4, 0, 2)]
            drafter = Blind([*prompt, *plain], guesses, VOCAB)
            found = compare(target, prompt, plain, greedy(target, drafter, new=60, prompt=prompt))
            parted += [] if found is None else [found]
    assert all(found.verdict == "tie" for found in parted), parted
    assert parted or dtype == torch.float16, "bfloat16 is so coarse that some ties must occur, or nothing was tested"


class Blind(OracleDrafter):
    """An oracle that goes on proposing the recorded text after the output has parted from it."""

    def propose(self, context):
        self.truth[: len(context.ids)] = context.ids
        return super().propose(context)
