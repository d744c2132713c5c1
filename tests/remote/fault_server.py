"""A server that answers as it is told to: slowly, in odd pieces, not at all. It stands in for one that misbehaves."""

import json
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

Part = bytes | float | str
"""Bytes are sent, a number is a pause in seconds, "hang" waits for the client to go, "reset" breaks the connection."""

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


def answer(status: int, body: str = "", kind: str = "application/json", **headers: str) -> list[Part]:
    """A whole answer."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n{more}\r\n"
    return [(head + body).encode()]


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def stream(*parts: Part | dict, end: bool = True) -> list[Part]:
    """A stream of events: dicts are events, strings and numbers as in `Part`, bytes go into the body as they are."""
    script: list[Part] = [STREAM_HEAD]
    for part in parts:
        if isinstance(part, dict):
            part = f"data: {json.dumps(part)}\n\n".encode()
        script.append(chunk(part) if isinstance(part, bytes) else part)
    if end:
        script += [chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]
    return script


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: dict


@dataclass
class FaultServer:
    """`scripts` answers each path with the first of its scripts that is left, the last one again and again."""

    scripts: dict[str, list[Sequence[Part]]]
    requests: list[Request] = field(default_factory=list)
    client_gone: Event = field(default_factory=Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def posts(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST"]

    def serve(self, connection: socket.socket) -> None:
        with connection:
            request = _read_request(connection)
            if request is None:
                return
            self.requests.append(request)
            scripts = self.scripts.get(request.path, [answer(404, '{"error": {"message": "no such path"}}')])
            script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
            try:
                for part in script:
                    if part == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    if part == "hang":
                        connection.recv(1)
                        self.client_gone.set()
                    elif isinstance(part, bytes):
                        connection.sendall(part)
                    else:
                        Event().wait(part)
            except OSError:
                self.client_gone.set()


def _read_request(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, json.loads(body) if body else {})


@contextmanager
def fault_server(scripts: dict[str, list[Sequence[Part]]]) -> Iterator[FaultServer]:
    """The server on a free port of this machine, until the block ends."""
    server = FaultServer(scripts)
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            Thread(target=server.serve, args=(connection,), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
