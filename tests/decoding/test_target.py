"""Which transformers models can be decoded, that they are read as they read themselves, and who is refused and how."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from playground.decoding.executor import Executor, Pass, causal
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.target import FINAL, TransformersTarget, check_architecture
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.draft_model import DraftModel
from playground.errors import UserError
from tests.oracle import Guess, OracleDrafter
from tests.tiny import ARCHITECTURES, SHAPE, VOCAB, tiny_model, tiny_target

BARE = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SMALL = SHAPE | BARE


def build(kind: str, attention: str | None = None, **shape: object) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        CONFIG_MAPPING[kind](**shape), attn_implementation=attention
    )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.25)
    return model.eval()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_models_that_can_read_a_tree_pass_the_check(name: str) -> None:
    check_architecture(tiny_target(name))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("cohere", SMALL | {"logit_scale": 0.3}),
        ("granite", SMALL | {"logits_scaling": 4.0}),
        ("gemma2", SMALL | {"final_logit_softcapping": 2.0, "query_pre_attn_scalar": 8}),
        ("gpt_oss", SMALL | {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 6}),
        ("gpt_neox", SMALL),
        ("phi3", SMALL | {"sliding_window": 6}),
        ("qwen3_moe", SMALL | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
        ("smollm3", SMALL),
    ],
)
def test_other_architectures_are_decoded_like_generate_does(kind: str, shape: dict[str, object]) -> None:
    """Scaled and capped heads, attention sinks, experts, layers without positions: an oracle's tree changes nothing."""
    model = build(kind, **shape)
    target = TransformersTarget(model, kind, eos_ids=())
    check_architecture(target)
    prompt = [5, 9, 3, 77, 20, 11, 64, 2]
    plain = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False, pad_token_id=0)[0].tolist()
    drafter = OracleDrafter(plain, [Guess(3, right, siblings=1, before=1) for right in (3, 1, 0, 2)], VOCAB)
    session = Session(Executor(target), drafter, prompt, max_new_tokens=24)
    steps = list(decode([session]))
    assert session.ids == plain
    assert [step.accepted for step in steps] == drafter.expected


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt2", "phi"])
def test_attention_that_adds_its_mask_is_read_like_the_one_that_selects(name: str) -> None:
    kind, _ = ARCHITECTURES[name]
    selecting = tiny_model(name)
    adding = build(kind, "eager", **selecting.config.to_dict())
    adding.load_state_dict(selecting.state_dict())
    assert adding.config._attn_implementation == "eager"
    found = []
    for model in (selecting, adding):
        executor = Executor(TransformersTarget(model, eos_ids=()))
        executor.run({0: Pass([5, 9, 3, 1, 2, 8, 7], range(7), causal(7))})
        executor.cache.keep(0, range(7))
        visible = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 1]], dtype=torch.bool)
        found.append(executor.run({0: Pass([4, 6, 10], [7, 7, 8], visible)})[0].logits(slice(None)))
    assert torch.allclose(*found, atol=1e-4, rtol=0)


DEEP = {"num_hidden_layers": 2, "hidden_size": 32, "vocab_size": VOCAB}


@pytest.mark.parametrize(
    ("kind", "shape", "saying"),
    [
        ("mamba2", DEEP | {"state_size": 4, "num_heads": 8, "head_dim": 8, "n_groups": 1}, "rolled back"),
        ("rwkv", DEEP | {"attention_hidden_size": 32}, "recurrent.*rolled back"),
        ("lfm2", SMALL | {"layer_types": ["conv", "full_attention"]}, "conv.*rolled back"),
        ("llama4_text", SMALL | {"num_local_experts": 1, "attention_chunk_size": 6}, "chunked_attention"),
        ("bloom", {"vocab_size": VOCAB, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "number its positions"),
        ("mpt", {"vocab_size": VOCAB, "d_model": 32, "n_layers": 2, "n_heads": 4}, "number its positions"),
        ("falcon", DEEP | {"num_attention_heads": 4, "alibi": True}, "cannot read a token tree"),
        ("gpt_neo", DEEP | {"num_layers": 2, "attention_types": [[["local"], 2]], "num_heads": 4}, "kind local"),
        ("bert", SMALL | {"is_decoder": False}, "same logits"),
    ],
)
def test_models_that_cannot_are_refused_in_a_sentence(kind: str, shape: dict[str, object], saying: str) -> None:
    with pytest.raises(UserError, match=saying) as told:
        check_architecture(TransformersTarget(build(kind, **shape), f"my {kind}", eos_ids=()))
    assert f"my {kind}" in str(told.value)
    assert "Choose" in str(told.value)


def test_a_head_that_we_misread_is_caught() -> None:
    """A model that does something to its logits of which the target knows nothing."""
    target = TransformersTarget(copy.deepcopy(tiny_model("llama")), "scaled", eos_ids=())
    forward = target.model.forward

    def scaled(*args: object, **kwargs: object) -> object:
        out = forward(*args, **kwargs)
        out.logits = out.logits * 1.1
        return out

    target.model.forward = scaled  # type: ignore[method-assign]
    with pytest.raises(UserError, match="same logits"):
        check_architecture(target)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gemma3", "gpt2"])
def test_half_precision_passes_the_check(name: str, dtype: torch.dtype) -> None:
    check_architecture(TransformersTarget(copy.deepcopy(tiny_model(name)).to(dtype), eos_ids=()))


def test_end_of_text_ids_come_from_the_generation_config_first() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    assert TransformersTarget(model).eos_ids == frozenset()
    model.config.eos_token_id = 3
    assert TransformersTarget(model).eos_ids == {3}
    model.generation_config = GenerationConfig(eos_token_id=[4, 5])
    assert TransformersTarget(model).eos_ids == {4, 5}
    assert TransformersTarget(model, eos_ids=[7]).eos_ids == {7}
    assert TransformersTarget(model, eos_ids=()).eos_ids == frozenset()


@pytest.mark.parametrize("layers", [0, 2, 7, -1])
def test_an_exit_layer_outside_the_model_is_told(layers: int) -> None:
    with pytest.raises(UserError, match=f"exit_layer is {layers}, .* has 2 layers: choose a layer from 1 to 1"):
        tiny_target("llama").early_exit(layers)


def test_a_model_whose_layers_lie_elsewhere_cannot_exit_early_and_says_so() -> None:
    with pytest.raises(UserError, match="cannot exit early"):
        tiny_target("gpt2").early_exit(1)


def test_a_run_leaves_nothing_on_the_model() -> None:
    model = copy.deepcopy(tiny_model("gemma3"))
    model(torch.tensor([[1]]), output_hidden_states=True)  # what transformers itself leaves there
    before = {name: set(vars(part)) for name, part in model.named_modules()}
    config, generation = model.config.to_dict(), model.generation_config.to_dict()
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    target = TransformersTarget(model, eos_ids=())
    target.early_exit(1)
    for sampling in (Sampling(), Sampling(1.0, repetition_penalty=1.3)):
        session = Session(Executor(target), Autoregressive(), [5], sampling, max_new_tokens=9)
        list(decode([session]))
        again = OracleDrafter(session.ids, [Guess(2, 1, siblings=1, side=2)], VOCAB, needs=[1])
        list(decode([Session(Executor(target), again, [5], sampling, max_new_tokens=9)]))
    assert {name: set(vars(part)) for name, part in model.named_modules()} == before
    assert (model.config.to_dict(), model.generation_config.to_dict()) == (config, generation)
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())


# --- the table


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_table_reads_its_visible_tokens_by_position(order: int) -> None:
    """Through the mask and the cache alone: the newest tokens that a row may see, token 0 before the text."""
    target = TableTarget.random(5, order, seed=0)
    executor = Executor(target)
    executor.run({0: Pass([4, 1], range(2), causal(2))})
    executor.cache.keep(0, range(2))
    visible = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 1]], dtype=torch.bool)
    rows = executor.run({0: Pass([2, 3, 1], [2, 2, 3], visible)})[0]
    texts = [[4, 1, 2], [4, 1, 3], [4, 1, 3, 1]]
    for row, text in enumerate(texts):
        assert rows.hidden[FINAL][row].long().tolist() == text[-order:]
        assert torch.equal(rows.logits([row])[0], target.table[tuple(text[-order:])])
    first = Executor(target).run({0: Pass([4], [0], causal(1))})[0]
    assert first.hidden[FINAL][0].long().tolist() == [0] * (order - 1) + [4]


# --- padded vocabularies


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("ours", "drafts"), [(VOCAB, VOCAB + 16), (VOCAB, VOCAB), (VOCAB + 16, VOCAB)])
def test_a_draft_with_more_or_fewer_logits_works_on_the_shared_ids(ours: int, drafts: int, temperature: float) -> None:
    """Whichever of the two is padded: no token that the target lacks is proposed, and q is a law over the target's."""
    target = TransformersTarget(tiny_model("llama", vocab=ours), eos_ids=())
    draft = TransformersTarget(tiny_model("llama", seed=3, vocab=drafts), eos_ids=()).narrowed(min(ours, drafts))
    drafter = DraftModel(draft, Autoregressive, 4, ours)
    sampling = Sampling(temperature, seed=2)
    session = Session(Executor(target), drafter, [5, 9, 3], sampling, max_new_tokens=60, detail=True)
    steps = list(decode([session]))
    nodes = [node for step in steps for node in step.nodes]
    assert nodes
    assert all(node.token < min(ours, drafts) for node in nodes)
    for step in steps:
        for visited in step.detail:
            assert not visited.q or sum(q for _, q in visited.q) + visited.q_rest == pytest.approx(1, abs=1e-5)
    if temperature == 0:
        plain = Session(Executor(target), Autoregressive(), [5, 9, 3], sampling, max_new_tokens=60)
        list(decode([plain]))
        assert session.ids == plain.ids


def test_a_narrowed_model_has_the_law_of_the_ids_it_keeps() -> None:
    target = tiny_target("llama")
    narrow = target.narrowed(50)
    assert (narrow.vocab_size, target.vocab_size) == (50, VOCAB)
    assert target.narrowed(VOCAB + 5).vocab_size == VOCAB
    hidden = torch.randn(3, 32)
    assert torch.equal(narrow.logits(hidden), target.logits(hidden)[:, :50])
