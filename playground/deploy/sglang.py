"""Exports for SGLang: the server's command, also for several machines."""

from __future__ import annotations

from playground.deploy.plan import Deployment, Export, Literals, Offer, flags, shell

VERSION = "options of 0.5.23"

NGRAM: dict[str, Literals] = {
    "speculative_algorithm": "NGRAM",
    "speculative_num_draft_tokens": "$rows",  # counts the row of the last token as well
    "speculative_ngram_max_bfs_breadth": 1,
}
STANDALONE: dict[str, Literals] = {
    "speculative_algorithm": "STANDALONE",
    "speculative_draft_model_path": "$draft",
    "speculative_num_steps": "$k",
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": "$rows",
}
ARGMAX = "The draft model always drafts its most probable token, also when requests are sampled."
CONFIDENCE = {"confidence": (0.0, "SGLang has no stop at low confidence; --speculative-adaptive is the nearest.")}
SHARED_TRIE = "SGLang looks in a trie of what all requests have said lately, not only in this request's own text."
NO_TREE_HEADS = (
    "SGLang has no Medusa (none in 0.5.23). Your heads cannot be used, and neither can their tree. The heads of today "
    "are EAGLE-3 heads, trained for the same target: --speculative-algorithm EAGLE3 --speculative-draft-model-path ..."
)

OFFERS: dict[str, Offer] = {
    "autoregressive": Offer("no speculation", "same"),
    "naive-batching": Offer(
        "continuous batching",
        "near",
        lost=("SGLang batches better than naively: a row that has ended makes room at once for the next request.",),
    ),
    "draft-model": Offer("STANDALONE", "same", STANDALONE, (ARGMAX,), CONFIDENCE),
    "prompt-lookup": Offer(
        "NGRAM",
        "near",
        NGRAM,
        (SHARED_TRIE,),
        {"max_ngram": (0, "The length of the words looked up is not a setting: the trie is 18 deep.")},
    ),
    "medusa": Offer("NGRAM", "none", NGRAM, (NO_TREE_HEADS, SHARED_TRIE)),
    "lookahead": Offer(
        "NGRAM",
        "none",
        {
            **NGRAM,
            "speculative_ngram_max_bfs_breadth": "$guesses",
            "speculative_ngram_max_trie_depth": "$ngram",
        },
        (
            "SGLang has no Lookahead; its NGRAM was once called LOOKAHEAD, but it keeps n-grams of text that exists. "
            "Lost: n-grams that the target's own window finds before they occur.",
            SHARED_TRIE,
        ),
    ),
    "jacobi": Offer(
        "NGRAM",
        "none",
        NGRAM,
        ("SGLang has no Jacobi decoding. Lost: guesses that are iterated until they stop changing.", SHARED_TRIE),
    ),
    "medusa-draft": Offer(
        "STANDALONE",
        "near",
        STANDALONE,
        ("Lost: the draft model's Medusa heads. The same draft model runs k passes for k tokens.", ARGMAX),
        CONFIDENCE,
    ),
    "early-exit": Offer(
        "NGRAM",
        "none",
        NGRAM,
        (
            "SGLang cannot draft with the target's first layers. Saved as a model of their own (see vLLM) they can be "
            "a STANDALONE draft.",
            SHARED_TRIE,
        ),
    ),
    "cascade": Offer(
        "STANDALONE",
        "near",
        STANDALONE,
        ("An SGLang server has one drafter. Lost: prompt lookup, which is tried first here.", ARGMAX),
        CONFIDENCE,
    ),
}


def sglang_argv(plan: Deployment) -> list[list[str]]:
    """The words of the command, grouped by option."""
    keys: dict[str, Literals] = {"model_path": plan.target, "dtype": plan.dtype}
    if plan.values["batch"] != 1:
        keys["max_running_requests"] = plan.checked["batch"]
    if plan.tensor_parallel > 1:
        keys["tp_size"] = plan.tensor_parallel
    if plan.pipeline_parallel > 1:
        keys["pp_size"] = plan.pipeline_parallel
    return [["python", "-m", "sglang.launch_server"], *flags(keys), *flags(OFFERS[plan.method].fill(plan))]


def export_sglang(plan: Deployment) -> Export:
    """The server's command; for several machines with the options that join them."""
    offer = OFFERS[plan.method]
    notes = offer.notes(plan)
    command, title = shell(sglang_argv(plan)), "Server"
    if plan.nodes > 1:
        title = "On every machine, with RANK=0, 1, ... and HEAD=<address of rank 0>"
        command += f' \\\n    --nnodes {plan.nodes} --node-rank "$RANK" --dist-init-addr "$HEAD:25000"'
    if plan.draft_tensor_parallel is not None:
        notes.append("The draft model is split as the target is: SGLang has no size of its own for it.")
    return Export("SGLang", VERSION, offer.name, offer.fit, ((title, "bash", command),), tuple(notes))
