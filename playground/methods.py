"""The registry of methods. A method is a drafter, its settings, and what it promises about the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from playground.decoding.acceptance import Rule, Typical, exact
from playground.decoding.drafting import Drafter
from playground.decoding.target import TargetModel
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.cascade import Cascade
from playground.drafters.draft_model import DraftModel
from playground.drafters.early_exit import EarlyExit
from playground.drafters.jacobi import Jacobi
from playground.drafters.lookahead import Lookahead
from playground.drafters.medusa import Heads, Medusa
from playground.drafters.prompt_lookup import PromptLookup
from playground.errors import UserError
from playground.models.medusa_trees import MOST_NODES, OwnTree, load_tree
from playground.settings import LaneKind, Promise, Setting, Settings


@dataclass(frozen=True)
class LaneModels:
    """The models a lane may use. `heads` belong to the target, `draft_heads` to the draft model."""

    target: TargetModel
    draft: TargetModel | None = None
    heads: Heads | None = None
    num_heads: int = 0
    draft_heads: Heads | None = None
    num_draft_heads: int = 0
    tree: OwnTree = field(default_factory=lambda: OwnTree(load_tree("minimal-3")))
    draft_tree: OwnTree = field(default_factory=lambda: OwnTree(load_tree("minimal-3")))


Shape: TypeAlias = Literal["chain", "tree", "lookahead"]


@dataclass(frozen=True)
class Method(LaneKind):
    """A way to decode. `guesses` says what its nodes are under sampling, `shape` what it proposes, for the formulas of
    the speed model; None where there is none."""

    build: Callable[[LaneModels, Settings], Drafter] = field(kw_only=True)
    guesses: Literal["points", "distribution"] = "points"
    shape: Shape | None = None

    @property
    def may_lose(self) -> bool:
        """Whether a setting lets it write what the target would not."""
        return any(setting.name == "acceptance" for setting in self.settings)

    def rule(self, settings: Settings) -> Rule:
        """The acceptance rule that these settings ask for."""
        if settings.get("acceptance") == "typical":
            return Typical(float(settings["posterior_threshold"]), float(settings["posterior_alpha"]))
        return exact

    def promise(self, settings: Settings, greedy: bool) -> Promise:
        if settings.get("acceptance") == "typical" and not greedy:
            return "lossy"
        return "ids" if greedy or self.guesses == "points" else "distribution"


def get_method(name: str) -> Method:
    """The method with this id, or UserError with the ids there are."""
    if name not in METHODS:
        raise UserError(f"There is no method called {name!r}. Methods: {', '.join(METHODS)}.")
    return METHODS[name]


NEEDS = {
    "draft": "needs a draft model with the target's tokenizer. Choose one with --draft, or a family that has one.",
    "heads": "needs Medusa heads that were trained for the target. Choose heads, or train them first.",
    "draft_heads": "needs a draft model that has Medusa heads of its own. Choose its heads, or train them first.",
}


def _draft(models: LaneModels) -> TargetModel:
    if models.draft is None:
        raise UserError(f"This method {NEEDS['draft']}")
    return models.draft


def _draft_model(models: LaneModels, settings: Settings) -> Drafter:
    k, confidence = int(settings["k"]), float(settings["confidence"])
    return DraftModel(_draft(models), Autoregressive, k, models.target.vocab_size, confidence)


def _with_tree(heads: Heads, count: int, own: OwnTree, settings: Settings) -> Medusa:
    """Heads with the tree that was asked for: "auto" as it came with them, a number so many of its best nodes."""
    spec = str(settings["tree"])
    if not spec.isdecimal():
        return Medusa(heads, count, own.best() if spec == "auto" else load_tree(spec))
    there = len(own.paths)
    told = f"A tree of {spec} nodes was asked for, but the heads' own tree has {there}: these are used."
    return Medusa(heads, count, own.best(int(spec)), notices=[told] if int(spec) > there else ())


def _check_tree(spec: str) -> None:
    if spec.isdecimal() and not 1 <= int(spec) <= MOST_NODES:
        raise UserError(f"The tree has {spec} nodes; ask for 1 to {MOST_NODES} of the heads' own.")
    if spec != "auto" and not spec.isdecimal():
        load_tree(spec)


def _medusa(models: LaneModels, settings: Settings) -> Drafter:
    if models.heads is None:
        raise UserError(f"This method {NEEDS['heads']}")
    return _with_tree(models.heads, models.num_heads, models.tree, settings)


def _medusa_draft(models: LaneModels, settings: Settings) -> Drafter:
    heads, count = models.draft_heads, models.num_draft_heads
    if heads is None:
        raise UserError(f"This method {NEEDS['draft_heads']}")
    k, confidence = int(settings["k"]), float(settings["confidence"])
    return DraftModel(
        _draft(models),
        lambda: _with_tree(heads, count, models.draft_tree, settings),
        k,
        models.target.vocab_size,
        confidence,
    )


def _prompt_lookup(models: LaneModels, settings: Settings) -> Drafter:
    return PromptLookup(int(settings["k"]), int(settings["max_ngram"]))


def _lookahead(models: LaneModels, settings: Settings) -> Drafter:
    return Lookahead(
        window=int(settings["window"]),
        ngram=int(settings["ngram"]),
        guesses=int(settings["guesses"]),
        pool_from_prompt=bool(settings["pool_from_prompt"]),
        compatible=bool(settings["compatible"]),
    )


def _early_exit(models: LaneModels, settings: Settings) -> Drafter:
    return EarlyExit(models.target, int(settings["exit_layer"]), int(settings["k"]))


def _cascade(models: LaneModels, settings: Settings) -> Drafter:
    return Cascade([_prompt_lookup(models, settings), _draft_model(models, settings)])


K = Setting("k", "int", 4, "How many tokens are drafted before the target checks them.", 1, 64)
CONFIDENCE = Setting(
    "confidence",
    "float",
    0.0,
    "Stop drafting after a token whose draft probability is below this; 0 never stops.",
    0,
    1,
)
MAX_NGRAM = Setting("max_ngram", "int", 3, "Longest ending of the text that is looked up.", 1, 16)
TREE = Setting(
    "tree",
    "text",
    "auto",
    "auto (the heads' own tree), a number (its best nodes), a preset, or rank paths such as [[0],[0,0],[1]].",
    check=_check_tree,
)
BATCH = Setting("batch", "int", 1, "Sequences decoded together in one pass.", 1, 64)

METHODS: dict[str, Method] = {
    method.id: method
    for method in (
        Method(
            "autoregressive",
            "Autoregressive",
            "One token per pass of the target: the baseline.",
            build=lambda models, settings: Autoregressive(),
            settings=(BATCH,),
        ),
        Method(
            "draft-model",
            "Draft model",
            "A smaller model writes k tokens ahead; the target checks them in one pass.",
            build=_draft_model,
            shape="chain",
            settings=(K, CONFIDENCE, BATCH),
            needs=frozenset({"draft"}),
            guesses="distribution",
            sources=("Leviathan et al. 2023, arXiv 2211.17192", "Chen et al. 2023, arXiv 2302.01318"),
        ),
        Method(
            "prompt-lookup",
            "Prompt lookup",
            "Copies what followed the last time the text ended like this; nothing to train or load.",
            build=_prompt_lookup,
            shape="chain",
            settings=(replace(K, default=5), MAX_NGRAM, BATCH),
            sources=("Saxena 2023, Prompt Lookup Decoding",),
        ),
        Method(
            "medusa",
            "Medusa",
            "Extra heads on the target's last hidden state guess a tree of continuations.",
            build=_medusa,
            shape="tree",
            settings=(
                TREE,
                Setting(
                    "acceptance",
                    "choice",
                    "exact",
                    "exact keeps the target's output; typical keeps whatever is plausible and is not lossless.",
                    choices=("exact", "typical"),
                ),
                Setting(
                    "posterior_threshold",
                    "float",
                    0.09,
                    "Typical acceptance keeps a token more probable than this (epsilon); lower accepts more.",
                    0.001,
                    1,
                ),
                Setting(
                    "posterior_alpha",
                    "float",
                    0.3,
                    "Typical acceptance lowers the bar to alpha·exp(-entropy) where the target is unsure.",
                    0.001,
                    1,
                ),
                BATCH,
            ),
            needs=frozenset({"heads"}),
            sources=("Cai et al. 2024, arXiv 2401.10774",),
            note="Exact acceptance is lossless also under sampling: one draw of the target per position decides. The "
            "published code's nucleus mode is left out: it draws separately for every path of the tree and keeps the "
            "luckiest, which favours the heads' guesses over what the target would have written.",
        ),
        Method(
            "lookahead",
            "Lookahead",
            "The target itself fills a window of guesses, collects n-grams from it and checks those that fit.",
            build=_lookahead,
            shape="lookahead",
            settings=(
                Setting("window", "int", 10, "Columns of the window: positions guessed ahead (W).", 1, 64),
                Setting("ngram", "int", 5, "Length of the n-grams that are collected (N).", 2, 16),
                Setting(
                    "guesses", "int", 10, "Candidates checked in a pass, and n-grams kept per first token (G).", 1, 64
                ),
                Setting("pool_from_prompt", "bool", True, "Fill the pool with the prompt's own n-grams first."),
                Setting(
                    "compatible",
                    "bool",
                    False,
                    "Do as the published code does: at most N-1 tokens a step.",
                ),
                BATCH,
            ),
            sources=("Fu et al. 2024, arXiv 2402.02057",),
            presets={
                f"W {window}, N {ngram}, G {guesses}": {"window": window, "ngram": ngram, "guesses": guesses}
                for window, ngram, guesses in ((15, 5, 15), (15, 5, 5), (10, 5, 10), (7, 5, 7))
            },
            note="W times N is not the number of guesses: the window holds one Jacobi trajectory per column, and only "
            "the n-grams that begin with the last token are checked.",
        ),
        Method(
            "jacobi",
            "Jacobi",
            "Guesses a block, and feeds it back until its tokens stop changing.",
            build=lambda models, settings: Jacobi(int(settings["block"])),
            settings=(Setting("block", "int", 8, "Positions that are iterated together.", 1, 64), BATCH),
            sources=("Santilli et al. 2023, arXiv 2305.10427",),
        ),
        Method(
            "medusa-draft",
            "Medusa as draft",
            "A smaller model with Medusa heads drafts k tokens in few passes; the target checks them.",
            build=_medusa_draft,
            shape="chain",
            settings=(K, CONFIDENCE, TREE, BATCH),
            needs=frozenset({"draft", "draft_heads"}),
            guesses="distribution",
            sources=("Cai et al. 2024, arXiv 2401.10774", "Leviathan et al. 2023, arXiv 2211.17192"),
            refused={
                "acceptance": "the target compares its p with the draft's q, and typical acceptance inside the draft "
                "would make that q wrong. The draft's own heads are always judged exactly."
            },
        ),
        Method(
            "early-exit",
            "Early exit",
            "The target's own first layers draft k tokens; all of its layers check them.",
            build=_early_exit,
            shape="chain",
            settings=(Setting("exit_layer", "int", 3, "How many layers draft.", 1, 200), K, BATCH),
            guesses="distribution",
            sources=("Elhoushi et al. 2024, arXiv 2404.16710", "Zhang et al. 2024, arXiv 2309.08168"),
        ),
        Method(
            "cascade",
            "In order",
            "Prompt lookup first; where it finds nothing, the draft model.",
            build=_cascade,
            shape="chain",
            settings=(K, CONFIDENCE, MAX_NGRAM, BATCH),
            needs=frozenset({"draft"}),
            guesses="distribution",
        ),
        Method(
            "naive-batching",
            "Naive batching",
            "Several prompts side by side in one pass, each one token at a time, until the longest has ended.",
            build=lambda models, settings: Autoregressive(),
            settings=(replace(BATCH, default=4),),
        ),
    )
}
