"""Processed distributions against transformers' own processors; the laws of noise and of drawing."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GenerationConfig, LogitsProcessorList

from playground.decoding.acceptance import TargetView, seen_mask
from playground.decoding.sampling import Purpose, Sampling, derived_seed, draw, uniform
from playground.decoding.tree import TokenTree, TreeShape
from playground.errors import UserError
from tests.tiny import tiny_model

V = 40


def processors(sampling: Sampling) -> LogitsProcessorList:
    """Transformers' own list, in transformers' own order, as `generate` would build it."""
    config = GenerationConfig(
        do_sample=not sampling.greedy,
        repetition_penalty=sampling.repetition_penalty,
        **({} if sampling.greedy else {"temperature": float(sampling.temperature), "top_p": sampling.top_p}),
        **({} if sampling.greedy else {"top_k": sampling.top_k, "min_p": sampling.min_p or None}),
    )
    model = tiny_model("llama")
    found: LogitsProcessorList = model._get_logits_processor(config, input_ids_seq_length=3, device="cpu")
    return found


def theirs(logits: torch.Tensor, prefix: list[int], sampling: Sampling) -> torch.Tensor:
    return processors(sampling)(torch.tensor([prefix]), logits.unsqueeze(0).clone())[0]


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.01, 0.3, 0.8, 1.0, 1.7, 100.0]),
    top_k=st.sampled_from([0, 1, 2, 7, V - 1, V, V + 1, 10**6]),
    top_p=st.sampled_from([1e-6, 0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.001, 0.05, 0.5, 1.0]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.3, 10.0]),
)


@settings(max_examples=300)
@given(
    samplings,
    st.integers(0, 10**6),
    st.sampled_from([0.1, 3.0, 30.0]),
    st.lists(st.integers(0, V - 1), min_size=1, max_size=12),
)
def test_processed_rows_are_those_of_transformers(
    sampling: Sampling, seed: int, scale: float, prefix: list[int]
) -> None:
    logits = torch.randn(V, generator=torch.Generator().manual_seed(seed)) * scale
    seen = seen_mask([prefix], logits.unsqueeze(0))
    ours = sampling.processed(logits.unsqueeze(0), seen)[0]
    expected = theirs(logits, prefix, sampling)
    assert torch.equal(torch.isinf(ours), torch.isinf(expected)), "the same tokens survive"
    assert torch.allclose(ours.softmax(-1), expected.softmax(-1), atol=1e-6)
    assert int(ours.argmax()) == int(expected.argmax())


@given(samplings)
def test_tied_logits_are_cut_as_transformers_cuts_them(sampling: Sampling) -> None:
    """Equal logits at the border of top-k, top-p and min-p: both keep or drop the same ones."""
    logits = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.5, 0.5, -1.0, -1.0, *[-3.0] * (V - 8)])
    ours = sampling.processed(logits.unsqueeze(0), seen_mask([[1, 4]], logits.unsqueeze(0)))[0]
    assert torch.equal(torch.isinf(ours), torch.isinf(theirs(logits, [1, 4], sampling)))


@pytest.mark.parametrize("top_p", [0.25, 0.5, 0.75])
def test_a_mass_that_lies_exactly_on_the_border_is_cut_as_transformers_cuts_it(top_p: float) -> None:
    logits, sampling = torch.zeros(4), Sampling(1.0, top_p=top_p)
    assert torch.equal(sampling.processed(logits.unsqueeze(0), None)[0], theirs(logits, [0], sampling))


@given(samplings, st.integers(0, 1000))
def test_rows_do_not_influence_each_other(sampling: Sampling, seed: int) -> None:
    logits = torch.randn(5, V, generator=torch.Generator().manual_seed(seed)) * 4
    seen = seen_mask([[at, at + 1] for at in range(5)], logits)
    together = sampling.processed(logits, seen)
    alone = torch.cat([sampling.processed(logits[at : at + 1], seen[at : at + 1]) for at in range(5)])
    assert torch.equal(together, alone)


@given(samplings, st.integers(0, 1000))
def test_a_node_is_processed_over_its_own_ancestors(sampling: Sampling, seed: int) -> None:
    """Committed ids and the path to the node count as seen, other branches and descendants do not."""
    tree = TokenTree((3, 4, 5, 6, 3), TreeShape((-1, -1, 0, 1, 3)))
    logits = torch.randn(6, V, generator=torch.Generator().manual_seed(seed)) * 4
    ids = [1, 2, 1]
    view = TargetView(logits, tree, ids, sampling)
    before = {node: view.p(node).clone() for node in (4, 2)}
    ids += [7, 8, 9]  # a session's ids grow after the verdict
    for node in range(-1, 5):
        expected = theirs(logits[node + 1], [1, 2, 1, *tree.path_tokens(node)], sampling)
        assert torch.allclose(view.p(node), expected.softmax(-1), atol=1e-6)
    assert all(torch.equal(view.p(node), p) for node, p in before.items())


def test_processing_leaves_the_logits_alone() -> None:
    logits = torch.randn(2, V)
    copy = logits.clone()
    Sampling(0.5, top_k=3, top_p=0.8, min_p=0.1, repetition_penalty=1.5).processed(
        logits, seen_mask([[1], [2]], logits)
    )
    assert torch.equal(logits, copy)


def test_half_precision_logits_are_processed_in_float32() -> None:
    logits = torch.randn(1, V, dtype=torch.bfloat16)
    assert Sampling(0.7).processed(logits, None).dtype == torch.float32


@pytest.mark.parametrize("temperature", [1e-3, 100.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_extreme_temperatures_leave_a_distribution(temperature: float, scale: float) -> None:
    logits = torch.randn(1, V) * scale
    p = Sampling(temperature).processed(logits, None).softmax(-1)
    assert torch.isfinite(p).all()
    assert float(p.sum()) == pytest.approx(1)


# --- drawing


def test_draw_is_the_inverse_of_the_cumulated_law() -> None:
    p = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    for u, token in [(0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (0.999999, 4)]:
        assert draw(p, u) == token
        assert draw(p * 7, u) == token, "p need not sum to one"


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9).filter(any), st.floats(0, 1, exclude_max=True))
def test_a_token_without_probability_is_never_drawn(weights: list[float], u: float) -> None:
    p = torch.tensor(weights)
    assert p[draw(p, u)] > 0


def test_draws_of_counter_noise_follow_p() -> None:
    p = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05])
    n = 20_000
    counts = Counter(draw(p, uniform(7, at, Purpose.TARGET)) for at in range(n))
    chi = sum((counts[token] - n * float(p[token])) ** 2 / (n * float(p[token])) for token in range(5))
    assert chi < 18.5, "0.1% of a chi-squared law with 4 degrees of freedom"


# --- noise


def test_noise_is_a_function_of_its_arguments() -> None:
    assert uniform(1, 2, Purpose.TARGET) == uniform(1, 2, Purpose.TARGET)
    arguments = itertools.product((0, 1, 2**63, -1), (0, 1, 2, 10**6), Purpose, (0, 1, 2))
    values = [uniform(*given) for given in arguments]
    assert len(set(values)) == len(values), "no two streams share a number"


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 2**40), st.sampled_from(Purpose), st.integers(0, 100))
def test_noise_lies_below_one(seed: int, position: int, purpose: Purpose, index: int) -> None:
    assert 0 <= uniform(seed, position, purpose, index) < 1


def test_the_greatest_hash_still_lies_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.decoding.sampling._hash", lambda *_: 2**64 - 1)
    assert uniform(0, 0, Purpose.ACCEPT) < 1


def correlation(left: list[float], right: list[float]) -> float:
    return float(torch.corrcoef(torch.tensor([left, right], dtype=torch.float64))[0, 1])


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_streams_are_uniform_and_independent(seed: int) -> None:
    """Across purposes, positions, siblings and seeds; a bound of five standard errors."""
    n = 4000
    streams = {purpose: [uniform(seed, at, purpose) for at in range(n)] for purpose in Purpose}
    named = {f"{purpose.name}": values for purpose, values in streams.items()}
    named["sibling"] = [uniform(seed, at, Purpose.ACCEPT, 1) for at in range(n)]
    named["next position"] = [uniform(seed, at + 1, Purpose.TARGET) for at in range(n)]
    named["next seed"] = [uniform(seed + 1, at, Purpose.TARGET) for at in range(n)]
    named["derived seed"] = [uniform(derived_seed(seed, Purpose.INNER), at, Purpose.TARGET) for at in range(n)]
    for values in named.values():
        assert abs(sum(values) / n - 0.5) < 5 * math.sqrt(1 / 12 / n)
        bins = Counter(int(value * 20) for value in values)
        assert sum((bins[at] - n / 20) ** 2 / (n / 20) for at in range(20)) < 60
    for left, right in itertools.combinations(named, 2):
        assert abs(correlation(named[left], named[right])) < 5 / math.sqrt(n), (left, right)


# --- bad values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", 1e-40),
        ("temperature", 1e-5),
        ("top_k", -1),
        ("top_k", math.nan),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", math.nan),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
    ],
)
def test_bad_values_are_told_in_a_sentence(name: str, value: float) -> None:
    with pytest.raises(UserError) as told:
        Sampling(**{name: value})
    assert name in str(told.value)
    assert str(told.value).endswith(".")
    assert str(value) in str(told.value) or value == 0


def test_infinite_logits_are_told_in_a_sentence() -> None:
    for bad in (math.nan, math.inf):
        logits = torch.tensor([[0.0, bad, 1.0]])
        for sampling in (Sampling(), Sampling(1.0)):
            with pytest.raises(UserError, match="not finite"):
                TargetView(logits, TokenTree.chain([]), [0], sampling).p(-1)
