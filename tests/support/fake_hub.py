"""Stand-ins for the Hugging Face hub: one has repositories, one refuses connections."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

CLOSED = "http://127.0.0.1:9"
"""An address that refuses connections."""
_PATHS = r"/api/models/(\w+/\w+)(/revision/|/tree/|)(\w*)()", r"/(\w+/\w+)(/resolve/)(\w+)/(.+)"
"""Paths of requests: the repository, what is asked, the revision, the file."""


class FakeHub(ThreadingHTTPServer):
    """A server of repositories with one commit each, and the requests that it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []

    def add(self, name: str, files: dict[str, bytes]) -> str:
        """Put files into the main branch of a repository; the commit."""
        self.repositories[name] = files
        return self.commit(name)

    def commit(self, name: str) -> str:
        """The commit of a repository: a digest of its files."""
        return hashlib.sha1(repr(sorted(self.repositories[name].items())).encode()).hexdigest()


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """Serve a hub at ``hub.url``."""
    with FakeHub() as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, cache: str) -> None:
    """Let the hub's client, which reads its settings when it is imported, use this address and cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        asked = next(filter(None, (re.fullmatch(pattern, path) for pattern in _PATHS)), None)
        name, what, revision, file = asked.groups() if asked else ("", "", "", "")
        files = self.server.repositories.get(name)
        if files is None:
            return self._send(404, code="RepoNotFound", message="Repository not found")
        commit = self.server.commit(name)
        if revision not in ("", "main", commit):
            return self._send(404, code="RevisionNotFound", message=f"Invalid rev id: {revision}")
        if what == "/resolve/":
            found = file in files
            return self._send(
                200 if found else 404, files.get(file, b""), "" if found else "EntryNotFound", commit=commit
            )
        if what == "/tree/":
            tree = [{"type": "file", "path": k, "size": len(v), "oid": _digest(v)} for k, v in files.items()]
            return self._send(200, json.dumps(tree).encode())
        siblings = [{"rfilename": file} for file in files]
        return self._send(200, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())

    do_HEAD = do_GET

    def _send(self, status: int, content: bytes = b"", code: str = "", message: str = "", commit: str = "") -> None:
        self.send_response(status)
        headers = {"X-Error-Code": code, "X-Error-Message": message, "X-Repo-Commit": commit, "ETag": _digest(content)}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
