"""Many visitors at once on one server: who waits how long, in what order, and whether anybody gets another's tokens.

    python -m benchmarks.load --clients 50 --seconds 600

Half of the clients are programs (gradio_client), half speak the page's own protocol (HTTP and server-sent events). Each
has a prompt, a seed and a length of its own, asks for one run after another with changing methods, now and then for one
that cannot be, and compares what it gets with what the same server answered when it was alone. Prints a Markdown table;
exit status 1 if something that must hold did not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from statistics import median, quantiles
from threading import Event, Thread

from gradio_client import Client
from gradio_client.exceptions import AppError

from playground.methods import METHODS

MOST_AT_ONCE = 2  # runs that compute
SHOWN_WITHIN = 1.0  # seconds until a visitor knows the place in the queue
LONGEST_TO_MEDIAN = 2.0
SLACK = 1.0  # seconds by which what clients see may lag behind the order in which they were served
APART = 0.2  # seconds from one client's first run to the next one's: starting so many in one process takes a while
WRONG_EVERY = 6  # one run in so many cannot be made
OPENINGS = ("Once upon a time", "The king said to", "def add(a, b):\n", "It was a dark night and", "We went to the")
NAMES = ("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jakob")
METHOD_IDS = [*METHODS]


@dataclass
class Ran:
    """A run as its client saw it, in seconds of one clock.

    Of clients that speak the page's protocol: `joined` is when they were in the queue, `position` when they knew where.
    """

    client: int
    number: int
    method: str
    asked: float
    joined: float | None = None
    position: float | None = None
    first: float | None = None
    ended: float | None = None
    tokens: int = 0
    wrong: str = ""

    @property
    def wait_ended(self) -> float:
        """When the first tokens came."""
        return self.first or time.monotonic()

    @property
    def wait(self) -> float:
        """Until the first tokens came."""
        return self.wait_ended - self.asked


@dataclass(frozen=True)
class Visitor:
    """A client: what it asks for is its own."""

    number: int

    @property
    def prompt(self) -> str:
        return f"{OPENINGS[self.number % len(OPENINGS)]} {NAMES[self.number // 5 % len(NAMES)]} {self.number}"

    def request(self, method: str) -> dict[str, object]:
        return {
            "prompt": self.prompt,
            "method": method,
            "max_new_tokens": 8 + self.number % 17,
            "seed": 1 + self.number,
        }


@dataclass
class Load:
    """The server at `address` under the load of `clients`, for `seconds`."""

    address: str
    clients: int
    seconds: float
    runs: list[Ran] = field(default_factory=list)
    alone: dict[int, list[int]] = field(default_factory=dict)
    most_at_once: int = 0
    wall: float = 0.0

    def measure(self) -> None:
        visitors = [Visitor(number) for number in range(self.clients)]
        first = Client(self.address, verbose=False)
        for visitor in visitors:
            answer = json.loads(first.predict(**visitor.request("autoregressive"), api_name="/generate"))
            self.alone[visitor.number] = answer["summary"]["output_token_ids"]
        for method in METHOD_IDS:  # which loads their models
            first.predict(**visitors[0].request(method), api_name="/generate")
        self._form = _form_of_generate(self.address)
        asks = [self._ask_as_page if visitor.number % 2 else self._program() for visitor in visitors]
        over = Event()
        watching = Thread(target=self._watch, args=(over,))
        watching.start()
        began = time.monotonic()
        with ThreadPoolExecutor(self.clients) as pool:
            for done in [pool.submit(self._visit, *who, began) for who in zip(visitors, asks, strict=True)]:
                done.result()
        self.wall = time.monotonic() - began
        over.set()
        watching.join()

    def _visit(self, visitor: Visitor, ask: Callable[..., None], began: float) -> None:
        time.sleep(visitor.number * APART)
        for number in itertools.count():
            if time.monotonic() - began > self.seconds:
                return
            wrong = (visitor.number + number) % WRONG_EVERY == WRONG_EVERY - 1
            method = f"no-such-{visitor.number}" if wrong else METHOD_IDS[(visitor.number + number) % len(METHOD_IDS)]
            ran = Ran(visitor.number, number, method, time.monotonic())
            self.runs.append(ran)
            try:
                ask(visitor.request(method), ran, lambda answer, ran=ran: self._take(answer, ran))
                if wrong:
                    ran.wrong = "a run that cannot be was made"
            except AppError as error:
                if not (wrong and f"'{method}'" in str(error)):
                    ran.wrong = f"an error of somebody else, or none of ours: {error}"
            except (OSError, ValueError) as error:
                ran.wrong = f"lost: {error}"
            ran.ended = time.monotonic()

    def _take(self, answer: str, ran: Ran) -> None:
        told = json.loads(answer)
        ran.first = ran.first or time.monotonic()
        if told["done"]:
            ids = told["summary"]["output_token_ids"]
            ran.tokens = len(ids)
            if told["title"] != METHODS[ran.method].title:
                ran.wrong = f"another's settings: {told['title']}"
            elif ids != self.alone[ran.client]:
                ran.wrong = f"other tokens than when alone: {ids}, not {self.alone[ran.client]}"

    def _program(self) -> Callable[..., None]:
        client = Client(self.address, verbose=False)

        def ask(request: dict[str, object], ran: Ran, take: Callable[[str], None]) -> None:
            job = client.submit(**request, api_name="/generate")
            for answer in job:
                take(answer)
            job.result()  # raises what went wrong

        return ask

    def _ask_as_page(self, request: dict[str, object], ran: Ran, take: Callable[[str], None]) -> None:
        """Join the queue and read its events, as the page does. Raises AppError with the sentence of a failed run."""
        number, names, defaults = self._form
        data = [request.get(name, default) for name, default in zip(names, defaults, strict=True)]
        visit = token_hex(8)
        _post(f"{self.address}gradio_api/queue/join", {"data": data, "fn_index": number, "session_hash": visit})
        ran.joined = time.monotonic()
        for event in _events(f"{self.address}gradio_api/queue/data?session_hash={visit}"):
            kind = event["msg"]
            if kind in ("estimation", "process_starts"):
                ran.position = ran.position or time.monotonic()
            elif kind == "process_generating":
                take(_value(event))
            elif kind == "process_completed":
                if not event["success"]:
                    raise AppError(str(event["output"]["error"]))
                return
        raise ValueError("the stream ended before the run did")

    def _watch(self, over: Event) -> None:
        while not over.wait(0.05):
            with urllib.request.urlopen(f"{self.address}healthz", timeout=60) as answer:
                self.most_at_once = max(self.most_at_once, json.load(answer)["running"])

    # ---- what came out ----

    @property
    def good(self) -> list[Ran]:
        return [ran for ran in self.runs if ran.method in METHODS and not ran.wrong and ran.first and ran.tokens]

    @property
    def later(self) -> list[Ran]:
        """Runs after each client's first: those all ask at the same moment, which no queue could even out."""
        return [ran for ran in self.good if ran.number > 0]

    @property
    def everybody_waits(self) -> bool:
        """Whether waiting is mostly queueing, and went on for long enough to compare the waits."""
        return self.clients >= 4 * MOST_AT_ONCE and len(self.later) >= self.clients

    @property
    def overtaken(self) -> list[Ran]:
        """Runs that somebody was served before who joined the queue later."""
        order = sorted((ran for ran in self.good if ran.joined), key=lambda ran: ran.joined or 0.0)
        soonest, found = float("inf"), []  # from the last to the first: who of those behind was served first
        for ran in reversed(order):
            if ran.wait_ended - SLACK > soonest:
                found.append(ran)
            soonest = min(soonest, ran.wait_ended)
        return found

    def violations(self) -> list[str]:
        """What must hold and did not."""
        found = [f"client {ran.client}, run {ran.number} ({ran.method}): {ran.wrong}" for ran in self.runs if ran.wrong]
        lost = [ran for ran in self.runs if ran.method in METHODS and not ran.wrong and not ran.tokens]
        found += [f"client {ran.client}, run {ran.number} ({ran.method}) never came to its end" for ran in lost]
        if self.most_at_once > MOST_AT_ONCE:
            found.append(f"{self.most_at_once} runs computed at once; at most {MOST_AT_ONCE} may")
        unknown = [ran for ran in self.runs if ran.client % 2 and not ran.wrong and ran.position is None]
        slow = [ran for ran in self.runs if ran.position and ran.position - ran.asked > SHOWN_WITHIN]
        if unknown or slow:
            found.append(f"the place in the queue came late {len(slow)} times and never {len(unknown)} times")
        waits = [ran.wait for ran in self.later]
        if self.everybody_waits and waits and max(waits) > LONGEST_TO_MEDIAN * median(waits):
            found.append(f"the longest wait, {max(waits):.1f} s, is more than twice the median, {median(waits):.1f} s")
        if self.overtaken:
            found.append(f"{len(self.overtaken)} times somebody was served before one who had come earlier")
        if not self.good:
            found.append("no run came to its end")
        return found

    def table(self) -> str:
        waits = [ran.wait for ran in self.later or self.good]
        places = [ran.position - ran.asked for ran in self.runs if ran.position]
        tokens = sum(ran.tokens for ran in self.good)
        rows = {
            "clients": f"{self.clients}",
            "seconds": f"{self.wall:.0f}",
            "runs that ended well": f"{len(self.good)}",
            "runs that could not be, told so": f"{sum(ran.method not in METHODS for ran in self.runs)}",
            "runs at once, most": f"{self.most_at_once}",
            "tokens per second, all together": f"{tokens / self.wall:.1f}",
            "runs per minute": f"{60 * len(self.good) / self.wall:.1f}",
            "time to first token, median": _seconds(waits, 50),
            "time to first token, p95": _seconds(waits, 95),
            "time to first token, longest": _seconds(waits, 100),
            "place in the queue known, p95": _seconds(places, 95),
            "place in the queue known, slowest": _seconds(places, 100),
        }
        return "| what | figure |\n|---|---:|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows.items())


def _seconds(values: list[float], percent: int) -> str:
    if not values:
        return "none"
    if percent == 100 or len(values) == 1:
        return f"{max(values):.2f} s"
    return f"{quantiles(values, n=100, method='inclusive')[percent - 1]:.2f} s"


def _form_of_generate(address: str) -> tuple[int, list[str], list[object]]:
    """The number of the call `generate`, and names and defaults of its values."""
    with urllib.request.urlopen(f"{address}config", timeout=60) as answer:
        calls = json.load(answer)["dependencies"]
    with urllib.request.urlopen(f"{address}gradio_api/info", timeout=60) as answer:
        values = json.load(answer)["named_endpoints"]["/generate"]["parameters"]
    (number,) = [call["id"] for call in calls if call["api_name"] == "generate"]
    return number, [one["parameter_name"] for one in values], [one.get("parameter_default") for one in values]


def _post(url: str, body: object) -> None:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(asked, timeout=60).close()


def _events(url: str) -> Iterator[dict[str, object]]:
    with urllib.request.urlopen(url, timeout=600) as stream:
        for line in stream:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


def _value(event: dict[str, object]) -> str:
    """The text that a call yields: as it is the first time, then as what replaces it."""
    (told,) = event["output"]["data"]  # type: ignore[index]
    if isinstance(told, list):
        ((_, _, told),) = told
    return str(told)


@contextmanager
def own_server() -> Iterator[str]:
    """The address of a server of our own, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    command = [sys.executable, "-m", "playground", "serve", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(address):
            if server.poll() is not None:
                sys.exit("The server did not start: python -m playground serve says why.")
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}config", timeout=10).close()
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
    return True


def report(address: str, clients: int, seconds: float) -> int:
    """Measure and print; the exit status."""
    load = Load(address, clients, seconds)
    load.measure()
    print(load.table())
    violations = load.violations()
    print("\n".join(f"- {one}" for one in violations) or "All that must hold held.")
    return 1 if violations else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--address", help="a server that is there, such as http://127.0.0.1:7860/; none: its own")
    given = parser.parse_args()
    if given.address:
        return report(given.address.rstrip("/") + "/", given.clients, given.seconds)
    with own_server() as address:
        return report(address, given.clients, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
