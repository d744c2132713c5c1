"""The built-in family: a target, a draft distilled from it, and a smaller target, all with one tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from playground.decoding.target import TransformersTarget
from playground.training.corpus import Corpus, Ids, prepare_corpus, with_more_code
from playground.training.evaluation import Agreement, agreement, bits_per_byte
from playground.training.forward import next_token_logits, trunk
from playground.training.loop import Batches, Schedule, read_log, training
from playground.training.prompts import corpus_prompts
from playground.training.publish import publish
from playground.training.self_distillation import Writing, read_texts, write_text
from playground.training.unlikelihood import CONTINUATION, looping, unlikelihood

Objective = Callable[[Tensor], Tensor]  # token ids [B, T+1] -> loss, a scalar

EXIT_WEIGHT = 0.15
EXIT_STRIDE = 4  # the early exit is judged at every fourth position: its head costs as much as three layers
TEXT_WEIGHT = 0.1  # of the text's own cross-entropy beside the teacher's distribution
OWN_TEXT_WEIGHT = 0.5  # where the teacher wrote the text: its greedy tokens are what a greedy target accepts
VALIDATION_TOKENS = 32_768

_ABOUT = {
    "target": "The largest model of the built-in family. Its early exit is trained, so it can draft for itself.",
    "draft": "One layer, distilled from the built-in target: proposes what the target verifies.",
    "small-target": "A few layers, distilled from the built-in target: with Medusa heads it drafts for the target.",
}


@dataclass(frozen=True)
class Shape:
    """A small Llama: deep and narrow, so that a one-layer draft costs a tenth of a pass of the target."""

    layers: int
    width: int = 256
    inner: int = 576
    heads: int = 4
    kv_heads: int = 2
    exit_layer: int | None = None


@dataclass(frozen=True)
class OwnText:
    """Text that the target writes after so many passages of the corpus, and how long a student learns from it: at first
    among as much of the corpus, at last from it alone, with more weight on what was written."""

    prompts: int
    writing: Writing
    among: Schedule
    alone: Schedule


@dataclass(frozen=True)
class Member:
    shape: Shape
    schedule: Schedule
    own_text: OwnText | None = None


@dataclass(frozen=True)
class FamilyPlan:
    """Who is trained for how long; draft and small target learn from the target.

    `unlooping` is a last phase in which the target unlearns to write in circles.
    """

    target: Member
    draft: Member
    small_target: Member
    unlooping: Schedule | None = None
    vocab_size: int = 4096
    context: int = 1024


STANDARD_PLAN = FamilyPlan(
    target=Member(Shape(layers=12, exit_layer=3), Schedule(stable=2_100, decay=380, peak=4e-3)),
    draft=Member(
        Shape(layers=1),
        Schedule(stable=450, decay=150),
        OwnText(
            10_000,
            Writing(64, (0.0, 0.0, 1.0)),
            among=Schedule(1_700, 0, warmup=10),
            alone=Schedule(700, 380, warmup=10, decay_row_tokens=256),
        ),
    ),
    small_target=Member(Shape(layers=4), Schedule(stable=250, decay=110)),
    unlooping=Schedule(320, 120, warmup=10, peak=1e-3, batch_tokens=2048, decay_row_tokens=256),
)


def build(shape: Shape, vocab_size: int, context: int, seed: int = 0) -> LlamaForCausalLM:
    """A fresh float32 Llama of `shape`; `exit_layer` is recorded in its config."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.width // shape.heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
    )
    if shape.exit_layer is not None:
        config.exit_layer = shape.exit_layer
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # compiled, it trains 1.2 times as fast as the CPU's fused kernel
    return model


def pretraining(model: LlamaForCausalLM) -> Objective:
    """Cross-entropy on the text, plus a light loss on the early exit where the config names one.

    The exit shares the final norm and the head (LayerSkip, arXiv:2404.16710, section 4.1, with a single exit).
    """
    depth: int = model.config.num_hidden_layers
    exit_layer: int | None = getattr(model.config, "exit_layer", None)

    def loss(ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            inputs, labels = ids[:, :-1], ids[:, 1:]
            if exit_layer is None:
                (last,) = trunk(model, inputs, depth)
                return _cross_entropy(model.lm_head(last), labels)
            last, early = trunk(model, inputs, depth, exit_layer)
            exit_loss = _cross_entropy(model.lm_head(early[:, ::EXIT_STRIDE]), labels[:, ::EXIT_STRIDE])
            return _cross_entropy(model.lm_head(last), labels) + EXIT_WEIGHT * exit_loss

    return loss


def distillation(student: LlamaForCausalLM, teacher: LlamaForCausalLM, text_weight: float = TEXT_WEIGHT) -> Objective:
    """KL(teacher || student) per position, plus `text_weight` times the cross-entropy on the text itself.

    Speculative sampling accepts with probability sum(min(p, q)); KL bounds what is lost (DistillSpec,
    arXiv:2310.08461, section 4).
    """
    teacher.requires_grad_(False)

    def loss(ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            inputs, labels = ids[:, :-1], ids[:, 1:]
            with torch.no_grad():
                wanted = F.log_softmax(next_token_logits(teacher, inputs), dim=-1)
            said = F.log_softmax(next_token_logits(student, inputs), dim=-1)
            divergence = (wanted.exp() * (wanted - said)).sum(-1).mean()
            return divergence + text_weight * F.nll_loss(said.flatten(0, 1), labels.flatten())

    return loss


def start_from(student: LlamaForCausalLM, teacher: LlamaForCausalLM) -> None:
    """Give the student the teacher's embeddings and final norm, and its layers spread evenly from the first on."""
    count, depth = student.config.num_hidden_layers, teacher.config.num_hidden_layers
    student.model.embed_tokens.load_state_dict(teacher.model.embed_tokens.state_dict())
    student.model.norm.load_state_dict(teacher.model.norm.state_dict())
    for i, layer in enumerate(student.model.layers):
        layer.load_state_dict(teacher.model.layers[i * depth // count].state_dict())


def train_family(
    books: Path, work: Path, out: Path, plan: FamilyPlan = STANDARD_PLAN, *, compiled: bool = True
) -> None:
    """Train target, draft and small target in turn and write each to a folder of `out`.

    `books` holds the training text (see corpus.read_books), `work` everything that is needed to resume: a member
    that is finished there is only written again. The standard plan's phases made the models that come with the project
    (docs/LOG.md says in what they differ) and take three hours on two CPU cores. A longer stable phase in the same
    `work` goes on from the end of the shorter one.
    """
    corpus = prepare_corpus(books, work, plan.vocab_size, plan.context)
    target: LlamaForCausalLM | None = None
    for name, member in (("target", plan.target), ("draft", plan.draft), ("small-target", plan.small_target)):
        model = build(member.shape, plan.vocab_size, plan.context)
        if target is None:
            objective = pretraining(model)
        else:
            start_from(model, target)
            objective = distillation(model, target)
        _train_member(model, objective, member.schedule, corpus, work / name, compiled)
        phases = [work / name]
        if target is None and plan.unlooping is not None:
            phases.append(work / f"{name}-unlooping")
            likelihood = torch.compile(objective) if compiled else objective
            both = unlikelihood(model, likelihood)  # writes text, which is nothing to compile
            _train_member(model, both, plan.unlooping, with_more_code(corpus), phases[-1], compiled=False)
        if target is not None and member.own_text is not None:
            phases += [work / f"{name}-among-own-text", work / f"{name}-own-text-alone"]
            own = _own_text(target, member.own_text, corpus, books, work / "own-text")
            among = replace(corpus, train=np.concatenate([own, corpus.train[: len(own)]]))
            _train_member(model, objective, member.own_text.among, among, phases[-2], compiled)
            closer = distillation(model, target, OWN_TEXT_WEIGHT)
            _train_member(model, closer, member.own_text.alone, replace(corpus, train=own), phases[-1], compiled)
        _publish_member(model, phases, corpus, out / name, target)
        target = target or model


def _own_text(target: LlamaForCausalLM, plan: OwnText, corpus: Corpus, books: Path, folder: Path) -> Ids:
    """What `target` writes after passages of the corpus. A draft is asked what comes after the target's own words,
    not after an author's (arXiv:2310.08461, section 4.2)."""
    prompts = corpus_prompts(corpus.tokenizer, books, plan.prompts).seen
    for _ in write_text(TransformersTarget(target), prompts, folder, plan.writing):
        pass
    end = target.config.eos_token_id
    return np.concatenate([[*text.ids, end] for text in read_texts(folder)]).astype(corpus.train.dtype)


def _train_member(
    model: LlamaForCausalLM, objective: Objective, schedule: Schedule, corpus: Corpus, folder: Path, compiled: bool
) -> None:
    sample = corpus.held_books.head(VALIDATION_TOKENS)

    def validate() -> dict[str, float]:
        return {"books_bits_per_byte": bits_per_byte(model, sample, schedule.row_tokens)}

    batches = Batches(corpus.train, schedule, seed=1)
    for _ in training(model, objective, batches, schedule, folder, validate=validate, compiled=compiled):
        pass


def _publish_member(
    model: LlamaForCausalLM, phases: list[Path], corpus: Corpus, folder: Path, target: LlamaForCausalLM | None
) -> None:
    """Write a member with a card of what was measured; `target` is the teacher of a student."""
    context: int = model.config.max_position_embeddings
    log = [line for work in phases for line in read_log(work)]
    facts = {
        "bits per byte, held-out books": f"{bits_per_byte(model, corpus.held_books, context):.3f}",
        "bits per byte, held-out Python": f"{bits_per_byte(model, corpus.held_code, context):.3f}",
        "greedy texts in circles": f"{looping(model, corpus.held_books.ids):.0%} (more than a fifth of the 4-grams of "
        f"{CONTINUATION} tokens are repetitions)",
        "training": f"{len(log):,} steps, {sum(line['tokens'] for line in log):,} tokens read",
    }
    exit_layer: int | None = getattr(model.config, "exit_layer", None)
    sample = corpus.held_books.head(VALIDATION_TOKENS)
    if exit_layer is not None:
        early = agreement(model, model, sample, context, exit_layer)
        facts[f"early exit behind layer {exit_layer} against all layers"] = _describe(early)
    if target is not None:
        facts["against the target"] = _describe(agreement(model, target, sample, context))
    publish(model, corpus.tokenizer, folder, f"Built-in {folder.name}", _ABOUT[folder.name], facts)


def _describe(found: Agreement) -> str:
    return f"sum(min(p, q)) = {found.overlap:.3f}, same most likely token {found.same_top:.1%} (held-out books)"


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
