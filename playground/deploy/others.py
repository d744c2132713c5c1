"""Exports in one line: Text Generation Inference and llama.cpp."""

from __future__ import annotations

from playground.deploy.plan import Deployment, Export, Literals, Offer, flags, shell

TGI_VERSION = "options as documented; not run here"
LLAMA_VERSION = "options of 2026 as documented; not run here"

N_GRAM: dict[str, Literals] = {"speculate": "$k"}
ONLY_N_GRAM = "TGI has n-gram speculation and Medusa only."
CHAIN = "TGI checks each head's first choice as a chain; it has no tree."

TGI: dict[str, Offer] = {
    "autoregressive": Offer("no speculation", "same"),
    "naive-batching": Offer("continuous batching", "near"),
    "draft-model": Offer("n-gram", "none", N_GRAM, (f"{ONLY_N_GRAM} Lost: the draft model.",)),
    "prompt-lookup": Offer(
        "n-gram", "near", N_GRAM, ignores={"max_ngram": (0, "The length of the words looked up is not a setting.")}
    ),
    "medusa": Offer("Medusa", "near", N_GRAM, (CHAIN, "A repository with Medusa heads names its base model itself.")),
    "lookahead": Offer("n-gram", "none", N_GRAM, (f"{ONLY_N_GRAM} Lost: the target's own window.",)),
    "jacobi": Offer("n-gram", "none", N_GRAM, (f"{ONLY_N_GRAM} Lost: the iterated block.",)),
    "medusa-draft": Offer("n-gram", "none", N_GRAM, (f"{ONLY_N_GRAM} Lost: the draft model with its heads.",)),
    "early-exit": Offer("n-gram", "none", N_GRAM, (f"{ONLY_N_GRAM} Lost: drafts from the target's first layers.",)),
    "cascade": Offer("n-gram", "near", N_GRAM, (f"{ONLY_N_GRAM} Lost: the draft model where nothing is found.",)),
}

SIMPLE: dict[str, Literals] = {
    "spec_type": "ngram-simple",
    "spec_ngram_simple_size_n": "$max_ngram",
    "spec_ngram_simple_size_m": "$k",
}
DRAFT: dict[str, Literals] = {
    "spec_type": "draft-simple",
    "spec_draft_model": "$draft",
    "spec_draft_n_max": "$k",
    "spec_draft_p_min": "$confidence",
}
NO_HEADS = "llama.cpp has no Medusa. Lost: the trained heads and their tree."

LLAMA: dict[str, Offer] = {
    "autoregressive": Offer("no speculation", "same"),
    "naive-batching": Offer("parallel slots", "near", {"parallel": "$batch"}),
    "draft-model": Offer("draft-simple", "same", DRAFT),
    "prompt-lookup": Offer(
        "ngram-simple", "near", SIMPLE, ("It looks up exactly that many tokens, this project at most that many.",)
    ),
    "medusa": Offer("ngram-simple", "none", SIMPLE, (NO_HEADS,)),
    "lookahead": Offer(
        "ngram-simple",
        "none",
        SIMPLE,
        ("The server has no Lookahead (the program llama-lookahead has). Lost: the target's own window.",),
    ),
    "jacobi": Offer("ngram-simple", "none", SIMPLE, ("llama.cpp has no Jacobi decoding. Lost: the iterated block.",)),
    "medusa-draft": Offer("draft-simple", "near", DRAFT, (NO_HEADS,)),
    "early-exit": Offer(
        "ngram-simple", "none", SIMPLE, ("llama.cpp cannot draft with the target's first layers. Lost: these drafts.",)
    ),
    "cascade": Offer(
        "ngram-simple with draft-simple", "same", {**DRAFT, **SIMPLE, "spec_type": "ngram-simple,draft-simple"}
    ),
}


def export_tgi(plan: Deployment) -> Export:
    """One line for `text-generation-launcher`."""
    offer = TGI[plan.method]
    target = plan.heads if offer.name == "Medusa" and plan.heads else plan.target
    keys: dict[str, Literals] = {"model_id": target}
    if plan.gpus > 1:
        keys["num_shard"] = plan.gpus
    line = shell(
        [[word for group in (["text-generation-launcher"], *flags({**keys, **offer.fill(plan)})) for word in group]]
    )
    return Export("TGI", TGI_VERSION, offer.name, offer.fit, (("Server", "bash", line),), tuple(offer.notes(plan)))


def export_llama_cpp(plan: Deployment) -> Export:
    """One line for `llama-server`; it wants GGUF files."""
    offer = LLAMA[plan.method]
    notes = offer.notes(plan)
    named = [plan.target] + ([plan.draft] if plan.draft and offer.keys is DRAFT else [])
    if not all(name.lower().endswith(".gguf") for name in named):
        notes.append("llama.cpp reads GGUF files: name them here, or make them with its convert_hf_to_gguf.py.")
    words = ["llama-server", "--model", plan.target, *(w for group in flags(offer.fill(plan)) for w in group)]
    return Export(
        "llama.cpp", LLAMA_VERSION, offer.name, offer.fit, (("Server", "bash", shell([words])),), tuple(notes)
    )
