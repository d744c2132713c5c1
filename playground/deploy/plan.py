"""What is to be deployed, and what an engine offers for it. The engines' files hold tables of `Offer`s."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from playground.decoding.sampling import Sampling
from playground.decoding.trace import Value
from playground.errors import UserError
from playground.methods import Method, get_method

Fit = Literal["same", "near", "none"]
Literals: TypeAlias = "Value | list[Literals] | dict[str, Literals]"

FITS: dict[Fit, str] = {
    "same": "has this method",
    "near": "has this method in part",
    "none": "has no such method; below is the nearest it has",
}


@dataclass(frozen=True)
class Deployment:
    """Method, settings and models as chosen here, and the machines it shall run on.

    Models are named as the engine shall find them: hub ids or paths. `nodes` machines hold `tensor_parallel` times
    `pipeline_parallel` GPUs together. Raises UserError for settings that the method does not have, a draft model that
    is missing, and sizes that do not fit.
    """

    method: str
    target: str
    settings: Mapping[str, object] = field(default_factory=dict)
    draft: str | None = None
    heads: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 64
    prompt: str = "Once upon a time"
    chat: bool = False
    dtype: str = "auto"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    draft_tensor_parallel: int | None = None
    nodes: int = 1

    def __post_init__(self) -> None:
        _ = self.checked
        if "draft" in self.kind.needs and not self.draft:
            raise UserError(f"{self.kind.title} needs a draft model. Name one with the same tokenizer as the target.")
        for name in (self.target, self.draft or "", self.heads or ""):
            if not name.isprintable() or name.startswith("-"):
                raise UserError(f"{name!r} cannot be the name of a model.")
        if not self.target:
            raise UserError("No target model is named: give a hub id (owner/name) or a folder.")
        sizes = {"tensor_parallel": self.tensor_parallel, "pipeline_parallel": self.pipeline_parallel}
        for what, size in {**sizes, "nodes": self.nodes}.items():
            if not 1 <= size <= 4096:
                raise UserError(f"{what} is {size}; it must be a whole number from 1 to 4096.")
        if self.gpus % self.nodes:
            raise UserError(
                f"{self.tensor_parallel} x {self.pipeline_parallel} GPUs cannot be spread evenly over {self.nodes} "
                "nodes. Choose tensor_parallel x pipeline_parallel as a multiple of nodes."
            )
        if self.draft_tensor_parallel not in (None, 1, self.tensor_parallel):
            raise UserError(
                f"draft_tensor_parallel is {self.draft_tensor_parallel}; the engines allow 1 or the target's "
                f"{self.tensor_parallel}."
            )

    @property
    def kind(self) -> Method:
        return get_method(self.method)

    @property
    def checked(self) -> dict[str, Value]:
        """All settings of the method, with defaults."""
        return self.kind.check(self.settings)

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def values(self) -> dict[str, Value | None]:
        """What the tables' $names stand for: settings, models, and for the nearest method a draft length like ours."""
        settings = self.checked
        k = int(settings.get("k") or LENGTHS.get(self.method, lambda _: 4)(settings))
        return {
            "max_ngram": 3,
            "batch": 1,
            **settings,
            "k": k,
            "rows": k + 1,
            "draft": self.draft,
            "draft_tp": self.draft_tensor_parallel,
            "draft_sample": "probabilistic" if self.sampling.temperature else None,
        }


LENGTHS: dict[str, Callable[[Mapping[str, Value]], int]] = {
    "lookahead": lambda settings: int(settings["ngram"]) - 1,
    "jacobi": lambda settings: int(settings["block"]),
}


@dataclass(frozen=True)
class Offer:
    """What an engine has for one of our methods: its own name for it, its keys, and what is lost on the way.

    A key's value that starts with $ is looked up in `Deployment.values`; keys whose value is None are left out.
    `ignores` names settings that the engine has not: the value at which nothing is lost, and what is lost otherwise.
    `prepare` is Python to be run first.
    """

    name: str
    fit: Fit
    keys: Mapping[str, Literals] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    ignores: Mapping[str, tuple[Value, str]] = field(default_factory=dict)
    prepare: str = ""

    def fill(self, plan: Deployment) -> dict[str, Literals]:
        """The keys with their values for `plan`."""
        values = plan.values
        filled = {
            key: values[value[1:]] if isinstance(value, str) and value.startswith("$") else value
            for key, value in self.keys.items()
        }
        return {key: value for key, value in filled.items() if value is not None}

    def notes(self, plan: Deployment) -> list[str]:
        """What is lost for `plan`."""
        settings = plan.checked
        ignored = [say for name, (neutral, say) in self.ignores.items() if settings.get(name, neutral) != neutral]
        return [*self.lost, *ignored]


@dataclass(frozen=True)
class Export:
    """What to run, for people: each block has a title, a language and its text."""

    engine: str
    version: str
    name: str
    fit: Fit
    blocks: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()


def shell(groups: Sequence[Sequence[str]]) -> str:
    """A command for a POSIX shell, every word quoted as it must be, one group of words a line."""
    return " \\\n    ".join(shlex.join(group) for group in groups if group)


def flags(keys: Mapping[str, Literals]) -> list[list[str]]:
    """Keys as command-line options: a true one stands alone, a false one is left out."""
    return [
        [f"--{key.replace('_', '-')}"] + ([] if value is True else [str(value)])
        for key, value in keys.items()
        if value is not False
    ]
