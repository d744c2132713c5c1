"""Which servers a remote lane may talk to: those that the operator listed, and no others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from playground.errors import UserError

HOSTS = "SPECPLAY_REMOTE_HOSTS"
KEY = "SPECPLAY_REMOTE_KEY"
SHORTEST_SECRET = 8
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Server:
    """An allowed OpenAI-compatible server. `url` ends before "/v1"; `key` goes into the request and nowhere else."""

    url: httpx.URL
    key: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What people may see of it: scheme, host, port, path."""
        return str(self.url).rstrip("/")

    @property
    def host(self) -> str:
        """Host and port."""
        return self.url.netloc.decode()

    def hide(self, text: str) -> str:
        """`text` without the key, should the server have echoed it. Stand-ins such as EMPTY are no secret."""
        return text.replace(self.key, "[key]") if self.key and len(self.key) >= SHORTEST_SECRET else text


def allowed_server(address: str, environ: Mapping[str, str] = os.environ) -> Server:
    """The server at `address`, such as http://localhost:8000 or https://host/v1.

    `SPECPLAY_REMOTE_HOSTS` lists the allowed host[:port], separated by commas; a host without a port stands for the
    scheme's own port. Without the variable no server is allowed. `SPECPLAY_REMOTE_KEY` is the key sent to them.

    Raises UserError for an address that is malformed or not on the list, and for a list that cannot be read.
    """
    url = _parse(address)
    allowed = [_entry(entry) for entry in environ.get(HOSTS, "").replace(",", " ").split()]
    host, port = url.host, url.port or DEFAULT_PORTS[url.scheme]
    if (host, port) not in allowed and not (url.port is None and (host, None) in allowed):
        wanted = f"[{host}]" if ":" in host else host
        wanted += f":{url.port}" if url.port else ""
        raise UserError(
            f"The server {wanted} is not one that this playground may talk to. Whoever runs the playground allows it "
            f"by adding {wanted} to the environment variable {HOSTS}."
        )
    key = environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UserError(f"The key in {KEY} holds characters that no key has. Set it again, without line breaks.")
    return Server(url, key or None)


def _parse(address: str) -> httpx.URL:
    text = address.strip()
    if not text.startswith(("http://", "https://")):
        raise UserError(f"{_short(text)} is not the address of a server; it starts with http:// or https://.")
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UserError(f"{_short(text)} is not the address of a server: {error}.") from error
    if not url.host:
        raise UserError(f"{_short(text)} names no host.")
    if url.userinfo:
        raise UserError(f"Leave user and password out of the address; the key belongs into {KEY} on the server side.")
    if url.query or url.fragment:
        raise UserError(f"{_short(text)} has a part after ? or #; give the base address, such as http://host:8000.")
    path = url.path.rstrip("/").removesuffix("/v1")
    return url.copy_with(path=path + "/")


def _entry(entry: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{entry}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.path or "@" in entry:
        raise UserError(f"{HOSTS} holds {_short(entry)}, which is not of the form host or host:port.")
    return host, port


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."
