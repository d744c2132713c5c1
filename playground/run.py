"""From what a user asks for to a stream of Steps: models leased, prompts encoded, lanes raced, tokens labelled."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import torch

from playground.decoding.codec import JSON
from playground.decoding.executor import Executor
from playground.decoding.gate import Gate
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode, race
from playground.decoding.trace import Lane, Step, Summary, Trace, Value, summarize
from playground.errors import UserError
from playground.methods import NEEDS, LaneModels, Method, get_method
from playground.models.catalog import Catalog, Parts, load_catalog
from playground.models.loading import LoadedModel
from playground.models.medusa_trees import Tree, load_tree, preset_for
from playground.models.pairing import Finding, check_heads, check_pair, check_prompting, shared_vocab
from playground.models.sources import Source
from playground.models.store import LeasedHeads, ModelStore
from playground.models.text import Pieces, StopStrings, TextStream, encode_prompt

MOST_LANES = 8
WARM_TOKENS = 8  # read and written before the clocks start, so that no lane pays for first calls


@dataclass(frozen=True)
class LaneSpec:
    """A lane as asked for. Models are catalog ids, hub ids, folders or GGUF files; None takes the catalog's partner."""

    method: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    target: str = "built-in"
    draft: str | None = None
    heads: str | None = None
    draft_heads: str | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run as asked for. `chat` None uses the chat template where the tokenizer has one.

    `companions` are the prompts of the other rows of a batched lane, repeated as needed; without them the prompt
    itself is repeated with other seeds. `earlier` is what was said before the prompt: user and answer by turns.
    """

    prompt: str
    lanes: tuple[LaneSpec, ...]
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 1
    max_new_tokens: int = 64
    chat: bool | None = None
    system: str | None = None
    stop: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    dtype: str = "auto"
    device: str = "auto"
    detail: bool = False

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty, self.seed)


class _Lane:
    """The sequences of one lane, and the labels of their tokens."""

    def __init__(
        self, sessions: Sequence[Session], warm: Session, pieces: Pieces, stop: Sequence[str], gate: Gate
    ) -> None:
        self.sessions, self.warm, self.gate, self.pieces = sessions, warm, gate, pieces
        self.streams = [TextStream(pieces, continues=True, stops=stop) for _ in sessions]
        self.known: set[int] = set()

    def label(self, step: Step) -> None:
        stream = self.streams[step.row]
        for token, text in zip(step.emitted, stream.push([token.token for token in step.emitted]), strict=True):
            token.text = text
        if step.finish and step.emitted:
            step.emitted[-1].text += stream.finish()
        new = set(_mentioned(step)) - self.known
        self.known |= new
        step.pieces = {token: self.pieces.piece(token) for token in sorted(new)}


class Run:
    """A run under way: iterate it for (lane, Step) as they happen; `trace` grows along. Close it to free its models.

    Steps come labelled: `Emitted.text` holds the pieces of the running text, `Step.pieces` a label for every token id
    that the lane mentions for the first time.
    """

    def __init__(self, trace: Trace, lanes: Sequence[_Lane], held: ExitStack) -> None:
        self.trace, self._lanes, self._held = trace, lanes, held
        self._cold = list(reversed(lanes))

    def warm(self) -> None:
        """Write some tokens with every lane, so that none pays for first calls; iterating does it if nobody did."""
        while self._cold:
            for _ in decode([self._cold[-1].warm], self._cold[-1].gate):
                pass
            self._cold.pop()

    def __iter__(self) -> Iterator[tuple[int, Step]]:
        """Race the lanes, each warmed first. A lane that fails ends alone; the error is raised when all have ended."""
        self.warm()
        failures: list[str] = []
        for lane, step in race([self._guarded(at, failures) for at in range(len(self._lanes))]):
            self._lanes[lane].label(step)
            self.trace.order.append((lane, step))
            yield lane, step
        if failures:
            raise UserError(" ".join(failures))

    def _guarded(self, lane: int, failures: list[str]) -> Iterator[Step]:
        try:
            yield from decode(self._lanes[lane].sessions, self._lanes[lane].gate)
        except UserError as error:
            failures.append(f"{self.trace.lanes[lane].title}: {error}")
            self.trace.lanes[lane].notices.append(str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the models back. Closing twice does nothing."""
        self._held.close()

    def summary(self, lane: int, row: int = 0) -> Summary:
        """Totals of a sequence so far."""
        return summarize(self.trace.steps(lane, row))

    def text(self, lane: int, row: int = 0) -> str:
        """The output text of a sequence so far."""
        return "".join(token.text for step in self.trace.steps(lane, row) for token in step.emitted)


def open_run(spec: RunSpec, store: ModelStore, catalog: Catalog | None = None, allow_local: bool = True) -> Run:
    """Lease the models, encode the prompts, set up the lanes. Raises UserError before any work for what is wrong.

    `allow_local` False refuses paths of this machine, for a page that strangers may use.
    """
    if not 1 <= len(spec.lanes) <= MOST_LANES:
        raise UserError(f"A run has 1 to {MOST_LANES} lanes; this one has {len(spec.lanes)}.")
    if spec.max_new_tokens < 1:
        raise UserError(f"max_new_tokens is {spec.max_new_tokens}; ask for at least 1.")
    catalog, sampling = catalog or load_catalog(), spec.sampling
    asked = []
    for lane in spec.lanes:
        method = get_method(lane.method)
        hybrid = "draft_heads" in method.needs
        parts = catalog.parts(lane.target, lane.draft, lane.heads, lane.draft_heads, hybrid, allow_local)
        for need in sorted(method.needs):
            if getattr(parts, need) is None:
                raise UserError(f"{method.title} {NEEDS[need]} {lane.target!r} comes without.")
        asked.append((method, method.check(lane.settings), parts))
    with ExitStack() as held:
        lanes = [_open_lane(spec, sampling, *one, store, held) for one in asked]
        trace = Trace(
            [header for header, _ in lanes],
            machine=machine(),
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
            max_new_tokens=spec.max_new_tokens,
            stop=list(spec.stop),
            chat=spec.chat,
            system=spec.system,
            companions=list(spec.companions),
            earlier=list(spec.earlier),
        )
        return Run(trace, [lane for _, lane in lanes], held.pop_all())


def _open_lane(
    spec: RunSpec,
    sampling: Sampling,
    method: Method,
    settings: dict[str, Value],
    parts: Parts,
    store: ModelStore,
    held: ExitStack,
) -> tuple[Lane, _Lane]:
    def lease(source: Source) -> LoadedModel:
        return held.enter_context(store.lease(source, spec.dtype, spec.device))

    target = lease(parts.target)
    draft = lease(parts.draft) if "draft" in method.needs and parts.draft else None
    names, notices = {"target": target.name}, _told(check_prompting(target))
    models = LaneModels(target.target)
    if draft is not None:
        notices += _told(check_pair(target, draft))
        names["draft"] = draft.name
        models = replace(models, draft=draft.target.narrowed(shared_vocab(target, draft)))
    if "heads" in method.needs and parts.heads:
        heads = held.enter_context(store.lease_heads(parts.heads, target))
        names["heads"] = parts.heads.name
        notices += [*heads.loaded.notices, *_told(check_heads(target, heads.loaded))]
        models = replace(models, heads=heads, num_heads=heads.num_heads, tree=_own_tree(heads))
    if "draft_heads" in method.needs and parts.draft_heads and draft is not None:
        heads = held.enter_context(store.lease_heads(parts.draft_heads, draft))
        names["draft_heads"] = parts.draft_heads.name
        notices += [*heads.loaded.notices, *_told(check_heads(draft, heads.loaded))]
        models = replace(models, draft_heads=heads, num_draft_heads=heads.num_heads, draft_tree=_own_tree(heads))

    batch = int(settings["batch"])
    texts = [spec.prompt, *(spec.companions or (spec.prompt,)) * batch][:batch]
    prompts = [encode_prompt(target.tokenizer, text, spec.chat, spec.system, spec.earlier) for text in texts]
    for prompt in prompts:
        if len(prompt) == target.target.context_length:
            raise UserError(f"The prompt fills all {len(prompt)} tokens that {target.name} reads. Shorten it.")

    def session(executor: Executor, row: int, prompt: list[int], length: int) -> Session:
        return Session(
            executor,
            method.build(models, settings),
            prompt,
            # Rows of one batch differ in seed, so that the same prompt several times gives several texts.
            replace(sampling, seed=sampling.seed + row),
            rule=method.rule(settings),
            max_new_tokens=length,
            stop=StopStrings(target.pieces, spec.stop, continues=True) if spec.stop else None,
            detail=spec.detail,
            row=row,
        )

    executor = Executor(target.target, batch)
    sessions = [session(executor, row, prompt, spec.max_new_tokens) for row, prompt in enumerate(prompts)]
    warm = session(Executor(target.target), 0, prompts[0][-WARM_TOKENS:], WARM_TOKENS)
    notices += sessions[0].drafter.notices
    lane = _Lane(sessions, warm, target.pieces, spec.stop, store.gate(target.target.device))
    header = Lane(
        method=method.id,
        title=method.title,
        settings=settings,
        models=names,
        sampling=asdict(sampling),
        lossless=method.promise(settings, sampling.greedy),
        prompt_ids=prompts[0],
        prompt_pieces=[target.pieces.piece(token) for token in prompts[0]],
        prompt=spec.prompt,
        dtype=str(target.model.dtype).removeprefix("torch."),
        device=str(target.target.device),
        notices=list(dict.fromkeys(notices)),
    )
    return header, lane


def _told(findings: Sequence[Finding]) -> list[str]:
    """The sentences of warnings; the first error is raised."""
    for finding in findings:
        if finding.level == "error":
            raise UserError(finding.text)
    return [finding.text for finding in findings]


def machine() -> str:
    """What this machine is called in traces: processor and number of threads torch uses, or the GPU."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _own_tree(heads: LeasedHeads) -> Tree:
    """The tree that came with the heads, else the published one for their base model."""
    return heads.loaded.tree or load_tree(preset_for(heads.loaded.base))


def _mentioned(step: Step) -> Iterator[int]:
    """Token ids of a step. Every whole number in a list of the view counts: one label too many costs a few bytes."""
    yield from (node.token for node in step.nodes)
    yield from (token.token for token in step.emitted)
    for visited in step.detail:
        yield from (token for token, _ in (*visited.p, *visited.q, *visited.residual))
    for child in step.children:
        yield from _mentioned(child)
    yield from _listed(step.view)


def _listed(value: JSON) -> Iterator[int]:
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, dict | list):
                yield from _listed(item)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                yield from _listed(item)
            elif type(item) is int and item >= 0:
                yield item
