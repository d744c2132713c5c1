"""transformers' own `generate`, as contenders in a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from playground.analysis.benchmark import Answer
from playground.decoding.gate import Gate
from playground.models.sources import Source
from playground.models.store import ModelStore
from playground.models.text import encode_prompt
from playground.run import RunSpec

WARM_TOKENS = 8


class Generate:
    """`generate` of a target: plain, assisted by a draft, or by prompt lookup.

    With `k` and a draft it is textbook speculative decoding: k tokens each time, no confidence stop. With `k` alone it
    is prompt lookup. Its passes are read off the streamer, which gets the tokens of one pass at a time; the prefill is
    part of the first.
    """

    def __init__(
        self,
        name: str,
        spec: RunSpec,
        store: ModelStore,
        target: Source,
        draft: Source | None = None,
        k: int | None = None,
    ) -> None:
        self.name = self.group = name
        self._spec, self._store = spec, store
        self._target, self._draft, self._k = target, draft, k
        self._warm = False

    def answer(self, prompt: str, earlier: Sequence[str]) -> Answer:
        spec = self._spec
        with ExitStack() as held:
            target = held.enter_context(self._store.lease(self._target, spec.dtype, spec.device))
            ids = encode_prompt(target.tokenizer, prompt, spec.chat, spec.system, earlier)
            options = self._options(target.eos_ids)
            if self._draft is not None:
                draft = held.enter_context(self._store.lease(self._draft, spec.dtype, spec.device)).model
                settings = draft.generation_config
                settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = self._k, "constant"
                settings.assistant_confidence_threshold = 0.0
                options["assistant_model"] = draft
            elif self._k is not None:
                options["prompt_lookup_num_tokens"] = self._k

            gate = self._store.gate(target.target.device)

            def generate(new: int) -> tuple[list[int], int, float]:
                bursts, given = _Bursts(gate), torch.tensor([ids], device=target.model.device)
                torch.manual_seed(spec.seed)
                with gate:
                    began = perf_counter()
                    out = target.model.generate(  # type: ignore[operator]
                        given, attention_mask=torch.ones_like(given), max_new_tokens=new, streamer=bursts, **options
                    )
                    found: list[int] = out[0, len(ids) :].tolist()
                    return found, bursts.passes, perf_counter() - began

            if not self._warm:
                generate(WARM_TOKENS)
                self._warm = True
            found, passes, seconds = generate(spec.max_new_tokens)
            text = str(target.tokenizer.decode(found, skip_special_tokens=True))
            return Answer(ids, found, text, seconds, passes)

    def _options(self, eos: frozenset[int]) -> dict[str, Any]:
        """Keyword arguments of `generate` for the sampling of the run."""
        spec = self._spec
        options: dict[str, Any] = {"pad_token_id": 0, "repetition_penalty": spec.repetition_penalty}
        if eos:
            options["eos_token_id"] = sorted(eos)
        if spec.temperature == 0:
            return options | {"do_sample": False}
        return options | {
            "do_sample": True,
            "temperature": spec.temperature,
            "top_k": spec.top_k,
            "top_p": spec.top_p,
            "min_p": spec.min_p or None,
        }


class _Bursts(BaseStreamer):
    """Counts the passes: after the prompt every call brings the tokens of one. Between them others may compute."""

    def __init__(self, gate: Gate) -> None:
        self.passes, self._gate = -1, gate

    def put(self, value: torch.Tensor) -> None:
        self.passes += 1
        self._gate.__exit__(None, None, None)
        self._gate.__enter__()

    def end(self) -> None:
        pass
