"""From what a user has to a method, its settings and the reasons, each with its evidence."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from playground.analysis.report import OVERALL, Row
from playground.analysis.speed_model import best_k, chain_speedup, lookahead_tokens
from playground.decoding.codec import decode_value
from playground.errors import UserError
from playground.methods import get_method

EVIDENCE = Path(__file__).parents[2] / "assets" / "evidence.toml"

ASSUMED_ALPHA = 0.7  # chance that a drafted token is accepted, where nobody has measured it
CROWDED = 8  # sequences in a pass from which on speculation has to be measured before it is believed
RATIO = (5, 10)  # how many times smaller a draft should be
# What the authors of lookahead decoding fitted for LLaMA-2-7B-chat on MT-Bench: chance per token, passes per hit.
LOOKAHEAD_FIT = (0.425, 3.106)


@dataclass(frozen=True)
class Situation:
    """What the user has. Sizes in billions of parameters; `alpha` where it has been measured.

    `repeats` says that answers copy from their prompts: summaries, edits of code, answers from documents.
    `throughput` says that tokens per second of all sequences together count, not the time of one.
    """

    target: float
    draft: float | None = None
    heads: bool = False
    may_train: bool = False
    batch: int = 1
    gpu: bool = True
    repeats: bool = False
    alpha: float | None = None
    throughput: bool = False

    def __post_init__(self) -> None:
        for name, size in (("target", self.target), ("draft", self.draft)):
            if size is not None and not 0 < size < 100_000:
                raise UserError(f"The {name}'s size is {size}; give billions of parameters, such as 7 or 0.5.")
        if self.draft is not None and self.draft >= self.target:
            raise UserError(
                f"The draft ({self.draft:g} billion parameters) is not smaller than the target ({self.target:g}). "
                f"A draft that pays is {RATIO[0]} to {RATIO[1]} times smaller."
            )
        if self.batch < 1:
            raise UserError(f"The batch is {self.batch}; a pass has at least 1 sequence.")
        if self.alpha is not None and not 0 <= self.alpha <= 1:
            raise UserError(f"alpha is {self.alpha}; it is a probability, from 0 to 1.")


Evidence: TypeAlias = Literal["rule of thumb", "formula", "published", "measured here"]


@dataclass(frozen=True)
class Reason:
    """Why, and how we know. `text` has {blanks} for `values`, so that it can be said in other languages."""

    text: str
    evidence: Evidence
    values: Mapping[str, float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        written = {name: f"{value:g}" if isinstance(value, float) else value for name, value in self.values.items()}
        return self.text.format(**written)


@dataclass(frozen=True)
class Advice:
    """A method to use, best first. `settings` are those to begin with."""

    method: str
    settings: dict[str, int | str]
    reasons: list[Reason] = field(default_factory=list)


def advise(have: Situation, measured: Mapping[str, Row] | None = None) -> list[Advice]:
    """Methods in the order to try them; the first is the answer.

    `measured` has rows of a benchmark by method, overall, with speed-ups over "autoregressive": where there are any,
    they decide between the methods that they are about.
    """
    found = [*_draft(have), *_medusa(have), *_copying(have), *_lookahead(have)]
    if have.repeats:
        found.sort(key=lambda advice: advice.method != "prompt-lookup")
    plain = Advice("autoregressive", {}, [Reason("The baseline: what the others have to beat.", "rule of thumb")])
    if have.batch >= CROWDED or have.throughput:
        found = [Advice("autoregressive", {}, [_crowd(have)]), *found]
    else:
        found.append(plain)
    return _by_measurement(found, measured or {})


def _crowd(have: Situation) -> Reason:
    """Why sequences that share the passes come before guessing."""
    return Reason(
        "For throughput first let sequences share the passes: a pass over several costs little more than one over a "
        "single token, and no guess is thrown away. What speculation adds to that is to be measured: "
        "python -m playground batch-curve."
        if have.batch == 1
        else "With {batch} sequences in a pass the compute that speculation lives on is in use: gains shrink, and "
        "rejected tokens take time from other sequences. Measure it: python -m playground batch-curve.",
        "rule of thumb",
        {"batch": have.batch},
    )


def _draft(have: Situation) -> list[Advice]:
    if have.draft is None:
        return []
    ratio, alpha = have.target / have.draft, ASSUMED_ALPHA if have.alpha is None else have.alpha
    k = best_k(alpha, 1 / ratio)
    pays = round(ratio) >= RATIO[0]
    size, step = round(ratio, 1), {"alpha": alpha, "ratio": round(ratio)}
    reasons = [
        Reason(
            "The draft is {ratio} times smaller; {least} to {most} times is where drafts pay."
            if pays
            else "The draft is {ratio} times smaller, which may cost more than it saves; {least} to {most} times is "
            "where drafts pay.",
            "rule of thumb",
            {"ratio": size, "least": RATIO[0], "most": RATIO[1]},
        ),
        Reason(
            "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, k = {k} is best: "
            "{speedup} times as fast, if wide passes cost nothing."
            if k
            else "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, no k is faster "
            "than not drafting.",
            "formula",
            step | {"k": k, "speedup": round(chain_speedup(alpha, k, 1 / ratio), 1)},
        ),
    ]
    if have.alpha is None:
        reasons.append(Reason("That acceptance is assumed: nobody has measured it here.", "rule of thumb"))
    return [Advice("draft-model", {"k": k or 2}, reasons)] if pays or have.alpha is not None else []


def _medusa(have: Situation) -> list[Advice]:
    if not (have.heads or have.may_train):
        return []
    reasons = [
        Reason(
            "Heads for this model exist: nothing to train, no second model to load."
            if have.heads
            else "Heads train in hours on the frozen model and need no second model: "
            "python -m playground train-medusa.",
            "rule of thumb",
        )
    ]
    if not have.gpu:
        reasons.append(
            Reason(
                "On a CPU a pass over a wide tree is not free: take the tree that is fastest on this machine "
                "(train-medusa --nodes auto).",
                "rule of thumb",
            )
        )
    return [Advice("medusa", {"tree": "auto"}, reasons)]


def _copying(have: Situation) -> list[Advice]:
    why = Reason(
        "The answers copy from their prompts, which is what prompt lookup proposes; published gains are largest there."
        if have.repeats
        else "Nothing to train or load; it proposes only where the text repeats itself, and costs little where not.",
        "published",
    )
    return [Advice("prompt-lookup", {"k": 5, "max_ngram": 3}, [why])]


def _lookahead(have: Situation) -> list[Advice]:
    fit, every = LOOKAHEAD_FIT
    window = 15 if have.target < 10 else 10 if have.target < 25 else 7
    reasons = [
        Reason("Nothing to train or load.", "rule of thumb"),
        Reason(
            "W {window}, N 5, G {guesses} is what its authors took for this size on an A100: the larger the model, the "
            "less compute is idle.",
            "published",
            {"window": window, "guesses": window},
        ),
        Reason(
            "Their fit for a 7B chat model gives {tokens} tokens per pass.",
            "formula",
            {"tokens": round(lookahead_tokens(fit, 5, window, every), 2)},
        ),
    ]
    if not have.gpu:
        reasons.append(Reason("On a CPU its wide passes usually cost more than they bring.", "rule of thumb"))
    return [Advice("lookahead", {"window": window, "ngram": 5, "guesses": window}, reasons)]


def _by_measurement(found: list[Advice], measured: Mapping[str, Row]) -> list[Advice]:
    """`found` with what was measured, in its order; what nobody measured comes after what is faster than plain."""

    def speed(advice: Advice) -> float:
        row = measured.get(advice.method)
        over = row.speedups.get("autoregressive") if row is not None and row.category == OVERALL else None
        return over.median if over is not None else 1.0

    for advice in found:
        if (factor := speed(advice)) != 1.0 and advice.method in measured:
            here: dict[str, float | str] = {"factor": round(factor, 2), "lane": measured[advice.method].lane}
            advice.reasons.insert(
                0, Reason("{factor} times as fast as autoregressive ({lane}).", "measured here", here)
            )
    return sorted(found, key=lambda advice: -speed(advice)) if measured else found


@dataclass(frozen=True)
class Published:
    """What is published about a method: ranges of speed-up and of tokens per step, and what it needs."""

    speedup: tuple[float, float]
    tokens_per_step: tuple[float, float]
    source: str
    training: str
    extra: str


def published() -> dict[str, Published]:
    """Published results by method."""
    data = tomllib.loads(EVIDENCE.read_text(encoding="utf-8"))
    return {
        name: Published(
            tuple(given["speedup"]),
            tuple(given["tokens_per_step"]),
            *(given[key] for key in ("source", "training", "extra")),
        )
        for name, given in data.items()
    }


def read_measured(report: Path) -> dict[str, Row]:
    """The fastest overall row of every method in the report.json of a benchmark. Raises UserError if it is none."""
    try:
        given = json.loads(report.read_text(encoding="utf-8"))
        rows = decode_value(list[Row], given["rows"], "rows")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{report} is not the report.json of a benchmark ({error}). Make one with python -m playground bench."
        ) from error
    best: dict[str, Row] = {}
    for row in rows:
        method = row.lane.split()[0]
        if row.category == OVERALL and (method not in best or row.tokens_per_second > best[method].tokens_per_second):
            best[method] = row
    return best


def to_markdown(advice: list[Advice], measured: Mapping[str, Row] | None = None) -> str:
    """The advice, and the table of methods."""
    first = advice[0]
    chosen = " ".join(f"--set {name}={value}" for name, value in first.settings.items())
    lines = [f"Use {get_method(first.method).title}: --method {first.method} {chosen}".rstrip(), ""]
    for at, one in enumerate(advice):
        if at:
            lines += ["", f"{at + 1}. {get_method(one.method).title}"]
        lines += [f"- {reason} [{reason.evidence}]" for reason in one.reasons]
    lines += [
        "",
        "| method | measured here | published speed-up | training | needs besides | loss of quality |",
        "|" + "---|" * 6,
    ]
    for name, known in published().items():
        row = (measured or {}).get(name)
        over = row.speedups.get("autoregressive") if row is not None else None
        here = f"{over.median:.2f}" if over is not None else "not yet"
        low, high = known.speedup
        loss = "none, unless acceptance is typical" if name == "medusa" else "none"
        lines.append(f"| {name} | {here} | {low:.2f} to {high:.2f} | {known.training} | {known.extra} | {loss} |")
    lines += ["", *(f"{name}: {known.source}." for name, known in published().items())]
    return "\n".join(lines)
