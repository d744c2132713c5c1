"""Which models on this machine can draft for a target: read from their folders, nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from playground.errors import UserError
from playground.models.catalog import Catalog
from playground.models.folder import ModelFolder, read_json
from playground.models.loading import load_tokenizer
from playground.models.pairing import Finding, check_pair

CONTEXT_NAMES = ("max_position_embeddings", "n_positions")


@dataclass(frozen=True)
class Candidate:
    """A model as its folder describes it: what `pairing.check_pair` asks for, without the weights."""

    name: str
    path: Path

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.path)

    @cached_property
    def tokens(self) -> dict[int, str]:
        """Every token of the tokenizer by its id."""
        return {token: text for text, token in self.tokenizer.get_vocab().items()}

    @cached_property
    def folder(self) -> ModelFolder:
        return ModelFolder(self.path)

    @cached_property
    def parameters(self) -> int:
        return self.folder.parameters

    @cached_property
    def context_length(self) -> int:
        """Positions of the model. Raises UserError where config.json does not say."""
        text = {**self.folder.config, **self.folder.config.get("text_config", {})}
        for name in CONTEXT_NAMES:
            if isinstance(text.get(name), int):
                return int(text[name])
        raise UserError(f"{self.path / 'config.json'} does not say how many tokens the model reads.")

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """What ends a text: generation_config.json, else config.json, as transformers has it."""
        generation = self.path / "generation_config.json"
        for config in (read_json(generation) if generation.is_file() else {}, self.folder.config):
            if (ids := config.get("eos_token_id")) is not None:
                return frozenset([ids] if isinstance(ids, int) else ids)
        return frozenset()


@dataclass(frozen=True)
class Draft:
    """A draft that fits. `cost` estimates its pass as a part of the target's; `findings` say what to expect of it."""

    name: str
    cost: float
    findings: tuple[Finding, ...]


def rank_drafts(target: Candidate, candidates: Iterable[Candidate]) -> list[Draft]:
    """The candidates that fit `target`, cheapest first. One whose files are damaged fits nothing.

    The cost is the ratio of parameters, since reading the weights is what a pass of one token costs.
    """
    _ = target.tokens  # if this one is damaged, it is not the candidates' fault
    fitting = []
    for candidate in candidates:
        try:
            findings = tuple(check_pair(target, candidate))
        except UserError:
            continue
        if not any(finding.level == "error" for finding in findings):
            fitting.append(Draft(candidate.name, candidate.parameters / target.parameters, findings))
    return sorted(fitting, key=lambda draft: draft.cost)


def find_drafts(catalog: Catalog, target: str, allow_local: bool = True) -> list[Draft]:
    """The catalog's models on this machine that can draft for `target` (a family, model, hub id, folder), ranked.

    Raises UserError if the target is not on this machine.
    """
    source = catalog.source(target, allow_local)
    if (path := source.find()) is None:
        raise UserError(f"{source.name} is not on this machine, so its tokenizer cannot be read. Fetch it first.")
    found = [(entry.id, entry.source.find()) for entry in catalog.models.values()]
    others = [Candidate(name, folder) for name, folder in found if folder is not None and folder != path]
    return rank_drafts(Candidate(source.name, path), others)
