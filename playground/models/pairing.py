"""Do these models belong together? Checked before a run; every finding is a sentence with what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from transformers import PreTrainedTokenizerBase

from playground.models.loading import LoadedModel
from playground.models.medusa_heads import LoadedHeads

GOOD_RATIO = 5
"""A draft should be at least this many times smaller than its target (rule of thumb: 5 to 10)."""
PROBE = "Hello, world! It's 2024; naïve café: 3.14159 ≈ π.\n\tdef f(x):\n        return x  # 日本語 🎉"


@dataclass(frozen=True)
class Finding:
    """An "error" forbids the pair, a "warning" says what to expect of it."""

    level: Literal["error", "warning"]
    text: str


class Described(Protocol):
    """What a pair is judged by: a `LoadedModel`, or what its folder says (`drafts.Candidate`).

    `tokens` are the token strings by id, `eos_ids` what ends a text, `context_length` counts tokens.
    """

    @property
    def name(self) -> str: ...
    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...
    @property
    def tokens(self) -> Mapping[int, str]: ...
    @property
    def parameters(self) -> int: ...
    @property
    def context_length(self) -> int: ...
    @property
    def eos_ids(self) -> Collection[int]: ...


def shared_vocab(target: LoadedModel, draft: LoadedModel) -> int:
    """The number of ids that both models score; what lies above is padding, or known to one of them only."""
    return min(target.target.vocab_size, draft.target.vocab_size)


def check_pair(target: Described, draft: Described) -> list[Finding]:
    """What speaks against `draft` drafting for `target`, errors first.

    Tokenizers are compared by their token strings, not by their sizes: models pad their vocabularies.
    """
    if (error := _different_tokens(target, draft)) is not None:
        return [error]
    findings = [*_tokenizer_warnings(target, draft)]
    if draft.context_length < target.context_length:
        findings.append(
            _warning(
                f"{draft.name} reads {draft.context_length} tokens, {target.name} "
                f"{target.context_length}: beyond the shorter context nothing is drafted."
            )
        )
    ratio = target.parameters / draft.parameters
    if ratio <= 1:
        findings.append(
            _warning(f"{draft.name} is not smaller than {target.name}: drafting costs more than it can save.")
        )
    elif ratio < GOOD_RATIO:
        findings.append(
            _warning(
                f"{draft.name} is only {ratio:.1f} times smaller than {target.name}: "
                f"expect little gain; {GOOD_RATIO} to 10 times smaller is usual."
            )
        )
    return findings


def check_heads(base: LoadedModel, loaded: LoadedHeads) -> list[Finding]:
    """What speaks against these Medusa heads on `base`: shapes are errors, another base's name is a warning."""
    heads, trained = loaded.heads, f" (for {loaded.base})" if loaded.base else ""
    hidden_size = base.target.head.weight.shape[1]
    if heads.hidden_size != hidden_size:
        return [
            _error(
                f"These Medusa heads read hidden states of size {heads.hidden_size}, but those of {base.name} have "
                f"size {hidden_size}: they were trained for another model{trained}. Choose heads of this model."
            )
        ]
    if heads.vocab_size not in (None, base.target.vocab_size):
        return [
            _error(
                f"These Medusa heads score {heads.vocab_size} tokens, but {base.name} scores "
                f"{base.target.vocab_size}: they were trained for another model{trained}. Choose heads of this model."
            )
        ]
    # a folder of the hub's cache holds the model's id in its path
    if loaded.base and _bare(loaded.base) not in f"{base.name} {base.folder}".lower():
        return [
            _warning(
                f"These Medusa heads say they belong to {loaded.base}, not to {base.name}: if that is another model, "
                "few of their guesses will be accepted."
            )
        ]
    return []


def check_prompting(model: LoadedModel) -> list[Finding]:
    """What to know about how prompts reach `model`: a BOS token that template and tokenizer would both write."""
    tokenizer = model.tokenizer
    bos = tokenizer.bos_token_id
    if bos is None or tokenizer.chat_template is None or tokenizer.encode("")[:1] != [bos]:
        return []
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    if not str(chat).startswith(str(tokenizer.bos_token)):
        return []
    return [
        _warning(
            f"The tokenizer and the chat template of {model.name} both write {tokenizer.bos_token}: "
            "one is left out here. Other programs may send it twice."
        )
    ]


def _different_tokens(target: Described, draft: Described) -> Finding | None:
    ours, theirs = target.tokens, draft.tokens
    for token in sorted(ours.keys() & theirs.keys()):
        if ours[token] != theirs[token]:
            return _error(
                f"{target.name} and {draft.name} have different tokenizers: id {token} is {ours[token]!r} for the "
                f"first and {theirs[token]!r} for the second. Choose a draft of the target's own family."
            )
    if not ours.keys() & theirs.keys():
        return _error(f"{target.name} and {draft.name} have no token in common. Choose a draft of the same family.")
    return None


def _tokenizer_warnings(target: Described, draft: Described) -> list[Finding]:
    ours, theirs = target.tokenizer, draft.tokenizer
    findings = []
    if extra := sorted(target.tokens.keys() ^ draft.tokens.keys()):
        owner = target if extra[0] in target.tokens else draft
        findings.append(
            _warning(
                f"{len(extra)} tokens belong to one tokenizer only, the first is id {extra[0]} "
                f"({owner.tokens[extra[0]]!r}, {owner.name}): they are never drafted."
            )
        )
    if only := sorted(set(ours.all_special_ids) ^ set(theirs.all_special_ids)):
        owner, other = (target, draft) if only[0] in ours.all_special_ids else (draft, target)
        findings.append(
            _warning(
                f"Id {only[0]} ({owner.tokens.get(only[0])!r}) is a special token for {owner.name} and "
                f"an ordinary one for {other.name}: one may be a chat model and the other not."
            )
        )
    if target.eos_ids != draft.eos_ids:
        findings.append(
            _warning(
                f"{target.name} ends a text with {_named(target)}, {draft.name} with {_named(draft)}: "
                "the draft may not foresee the end."
            )
        )
    if ours.encode(PROBE, add_special_tokens=False) != theirs.encode(PROBE, add_special_tokens=False):
        findings.append(
            _warning(
                f"{target.name} and {draft.name} split text differently, though their tokens are the same: the draft "
                "sees the target's ids, some of which it met rarely in training."
            )
        )
    if target.tokenizer.chat_template != draft.tokenizer.chat_template:
        findings.append(
            _warning(
                f"{target.name} and {draft.name} have different chat templates: the draft reads a format that it was "
                "not trained on, so fewer of its tokens may be accepted in a chat."
            )
        )
    return findings


def _named(model: Described) -> str:
    names = [str(model.tokenizer.convert_ids_to_tokens(token)) for token in sorted(model.eos_ids)]
    return " or ".join(names) or "nothing"


def _bare(name: str) -> str:
    return name.rstrip("/").split("/")[-1].lower()


def _error(text: str) -> Finding:
    return Finding("error", text)


def _warning(text: str) -> Finding:
    return Finding("warning", text)
