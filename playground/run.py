"""From what a user asks for to a stream of Steps: models leased, prompts encoded, lanes raced, tokens labelled."""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeAlias

import torch

from playground.decoding.executor import Executor, Reading
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, race
from playground.decoding.target import TargetModel
from playground.decoding.trace import Lane, Step, Summary, Trace, Value, summarize
from playground.errors import UserError
from playground.lanes import LocalLane, RunningLane
from playground.methods import METHODS, NEEDS, LaneModels, Method
from playground.models.catalog import Catalog, Parts, load_catalog
from playground.models.loading import LoadedModel
from playground.models.pairing import Finding, check_heads, check_pair, check_prompting, shared_vocab
from playground.models.sources import Source
from playground.models.store import ModelStore
from playground.models.text import StopStrings, encode_prompt, is_chat
from playground.remote.lane import VLLM, RemoteLane
from playground.remote.servers import allowed_server
from playground.settings import LaneKind, Settings

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
    `prompt_ids`, where given, are the prompt as the target reads it, and no text is encoded.
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
    prompt_ids: tuple[int, ...] = ()
    dtype: str = "auto"
    device: str = "auto"
    detail: bool = False

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty, self.seed)


class Run:
    """A run under way: iterate it for (lane, Step) as they happen; `trace` grows along. Close it to free its models.

    `failed` tells of the lanes that ended alone why they did.
    What a server tells only at the end of its reply is filled in there, also in Steps that were handed out before: the
    trace is right when the run is over.
    """

    def __init__(self, trace: Trace, lanes: Sequence[RunningLane], held: ExitStack) -> None:
        self.trace, self._lanes, self._held = trace, lanes, held
        self._cold = list(reversed(lanes))
        self.failed: dict[int, str] = {}

    def __iter__(self) -> Iterator[tuple[int, Step]]:
        """Race the lanes, each warmed first. A lane that fails ends alone; the error is raised when all have ended."""
        return (event for event in self.live() if event is not None)

    def live(self) -> Generator[tuple[int, Step] | None, None, None]:
        """As iteration, and None from time to time while all lanes wait: whoever shows the run can leave it there."""
        self.warm()
        for event in race([self._guarded(at, lane) for at, lane in enumerate(self._lanes)]):
            if event is not None:
                self.trace.order.append(event)
            yield event
        if self.failed:
            raise UserError(" ".join(f"{self.trace.lanes[at].title}: {why}" for at, why in self.failed.items()))

    def warm(self) -> None:
        """Warm the lanes, so that none pays for first calls. Iteration does it; doing it twice does nothing."""
        while self._cold:
            self._cold[-1].warm()
            self._cold.pop()

    def _guarded(self, at: int, lane: RunningLane) -> Iterator[Step | None]:
        try:
            yield from lane.steps()
        except UserError as error:
            self.failed[at] = str(error)
            lane.header.notices.append(str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the models back. Closing twice does nothing."""
        self._held.close()

    def local(self, lane: int) -> LocalLane:
        """A lane that runs here, for who wants to see more of it than its Steps. UserError for a server's."""
        opened = self._lanes[lane]
        if not isinstance(opened, LocalLane):
            raise UserError(f"{opened.header.title} runs on a server: what its models say is not told.")
        return opened

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
        raise UserError(f"{spec.max_new_tokens} new tokens were asked for; ask for at least 1.")
    catalog = catalog or load_catalog()
    _ = spec.sampling  # raises for what cannot be sampled from
    plans = [_plan(spec, lane, catalog, allow_local) for lane in spec.lanes]
    with ExitStack() as held:
        lanes = [plan(store, held) for plan in plans]
        _share_prompts([lane.sessions[0] for lane in lanes if isinstance(lane, LocalLane) and len(lane.sessions) == 1])
        trace = Trace(
            [lane.header for lane in lanes],
            machine=machine(),
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
            max_new_tokens=spec.max_new_tokens,
            stop=list(spec.stop),
            chat=spec.chat,
            system=spec.system,
            companions=list(spec.companions),
            earlier=list(spec.earlier),
        )
        return Run(trace, lanes, held.pop_all())


def _share_prompts(sessions: Sequence[Session]) -> None:
    """Those that begin with the same ids on the same model read them once."""
    alike: dict[tuple[TargetModel, tuple[int, ...]], list[Executor]] = {}
    for session in sessions:
        alike.setdefault((session.executor.model, tuple(session.ids)), []).append(session.executor)
    for executors in alike.values():
        if len(executors) > 1:
            reading = Reading()
            for executor in executors:
                executor.reading = reading


Plan: TypeAlias = Callable[[ModelStore, ExitStack], RunningLane]
"""Opens a lane: leases what it needs, to be given back when the stack is closed."""


def _plan(spec: RunSpec, lane: LaneSpec, catalog: Catalog, allow_local: bool) -> Plan:
    """How to open `lane`, found right before anything is loaded or asked for."""
    kind = get_kind(lane.method)
    settings = kind.check(lane.settings)
    if not isinstance(kind, Method):
        return _plan_remote(spec, settings, allow_local)
    hybrid = "draft_heads" in kind.needs
    parts = catalog.parts(lane.target, lane.draft, lane.heads, lane.draft_heads, hybrid, allow_local)
    for need in sorted(kind.needs):
        if getattr(parts, need) is None:
            raise UserError(f"{kind.title} {NEEDS[need]} {lane.target!r} comes without.")
    return lambda store, held: _open_local(spec, kind, settings, parts, store, held)


def _plan_remote(spec: RunSpec, settings: Settings, allow_local: bool) -> Plan:
    if not allow_local:
        raise UserError("This page is open to strangers and talks to no servers. Run the playground on your machine.")
    lane = RemoteLane(
        allowed_server(str(settings["server"])),
        spec.prompt_ids or spec.prompt,
        spec.sampling,
        spec.max_new_tokens,
        model=str(settings["model"]),
        stop=spec.stop,
        chat=spec.chat,
        system=spec.system,
        earlier=spec.earlier,
    )

    def opened(store: ModelStore, held: ExitStack) -> RunningLane:
        held.callback(lane.cancel)
        return lane

    return opened


def _open_local(
    spec: RunSpec, method: Method, settings: dict[str, Value], parts: Parts, store: ModelStore, held: ExitStack
) -> RunningLane:
    def lease(source: Source) -> LoadedModel:
        return held.enter_context(store.lease(source, spec.dtype, spec.device))

    target = lease(parts.target)
    draft = lease(parts.draft) if "draft" in method.needs and parts.draft else None
    sampling = spec.sampling
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
        models = replace(models, heads=heads, num_heads=heads.num_heads, tree=heads.loaded.own_tree)
    if "draft_heads" in method.needs and parts.draft_heads and draft is not None:
        heads = held.enter_context(store.lease_heads(parts.draft_heads, draft))
        names["draft_heads"] = parts.draft_heads.name
        notices += [*heads.loaded.notices, *_told(check_heads(draft, heads.loaded))]
        models = replace(models, draft_heads=heads, num_draft_heads=heads.num_heads, draft_tree=heads.loaded.own_tree)

    batch = int(settings["batch"])
    texts = [spec.prompt, *(spec.companions or (spec.prompt,)) * batch][:batch]
    prompts = [
        list(spec.prompt_ids) or encode_prompt(target.tokenizer, text, spec.chat, spec.system, spec.earlier)
        for text in texts
    ]
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
        chat=is_chat(target.tokenizer, spec.prompt, spec.chat),
        notices=list(dict.fromkeys(notices)),
    )
    return LocalLane(header, sessions, warm, target.pieces, spec.stop, store.gate(target.target.device))


def lane_kinds() -> dict[str, LaneKind]:
    """What a lane may be, by id: the methods that run here, and a server."""
    return {**METHODS, VLLM.id: VLLM}


def get_kind(name: str) -> LaneKind:
    """What a lane of this id is, or UserError with the ids there are."""
    kinds = lane_kinds()
    if name not in kinds:
        raise UserError(f"There is no method called {name!r}. Methods: {', '.join(kinds)}.")
    return kinds[name]


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
