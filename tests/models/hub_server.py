"""A model hub on this machine: as much of its protocol as a download needs."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Repositories as {id: {file name: bytes}}; remembers what was asked for."""

    def __init__(self, repos: dict[str, dict[str, bytes]]) -> None:
        self.repos = repos
        self.gated: set[str] = set()
        self.downloads: list[tuple[str, str | None]] = []
        self.cut_after: int | None = None  # break the next download after this many bytes


@contextmanager
def serve(hub: FakeHub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def reply(self, status: int, body: bytes = b"", **headers: str):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def refuse(self, status: int, code: str):
            self.reply(status, json.dumps({"error": code}).encode(), X_Error_Code=code, X_Error_Message=code)

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            parts = self.path.split("?")[0].strip("/").split("/")
            api = parts[:2] == ["api", "models"]
            repo, rest = ("/".join(parts[2:4]), parts[4:]) if api else ("/".join(parts[:2]), parts[2:])
            if repo in hub.gated:
                return self.refuse(403, "GatedRepo")
            if repo not in hub.repos:
                return self.refuse(404, "RepoNotFound")
            files = hub.repos[repo]
            if rest[1] not in ("main", COMMIT):
                return self.refuse(404, "RevisionNotFound")
            if rest[0] == "revision":
                return self.reply(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": []}).encode())
            if rest[0] == "tree":
                entries = [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in files.items()
                ]
                return self.reply(200, json.dumps(entries).encode())
            return self.send_file(files, "/".join(rest[2:]))

        def send_file(self, files: dict[str, bytes], name: str):
            if name not in files:
                return self.refuse(404, "EntryNotFound")
            data = files[name]
            about = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X_Repo_Commit": COMMIT}
            if self.command == "HEAD":
                self.send_response(200)
                for key, value in (about | {"Content_Length": str(len(data))}).items():
                    self.send_header(key.replace("_", "-"), value)
                return self.end_headers()
            asked = self.headers.get("Range")
            hub.downloads.append((name, asked))
            start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
            if hub.cut_after is not None and len(data) > hub.cut_after:
                self.send_response(200)
                for key, value in (about | {"Content_Length": str(len(data))}).items():
                    self.send_header(key.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(data[: hub.cut_after])
                self.wfile.flush()
                hub.cut_after = None
                self.close_connection = True
                return None
            if start:
                about["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            return self.reply(206 if start else 200, data[start:], **about)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
