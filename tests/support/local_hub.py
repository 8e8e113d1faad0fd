"""A local server that implements the part of the Hugging Face hub's API that downloads use."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLD_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"


class LocalHub:
    """A hub with the repositories ``org/name`` (public), ``org/secret`` (private) and ``org/gated``.

    Attributes:
        files: Files of the public repository, by path, in the revisions ``main`` and ``v1``.
        sent: Paths of the files that were sent, in order.
        tokens: Authorization headers of all requests.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files, self.sent, self.tokens = files, list[str](), set[str | None]()
        self.revisions = {"main": COMMIT, COMMIT: COMMIT, "v1": OLD_COMMIT, OLD_COMMIT: OLD_COMMIT}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def local_hub(files: Mapping[str, bytes]) -> Iterator[LocalHub]:
    """Serve a public repository ``org/name`` with these files while the context lasts."""
    hub = LocalHub(files)
    thread = Thread(target=hub.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: LocalHub

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.hub.tokens.add(self.headers.get("authorization"))
        parts = urlsplit(self.path).path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._answer_api("/".join(parts[2:4]), parts[4:])
        elif len(parts) > 4 and parts[2] == "resolve":
            self._answer_file("/".join(parts[:2]), parts[3], "/".join(parts[4:]), with_body=with_body)
        else:
            self._send(404, {}, b"")

    def _answer_api(self, repository: str, rest: list[str]) -> None:
        revision = rest[1] if len(rest) > 1 else "main"
        if not self._is_readable(repository, revision):
            return
        paths = self.hub.files
        answer: Any = {"id": repository, "sha": self.hub.revisions[revision]}
        answer["siblings"] = [{"rfilename": path} for path in paths]
        if rest[:1] == ["tree"]:
            answer = [
                {"type": "file", "path": path, "size": len(data), "oid": _hash(data)} for path, data in paths.items()
            ]
        self._send(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def _answer_file(self, repository: str, revision: str, path: str, *, with_body: bool) -> None:
        if not self._is_readable(repository, revision):
            return
        if path not in self.hub.files:
            self._send(404, {"X-Error-Code": "EntryNotFound"}, b"")
            return
        data = self.hub.files[path]
        headers = {"ETag": f'"{_hash(data)}"', "X-Repo-Commit": self.hub.revisions[revision]}
        if with_body:
            self.hub.sent.append(path)
        self._send(200, headers, data, with_body=with_body)

    def _is_readable(self, repository: str, revision: str) -> bool:
        """Return whether the repository has the revision and may be read; otherwise send the hub's error."""
        code = {"org/name": "", "org/gated": "GatedRepo"}.get(repository, "RepoNotFound")
        if not code and revision not in self.hub.revisions:
            code = "RevisionNotFound"
        if code:
            self._send(403 if code == "GatedRepo" else 404, {"X-Error-Code": code, "X-Error-Message": code}, b"")
        return not code

    def _send(self, status: int, headers: Mapping[str, str], data: bytes, *, with_body: bool = True) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body and self.command == "GET":
            self.wfile.write(data)


def _hash(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
