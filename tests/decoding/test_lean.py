"""The lean forward against transformers' own: the same numbers, the same model afterwards, and only where it fits."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from playground.decoding.executor import Executor, Pass, causal
from playground.decoding.lean import LONGEST_TABLE, LeanStack
from playground.decoding.linear import Packed
from playground.decoding.session import Session, decode
from playground.decoding.target import FINAL, TransformersTarget
from playground.drafters.autoregressive import Autoregressive
from tests.decoding.test_target import SMALL, build
from tests.tiny import tiny_model

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 40}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 40,
}
PLAIN = {
    "llama": ("llama", SMALL),
    "every head has its keys": ("llama", SMALL | {"num_key_value_heads": 4}),
    "biases": ("llama", SMALL | {"attention_bias": True, "mlp_bias": True}),
    "wide heads": ("llama", SMALL | {"head_dim": 16}),
    "gelu": ("llama", SMALL | {"hidden_act": "gelu"}),
    "yarn": ("llama", SMALL | {"rope_parameters": YARN}),
    "llama3 angles": ("llama", SMALL | {"rope_parameters": LLAMA3}),
    "no table": ("llama", SMALL | {"max_position_embeddings": LONGEST_TABLE + 1}),
    "qwen2": ("qwen2", SMALL),
    "qwen3": ("qwen3", SMALL),
}
IDS = [5, 9, 3, 77, 20, 11, 64]


def model_of(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    kind, shape = PLAIN[name]
    model = build(kind, "sdpa", **shape)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.normal_(1, 0.3)
    return model.requires_grad_(False).to(dtype)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PLAIN)
def test_all_states_are_those_of_the_model_itself(name: str, dtype: torch.dtype, packed: bool) -> None:
    """Between the layers and at the end; a text in one pass, and again a token at a time."""
    model = model_of(name, dtype)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.inference_mode():
        theirs = model.base_model(torch.tensor([IDS]), output_hidden_states=True)
        their_logits = model.lm_head(theirs.last_hidden_state[0])
    target = TransformersTarget(model, eos_ids=())
    if packed:
        target.pack()
    assert target.stack is not None
    assert isinstance(target.stack.layers[0].qkv, Packed) == packed
    executor = Executor(target)
    layers = (FINAL, 1, 2)
    rows = executor.run({0: Pass(IDS, range(7), causal(7))}, layers)[0].hidden
    single: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}
    for at, token in enumerate(IDS):
        for layer, state in executor.run({0: Pass([token], [at], causal(1))}, layers)[0].hidden.items():
            single[layer].append(state[0])
        executor.cache.keep(0, [0])

    def same(ours: torch.Tensor, wanted: torch.Tensor) -> bool:
        return float((ours - wanted).norm() / wanted.norm()) < (1e-5 if dtype == torch.float32 else 0.02)

    for layer in layers:
        wanted = theirs.last_hidden_state[0] if layer == FINAL else theirs.hidden_states[layer][0]
        assert same(rows[layer], wanted)
        assert same(torch.stack(single[layer]), wanted)
    assert same(target.logits(rows[FINAL]), their_logits)
    with torch.inference_mode():
        again = model.base_model(torch.tensor([IDS])).last_hidden_state
    assert same(again, theirs.last_hidden_state)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_a_cut_stack_is_the_cut_model(name: str, packed: bool) -> None:
    target = TransformersTarget(model_of(name), eos_ids=())
    if packed:
        target.pack()
    cut = target.early_exit(1)
    assert cut.stack is not None
    lean = Executor(cut).run({0: Pass(IDS, range(7), causal(7))})[0].hidden[FINAL]
    cut.stack = None
    usual = Executor(cut).run({0: Pass(IDS, range(7), causal(7))})[0].hidden[FINAL]
    torch.testing.assert_close(lean, usual)


@pytest.mark.parametrize("tied", [False, True])
def test_what_packing_takes_is_told(tied: bool) -> None:
    kind, shape = PLAIN["biases"]
    target = TransformersTarget(build(kind, **shape | {"tie_word_embeddings": tied}), eos_ids=())
    assert target.packed_bytes == 0
    target.pack()
    assert target.stack is not None
    maps = [getattr(layer, name) for layer in target.stack.layers for name in ("qkv", "out", "gate_up", "down")]
    assert target.packed_bytes == 4 * (sum(one.weight.numel() for one in maps) + target.head.weight.numel())


def test_a_processor_that_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("this path needs another processor")

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", refuse, raising=False)
    target = TransformersTarget(model_of("llama"), eos_ids=())
    target.pack()
    assert target.packed_bytes == 0
    Executor(target).run({0: Pass(IDS, range(7), causal(7))})


@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_packing_what_has_no_lean_forward_changes_nothing(name: str) -> None:
    target = TransformersTarget(tiny_model(name), eos_ids=())
    before = Executor(target).run({0: Pass(IDS, range(7), causal(7))})[0].logits(slice(None))
    target.pack()
    after = Executor(target).run({0: Pass(IDS, range(7), causal(7))})[0].logits(slice(None))
    assert torch.equal(before, after)
    assert target.packed_bytes == 0


def test_no_weight_is_held_twice() -> None:
    model = model_of("llama")
    stack = TransformersTarget(model, eos_ids=()).stack
    assert stack is not None
    joined = {layer.qkv.weight.untyped_storage().data_ptr() for layer in stack.layers}
    joined |= {layer.gate_up.weight.untyped_storage().data_ptr() for layer in stack.layers}
    theirs = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    assert joined < theirs
    assert len({id(weight) for weight in model.parameters()}) == len(theirs) + 2 * (2 + 1)


def test_a_model_that_goes_on_learning_is_read_as_it_is_now() -> None:
    model = model_of("llama")
    target = TransformersTarget(model, eos_ids=())
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.5)
        theirs = model.base_model(torch.tensor([IDS])).last_hidden_state[0]
    ours = Executor(target).run({0: Pass(IDS, range(7), causal(7))})[0].hidden[FINAL]
    torch.testing.assert_close(ours, theirs)


class Quantised(nn.Linear):
    """A linear map of another kind, as quantised ones are."""


def test_whatever_else_there_is_runs_as_it_did() -> None:
    """Windows, other architectures, angles that depend on the length, packed weights, weights that come and go."""
    packed, hooked = copy.deepcopy(tiny_model("llama")), copy.deepcopy(tiny_model("llama"))
    packed.base_model.layers[0].mlp.up_proj = Quantised(32, 48, bias=False)
    hooked.base_model.layers[0]._hf_hook = object()
    dynamic = build("llama", **SMALL, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    others = [tiny_model(name) for name in ("qwen2-window", "mistral", "gemma2", "gemma3", "gpt2", "phi")]
    for model in (packed, hooked, dynamic, *others):
        assert LeanStack.of(model.base_model) is None
        session = Session(Executor(TransformersTarget(model, eos_ids=())), Autoregressive(), IDS, max_new_tokens=4)
        list(decode([session]))
        assert session.ids == model.generate(torch.tensor([IDS]), max_new_tokens=4, do_sample=False)[0].tolist()
