"""Train Medusa heads on what the base model wrote; the base stays as it is.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", section 2.2.1
(Medusa-1).
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.training.loop import Schedule, train
from playground.training.self_distillation import NO_LABEL, Positions, read_positions, write_text
from playground.training.tree_search import FoundTree, fastest_tree, search_tree

RANKS = 10
HELD_OUT = 20  # one prompt in so many
VALIDATE_EVERY = 100
ACCURACY_FILE = "medusa_accuracy.json"


@dataclass(frozen=True)
class HeadsPlan:
    """`own_vocabulary` gives the "v1" layout, otherwise heads share the base's matrix ("v2"). `blocks` 0 with
    `own_vocabulary` is a plain linear head. Later heads count less: head i by `head_decay ** i`."""

    schedule: Schedule
    num_heads: int = 4
    blocks: int = 1
    own_vocabulary: bool = False
    head_decay: float = 0.8
    patience: int = 3


def train_medusa(
    model: PreTrainedModel,
    base: str,
    prompts: Sequence[Sequence[int]],
    work: Path,
    out: Path,
    plan: HeadsPlan,
    *,
    new_tokens: int = 128,
    nodes: int = 24,
    seconds: Callable[[int], float] | None = None,
) -> FoundTree:
    """All there is to do for heads of `model`: write text, train, measure, find the tree, write the folder `out`.

    One in twenty of `prompts` (token ids) is held out. `base` is the name the heads' config gives the model. The tree
    has `nodes` nodes, or as many as are fastest where `seconds` (time of a pass over n tokens) is known. Resumable in
    `work`.
    """
    cut = max(1, len(prompts) // HELD_OUT)
    held_count = write_text(model, prompts[:cut], work / "held_out", new_tokens=new_tokens)
    count = write_text(model, prompts[cut:], work / "seen", new_tokens=new_tokens)
    seen = read_positions(work / "seen", plan.num_heads)
    held_out = read_positions(work / "held_out", plan.num_heads)
    heads = train_heads(model, seen, held_out, plan, work)
    accuracy = head_accuracy(heads, model.get_output_embeddings(), held_out)
    tree = search_tree(accuracy, nodes) if seconds is None else fastest_tree(accuracy, seconds)
    greedy = seen.greedy.float().mean().item()
    about = (
        f"{plan.num_heads} heads, trained on {len(seen.hidden):,} positions of text that the model wrote itself: "
        f"{greedy:.0%} greedily, the rest sampled at temperature 1. Of {len(prompts):,} texts, half of them greedy, "
        f"{count.repetitive + held_count.repetitive:,} were left out because they repeat themselves."
    )
    publish_heads(heads, out, base, tree, accuracy, about)
    return tree


def train_heads(
    model: PreTrainedModel, seen: Positions, held_out: Positions, plan: HeadsPlan, work: Path
) -> MedusaHeads:
    """Heads for `model`, trained on `seen` until the loss on `held_out` stops falling; resumable in `work`.

    `plan.schedule.batch_tokens` counts positions. The heads are float32; only products are rounded to bfloat16.
    """
    lm_head = model.get_output_embeddings().requires_grad_(False)
    vocab_size, hidden_size = lm_head.weight.shape
    size, device = plan.schedule.batch_tokens, model.device
    heads = MedusaHeads(hidden_size, plan.num_heads, plan.blocks, vocab_size if plan.own_vocabulary else None)
    if plan.own_vocabulary:
        heads.start_from(lm_head.weight)
    heads.to(device)

    def loss(positions: Positions) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            losses = head_losses(heads, lm_head, positions)
        return torch.stack([plan.head_decay**i * one for i, one in enumerate(losses)]).sum()

    def batches(step: int) -> Positions:
        epoch, start = divmod(step * size, max(size, len(seen.hidden) // size * size))
        order = np.random.default_rng(epoch).permutation(len(seen.hidden))
        return seen.rows(torch.from_numpy(order[start : start + size])).to(device)

    @torch.no_grad()
    def validate() -> dict[str, float]:
        losses = [loss(part.to(device)).item() * len(part.hidden) for part in held_out.parts(size)]
        return {"held_out_loss": sum(losses) / len(held_out.hidden)}

    train(
        heads,
        loss,
        batches,
        plan.schedule,
        work,
        validate=validate,
        validate_every=VALIDATE_EVERY,
        patience=plan.patience,
        compiled=False,
    )
    return heads.eval()


def head_losses(heads: MedusaHeads, lm_head: nn.Module, positions: Positions) -> list[Tensor]:
    """Mean cross-entropy of each head over the positions that have a label for it."""
    logits = heads(positions.hidden.float(), lm_head)
    return [
        F.cross_entropy(logits[i].float(), positions.labels[:, i], ignore_index=NO_LABEL)
        for i in range(heads.num_heads)
    ]


@torch.no_grad()
def head_accuracy(heads: MedusaHeads, lm_head: nn.Module, positions: Positions) -> list[list[float]]:
    """accuracy[i][r]: share of positions where head i's guess number r is the text's token, r < 10.

    Each head is divided by the positions that have a label for it, which are fewer for later heads.
    """
    weight = next(lm_head.parameters())
    heads = copy.deepcopy(heads).to(weight)
    hits, counts = torch.zeros(heads.num_heads, RANKS), torch.zeros(heads.num_heads, 1)
    for part in positions.parts(2048):
        guesses = heads(part.hidden.to(weight), lm_head).topk(RANKS).indices.cpu()
        wanted = part.labels.T[..., None]
        hits += (guesses == wanted).sum(1)
        counts += (wanted != NO_LABEL).sum(1)
    accuracy: list[list[float]] = (hits / counts.clamp(min=1)).tolist()
    return accuracy


def publish_heads(
    heads: MedusaHeads, folder: Path, base: str, tree: FoundTree, accuracy: list[list[float]], about: str
) -> None:
    """Write heads, tree, accuracies and a card to `folder`. `base` is what the heads were trained for."""
    save_heads(heads.half(), folder, base, tree.paths, pickled=False)
    rounded = [[round(share, 4) for share in head] for head in accuracy]
    (folder / ACCURACY_FILE).write_text(json.dumps(rounded) + "\n", encoding="utf-8")
    rows = "\n".join(
        f"| {i + 1} | {head[0]:.1%} | {sum(head[:3]):.1%} | {sum(head[:5]):.1%} | {sum(head):.1%} |"
        for i, head in enumerate(accuracy)
    )
    (folder / "README.md").write_text(
        f"---\nlicense: apache-2.0\n---\n# Medusa heads for {base}\n\n{about}\n\n"
        f"| head | top 1 | top 3 | top 5 | top 10 |\n|---|---|---|---|---|\n{rows}\n\n"
        f"Shares of held-out positions. Found tree: {len(tree.paths)} nodes, {tree.tokens_per_pass:.2f} tokens a pass "
        "expected if heads were independent.\n",
        encoding="utf-8",
    )
