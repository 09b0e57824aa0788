"""Stand-ins for the Hugging Face hub: one has repositories, one never answers, one refuses connections."""

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from lgx.host import hub

TOKEN = "hf_secret_of_the_tests"
CLOSED = "http://127.0.0.1:9"
"""An address that refuses connections."""
_NAME = r"(?P<name>[^/]+/[^/]+)"
_INFO = rf"/api/models/{_NAME}(/revision/(?P<revision>.+))?"
_FILE = rf"/{_NAME}/resolve/(?P<revision>[^/]+)/(?P<file>.+)"


@contextmanager
def silent_hub() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@dataclass
class Repository:
    """A model repository: branch -> commits, commit -> files."""

    private: bool = False
    gated: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Add files to a branch; the new commit."""
        before = self.commits.get(self.branches.get(branch, ""), {})
        sha = hashlib.sha1(f"{len(self.commits)} {sorted(files)}".encode()).hexdigest()
        self.commits[sha] = before | files
        self.branches[branch] = sha
        return sha


class FakeHub(ThreadingHTTPServer):
    """The server, its content, and the requests that it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.fails: int | None = None  # status of each answer to GET; 0 closes the connection instead

    def add(self, name: str, files: dict[str, bytes], **options: bool) -> str:
        """Put files into the main branch of a repository; the commit."""
        return self.repositories.setdefault(name, Repository(**options)).commit(files)


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

    hub.failure_of.cache_clear()  # another test may have had a silent server at the same address
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{cache}/no_token")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        if self.command == "GET" and self.server.fails is not None:
            self.close_connection = True
            if self.server.fails:
                self._send(self.server.fails, b"busy")
        elif asked := re.fullmatch(_INFO, path) or re.fullmatch(_FILE, path):
            self._answer(**asked.groupdict())
        else:
            self._send(404)

    do_HEAD = do_GET

    def _answer(self, name: str, revision: str | None, file: str = "") -> None:
        """A file, or the facts of a repository; without a token the hub hides whether it exists."""
        knows = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not knows):
            return self._send(404 if knows else 401, code="RepoNotFound", message="Repository not found")
        if repository.gated and not knows:
            return self._send(401, code="GatedRepo", message="Access to this model is restricted")
        commit = repository.branches.get(revision or "main", revision or "")
        files = repository.commits.get(commit)
        if files is None:
            return self._send(404, code="RevisionNotFound")
        if not file:
            siblings = [{"rfilename": file, "size": len(content)} for file, content in sorted(files.items())]
            about = {"id": name, "sha": commit, "private": repository.private, "siblings": siblings}
            return self._send(200, json.dumps(about).encode())
        if file not in files:
            return self._send(404, code="EntryNotFound", commit=commit)
        return self._send(200, files[file], commit=commit)

    def _send(self, status: int, content: bytes = b"", code: str = "", message: str = "", commit: str = "") -> None:
        self.send_response(status)
        headers = {
            "Content-Length": len(content), "X-Error-Code": code, "X-Error-Message": message, "X-Repo-Commit": commit,
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
        }  # fmt: skip
        for name, value in headers.items():
            if value != "":
                self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
