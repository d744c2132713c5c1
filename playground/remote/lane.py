"""The remote lane: a vLLM server on the network as one more lane, on arrival times.

A thread of its own reads the server's events and stamps them as they come, so that a lane that computes here does not
make the server look slow. The lane is an iterator of Steps like `decode`, with a None whenever there is none yet;
closing it closes the connection, upon which vLLM aborts the request.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from queue import Empty, SimpleQueue
from time import perf_counter

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from playground.decoding.codec import JSON
from playground.decoding.sampling import Sampling
from playground.decoding.trace import Counts, Lane, Step
from playground.errors import UserError
from playground.remote.counters import Reading, counts_between, read_counters
from playground.remote.servers import KEY, Server
from playground.remote.sse import EventParser
from playground.remote.vllm_reply import PASSES, TIMES, StepBuilder, token_ids
from playground.settings import LaneKind, Setting

LARGEST_PAGE = 4 << 20

VLLM = LaneKind(
    "vllm",
    "vLLM server",
    "A vLLM server on the network, with whatever it speculates by; on arrival times.",
    (
        Setting("server", "text", "http://localhost:8000", "Its base address, before /v1."),
        Setting("model", "text", "", "The model's name on the server; empty takes the only one there is."),
    ),
    note="Whoever runs the playground lists the servers that it may talk to in SPECPLAY_REMOTE_HOSTS.",
)

REFUSALS = {
    401: f"it wants a key. Whoever runs the playground sets it in the environment variable {KEY}.",
    403: f"the key in {KEY} does not allow this.",
    404: "it knows no such model or path. Give the address without what follows /v1, and a model that it serves.",
    429: "it has too much to do. Try again later.",
    503: "it is not ready. Try again when it has loaded its model.",
}


@dataclass(frozen=True)
class Patience:
    """Seconds: for an attempt to connect, for silence, for the whole run; and the pauses between attempts."""

    connect: float = 5.0
    silence: float = 60.0
    whole: float = 600.0
    retry: tuple[float, ...] = (0.25, 0.5, 1.0)


class RemoteLane:
    """One request to a vLLM server, to be run once. `header` is complete when the run is over.

    `prompt` is a list of token ids, or text for the server's own tokenizer: through its chat template if `chat`, which
    None leaves to whether it has one. `earlier` is what was said before a text: user and answer by turns. `model` ""
    takes the only model that the server has. Where to end is the server's business: it knows `stop` and its
    end-of-sequence tokens.
    """

    def __init__(
        self,
        server: Server,
        prompt: str | Sequence[int],
        sampling: Sampling,
        max_new_tokens: int,
        *,
        model: str = "",
        stop: Sequence[str] = (),
        chat: bool | None = False,
        system: str | None = None,
        earlier: Sequence[str] = (),
        patience: Patience | None = None,
    ) -> None:
        self.server, self.model, self.patience = server, model, patience or Patience()
        self.sampling, self.max_new_tokens, self.stop = sampling, max_new_tokens, list(stop)
        self.prompt = prompt if isinstance(prompt, str) else list(prompt)
        self.chat, self.system, self.earlier = chat, system, list(earlier)
        _check_text([*self.stop, *self.earlier, system or "", self.prompt if isinstance(self.prompt, str) else ""])
        if not self.prompt:
            raise UserError("The prompt is empty: type something to continue from.")
        if system and chat is False:
            raise UserError("A system prompt needs the chat template: switch it on, or leave the system prompt out.")
        self.header = Lane(
            method=VLLM.id,
            title=f"vLLM at {server.host}",
            settings={"server": server.name, "model": model},
            models={"target": model},
            sampling=asdict(sampling),
            lossless="unknown",
            prompt_ids=[] if isinstance(self.prompt, str) else self.prompt,
            prompt=self.prompt if isinstance(self.prompt, str) else "",
            dtype="unknown",
            device="unknown",
            notices=[TIMES, PASSES],
        )
        self._builder = StepBuilder(max_new_tokens)
        self._ready: SimpleQueue[Step | None] = SimpleQueue()
        self._reader: Future[None] | None = None

    @property
    def counts(self) -> Counts | None:
        """What the server counted, once the run is over; None if it did not tell."""
        return self._builder.steps[-1].counts if self._builder.steps else None

    def warm(self) -> None:
        """A server is warm or it is not: what it does first is what it does."""

    def steps(self) -> Iterator[Step | None]:
        """The Steps as they arrive, one event late: each with the seconds since the one before. None: none is there.

        Roles are filled in when the last one comes, also in those that were handed out before.

        Raises UserError, after the Steps that had arrived, for a server that cannot be reached, refuses, falls
        silent, ends, or does not speak as vLLM does.
        """
        with start_blocking_portal() as portal:
            self._reader = reader = portal.start_task_soon(self._read)
            try:
                while True:
                    try:
                        step = self._ready.get_nowait()
                    except Empty:
                        yield None
                        continue
                    if step is None:
                        break
                    yield step
                reader.result()
            except CancelledError:
                return
            finally:
                reader.cancel()

    def cancel(self) -> None:
        """End the run, from any thread: the connection is closed and the iterator stops."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self) -> None:
        builder = self._builder
        try:
            with anyio.fail_after(self.patience.whole):
                await self._converse()
        except TimeoutError as error:
            raise UserError(
                f"{self.server.name} was still not done after {self.patience.whole:g} seconds; {self._kept()}"
            ) from error
        except httpx.TimeoutException as error:
            raise UserError(
                f"{self.server.name} sent nothing for {self.patience.silence:g} seconds; {self._kept()}"
            ) from error
        except httpx.TransportError as error:
            raise UserError(f"The connection to {self.server.name} broke: {self._ended()}") from error
        finally:
            last = builder.close()
            self.header.notices += builder.notices
            if last is not None:
                self._ready.put(last)
            self._ready.put(None)

    async def _converse(self) -> None:
        builder = self._builder
        async with self._client() as client:
            model = self.model or await self._only_model(client)
            prompt = await self._encoded(client, model)
            before = await self._counters(client, model)
            async with self._answer(client, "POST", "v1/completions", self._request(model, prompt)) as (response, sent):
                await self._check(response)
                parser = EventParser()
                async for chunk in response.aiter_raw():
                    at = perf_counter() - sent
                    for data in parser.feed(chunk):
                        step = builder.add(self.server.hide(data), at)
                        if builder.prompt_ids is not None:
                            self.header.prompt_ids = builder.prompt_ids
                        self.header.models["target"] = builder.model or model
                        if step is not None:
                            self._ready.put(step)
            if not builder.complete:
                raise UserError(f"{self.server.name} broke off: {self._ended()}")
            if builder.counts is None and before is not None:
                builder.counts = await self._counted(client, model, before)

    def _client(self) -> httpx.AsyncClient:
        headers = {"Accept-Encoding": "identity"}
        if self.server.key:
            headers["Authorization"] = f"Bearer {self.server.key}"
        silence, connect = self.patience.silence, self.patience.connect
        return httpx.AsyncClient(
            base_url=self.server.url,
            headers=headers,
            timeout=httpx.Timeout(silence, connect=connect),
            # A connection that is kept may turn out to be closed after the request was sent: use each once.
            limits=httpx.Limits(max_keepalive_connections=0),
            follow_redirects=False,
            trust_env=False,
            verify=ssl.create_default_context(),
        )

    @asynccontextmanager
    async def _answer(
        self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, JSON] | None = None
    ) -> AsyncIterator[tuple[httpx.Response, float]]:
        """The server's answer and when the request was sent. Only an attempt that never connected is repeated."""
        pauses = iter(self.patience.retry)
        while True:
            sent = perf_counter()
            try:
                response = await client.send(client.build_request(method, path, json=body), stream=True)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                pause = next(pauses, None)
                if pause is None:
                    raise UserError(
                        f"No server answers at {self.server.name} ({error}). Check the address, and that it runs."
                    ) from error
            await anyio.sleep(pause)
        try:
            yield response, sent
        finally:
            await response.aclose()

    async def _page(self, client: httpx.AsyncClient, path: str) -> str:
        async with self._answer(client, "GET", path) as (response, _):
            if response.status_code != 200:
                raise UserError(await self._refusal(response))
            return (await _body(response, LARGEST_PAGE)).decode(errors="replace")

    async def _only_model(self, client: httpx.AsyncClient) -> str:
        page = await self._page(client, "v1/models")
        try:
            names = [str(model["id"]) for model in json.loads(page)["data"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(
                f"{self.server.name}/v1/models does not list models. Is this the address of a vLLM server?"
            ) from error
        if len(names) != 1:
            raise UserError(f"{self.server.name} serves {', '.join(names) or 'no model'}. Name the one to use.")
        return self.server.hide(names[0])

    async def _counters(self, client: httpx.AsyncClient, model: str) -> Reading | None:
        try:
            with anyio.fail_after(self.patience.connect):
                return read_counters(await self._page(client, "metrics"), model)
        except (UserError, TimeoutError, httpx.TransportError):
            return None  # they only matter where the reply tells nothing, and not every server shows them

    async def _counted(self, client: httpx.AsyncClient, model: str, before: Reading) -> Counts | None:
        tokens = sum(len(step.emitted) for step in self._builder.steps)
        for _ in range(5):
            after = await self._counters(client, model)
            if after is None or (counts := counts_between(before, after, tokens)) is not None:
                return counts if after is not None else None
            await anyio.sleep(0.2)  # the server counts shortly after it has answered
        return None

    async def _encoded(self, client: httpx.AsyncClient, model: str) -> str | list[int]:
        """The prompt as the server is to have it: a chat as the ids that its own template makes of the turns."""
        if not isinstance(self.prompt, str):
            return self.prompt
        said = [*self.earlier, self.prompt]
        if self.chat is False:
            return "\n".join(said)
        turns: list[JSON] = [{"role": "system", "content": self.system}] if self.system else []
        turns += [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(said)]
        body: dict[str, JSON] = {"model": model, "messages": turns, "add_generation_prompt": True}
        async with self._answer(client, "POST", "tokenize", body) as (response, _):
            if response.status_code == 200:
                self.header.chat = True
                return _tokens(await _body(response, LARGEST_PAGE))
            if self.chat or self.system:
                raise UserError(f"The server makes no chat of this prompt. {await self._refusal(response)}")
        self.header.notices.append(f"No chat template: the prompt went as it stands (status {response.status_code}).")
        return "\n".join(said)

    def _request(self, model: str, prompt: str | list[int]) -> dict[str, JSON]:
        chosen = self.sampling
        return {
            "model": model,
            "prompt": prompt if isinstance(prompt, str) else [*prompt],
            "max_tokens": self.max_new_tokens,
            "temperature": chosen.temperature,
            "top_k": chosen.top_k,
            "top_p": chosen.top_p,
            "min_p": chosen.min_p,
            "repetition_penalty": chosen.repetition_penalty,
            "seed": chosen.seed if chosen.seed < 1 << 63 else chosen.seed - (1 << 64),
            "stop": [*self.stop],
            "logprobs": 2,
            "return_token_ids": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def _check(self, response: httpx.Response) -> None:
        if response.status_code != 200:
            raise UserError(await self._refusal(response))
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise UserError(
                f"{self.server.name} answered with {kind[:80] or 'no content type'!r} instead of a stream of events. "
                "Is this the address of a vLLM server?"
            )

    async def _refusal(self, response: httpx.Response) -> str:
        status = response.status_code
        if response.is_redirect:
            place = self.server.hide(response.headers["location"])[:200]
            return f"{self.server.name} sends us on to {place!r}, and we do not follow. Give the final address."
        said = self.server.hide((await _body(response, 4096)).decode(errors="replace"))
        try:
            error = json.loads(said)["error"]
            said = error["message"] if isinstance(error, dict) else error
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        why = REFUSALS.get(status, "see what it says.")
        return f"{self.server.name} answered with status {status}: {why} It says: {' '.join(str(said).split())[:300]!r}"

    def _kept(self) -> str:
        tokens = sum(len(step.emitted) for step in self._builder.steps)
        return f"{tokens} tokens had arrived and are kept."

    def _ended(self) -> str:
        return f"the server ended, or something between closed the connection; {self._kept()}"


def _check_text(texts: Sequence[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"The text {text[:40]!r} holds something that is no Unicode text.") from error


def _tokens(page: bytes) -> list[int]:
    try:
        told = json.loads(page)["tokens"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError("The server's /tokenize tells no tokens. Is this the address of a vLLM server?") from error
    return token_ids(told)


async def _body(response: httpx.Response, most: int) -> bytes:
    """The first `most` bytes of the answer."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= most:
            break
    return bytes(body[:most])
