"""Spellings of vLLM and SGLang that tutorials still teach, and what became of them. Tables only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from playground.deploy.pasted import Given


@dataclass(frozen=True)
class Rule:
    """What to make of an old option whose value, in lower case, holds `pattern` (a regular expression).

    `config` goes into vLLM's speculative_config, `options` are options of their own; "$" stands for the old value.
    Where both are empty the option is dropped. `say` is the sentence for people.
    """

    say: str
    config: Mapping[str, Given] = field(default_factory=dict)
    options: Mapping[str, Given] = field(default_factory=dict)
    pattern: str = ""


INTO = "Engine arguments of its kind were gathered in speculative_config; there it is called {}."
ONE_VERIFIER = "Dropped: vLLM verifies drafts in one way only since its second engine, and needs no switch for it."
LOSSY = (
    "Dropped: typical acceptance is gone and the output follows the target exactly again. The lossy choice of today is "
    '"rejection_sample_method": "fly".'
)


def _moved(name: str) -> tuple[Rule, ...]:
    return (Rule(INTO.format(name), {name: "$"}),)


def _dropped(say: str) -> tuple[Rule, ...]:
    return (Rule(say),)


ACCEPTANCE = (
    Rule("Dropped: rejection sampling is the default.", pattern="^rejection"),
    Rule(LOSSY, pattern="typical"),
)
NO_MLP = "vLLM dropped MLP speculators. Left is n-gram speculation, which needs nothing trained."
NO_MEDUSA = (
    "vLLM dropped Medusa. Left is n-gram speculation, which needs nothing trained; the trained heads of today are "
    "EAGLE-3 heads."
)

OLD_VLLM: dict[str, tuple[Rule, ...]] = {
    "speculative_model": (
        Rule("The special name [ngram] became a method of its own.", {"method": "ngram"}, pattern=r"^\[?ngram\]?$"),
        Rule(NO_MEDUSA, {"method": "medusa", "model": "$"}, pattern="medusa"),
        Rule(NO_MLP, {"method": "mlp_speculator", "model": "$"}, pattern="mlp.?speculator|-accelerator"),
        Rule("An EAGLE-3 head is named with its method.", {"method": "eagle3", "model": "$"}, pattern="eagle.?3"),
        Rule("An EAGLE head is named with its method.", {"method": "eagle", "model": "$"}, pattern="eagle"),
        Rule("The draft model is named with its method.", {"method": "draft_model", "model": "$"}),
    ),
    "num_speculative_tokens": _moved("num_speculative_tokens"),
    "speculative_draft_tensor_parallel_size": _moved("draft_tensor_parallel_size"),
    "spec_draft_tp": _moved("draft_tensor_parallel_size"),
    "speculative_max_model_len": _moved("max_model_len"),
    "speculative_model_quantization": _moved("quantization"),
    "speculative_disable_mqa_scorer": _dropped(ONE_VERIFIER),
    "ngram_prompt_lookup_max": _moved("prompt_lookup_max"),
    "ngram_prompt_lookup_min": _moved("prompt_lookup_min"),
    "spec_decoding_acceptance_method": ACCEPTANCE,
    "typical_acceptance_sampler_posterior_threshold": _dropped(LOSSY),
    "typical_acceptance_sampler_posterior_alpha": _dropped(LOSSY),
    "disable_logprobs_during_spec_decoding": _dropped("Dropped: a request asks for log-probabilities, or does not."),
    "use_v2_block_manager": _dropped("Dropped: there is one way to manage blocks, the one that this switched on."),
    "num_lookahead_slots": _dropped("Dropped: vLLM reserves the slots itself, from the number of draft tokens."),
    "worker_use_ray": (Rule("Ray is one of several backends now.", options={"distributed_executor_backend": "ray"}),),
    "engine_use_ray": _dropped("Dropped: the engine has its own process without Ray."),
}

OLD_CONFIG: dict[str, tuple[Rule, ...]] = {
    "tensor_parallel_size": (
        Rule("Inside speculative_config it is called draft_tensor_parallel_size.", {"draft_tensor_parallel_size": "$"}),
    ),
    "disable_mqa_scorer": _dropped(ONE_VERIFIER),
    "disable_logprobs": OLD_VLLM["disable_logprobs_during_spec_decoding"],
    "acceptance_method": ACCEPTANCE,
    "posterior_threshold": _dropped(LOSSY),
    "posterior_alpha": _dropped(LOSSY),
    "typical_acceptance_sampler_posterior_threshold": _dropped(LOSSY),
    "typical_acceptance_sampler_posterior_alpha": _dropped(LOSSY),
    "speculative_token_tree": _dropped("Dropped: vLLM checks chains only; trees of draft tokens are gone."),
    "method": (
        Rule("The special name [ngram] lost its brackets.", {"method": "ngram"}, pattern=r"^\[ngram\]$"),
        Rule(NO_MEDUSA, {"method": "medusa"}, pattern="^medusa$"),
        Rule(NO_MLP, {"method": "mlp_speculator"}, pattern="^mlp_speculator$"),
    ),
}
GONE = frozenset({"medusa", "mlp_speculator"})
BATCH_LIMIT = frozenset({"speculative_disable_by_batch_size", "disable_by_batch_size"})


def _renamed(name: str, say: str) -> tuple[Rule, ...]:
    return (Rule(say, options={name: "$"}),)


LOOKAHEAD = Rule(
    "SGLang renamed LOOKAHEAD to NGRAM: it keeps n-grams of text that exists and never was lookahead decoding.",
    options={"speculative_algorithm": "NGRAM"},
    pattern="^lookahead$",
)

OLD_SGLANG: dict[str, tuple[Rule, ...]] = {
    "speculative_algorithm": (LOOKAHEAD,),
    "speculative_algo": (
        LOOKAHEAD,
        *_renamed("speculative_algorithm", "Its full name is speculative_algorithm."),
    ),
    "speculative_draft": _renamed(
        "speculative_draft_model_path", "Its full name is speculative_draft_model_path; others begin like it now."
    ),
    **{
        f"speculative_{old}_{name}": rules
        for old in ("lookahead", "ngram")
        for name, rules in {
            "min_match_window_size": _dropped("Dropped: the trie finds the longest match by itself."),
            "max_match_window_size": _dropped("Dropped: speculative_ngram_max_trie_depth bounds what is looked up."),
            "branch_length": _dropped("Dropped: speculative_ngram_max_trie_depth bounds match and draft together."),
        }.items()
    },
    **{
        f"speculative_lookahead_{name}": _renamed(f"speculative_ngram_{name}", "SGLang renamed lookahead to ngram.")
        for name in ("min_bfs_breadth", "max_bfs_breadth", "match_type", "capacity")
    },
}
