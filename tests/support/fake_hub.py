"""A stand-in for the Hugging Face hub: what its client asks to read models; large files lie at another address."""

import hashlib
import json
import re
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


class FakeHub:
    """The server's content, and the requests that it got."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.stored: dict[str, bytes] = {}  # LFS: SHA-256 -> content
        self.requests: list[str] = []
        self.url = self.storage = ""
        self.fails: int | None = None  # status of each answer to GET; 0 closes the connection instead

    def add(self, name: str, files: dict[str, bytes], **options: bool) -> str:
        """Put files into the main branch of a repository; the commit."""
        return self.repositories.setdefault(name, Repository(**options)).commit(files)


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str = "") -> None:
        self.status, self.code, self.message = status, code, message


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """Serve a hub at ``hub.url``."""
    hub = FakeHub()

    class Handler(_Handler):
        content = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.storage = f"http://localhost:{server.server_port}"  # another host, to which the client sends no token
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, cache: str, token: str | None = None) -> None:
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
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    content: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.content.requests.append(f"{self.command} {path}")
        asked = f"{self.command.replace('HEAD', 'GET')} {path}"
        if self.content.fails == 0 and self.command == "GET":
            self.close_connection = True
            return
        try:
            if self.content.fails and self.command == "GET":
                raise _Refused(self.content.fails, "", "busy")
            for pattern, answer in _ROUTES.items():
                if found := re.fullmatch(pattern, asked):
                    answer(self, **found.groupdict())
                    return
            raise _Refused(404, "EntryNotFound", f"no {asked}")
        except _Refused as refused:
            headers = {"X-Error-Code": refused.code, "X-Error-Message": refused.message}
            self._send(refused.status, json.dumps({"error": refused.message}).encode(), headers)

    do_HEAD = do_GET

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _repository(self, name: str) -> Repository:
        """A repository that the token may read; without a token the hub hides whether it exists."""
        knows = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        found = self.content.repositories.get(name)
        if found is None or (found.private and not knows):
            raise _Refused(404 if knows else 401, "RepoNotFound", "Repository not found")
        if found.gated and not knows:
            raise _Refused(401, "GatedRepo", "Access to this model is restricted")
        return found

    def _files(self, repository: Repository, revision: str) -> tuple[str, dict[str, bytes]]:
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            raise _Refused(404, "RevisionNotFound", "Invalid rev id")
        return commit, repository.commits[commit]

    def info(self, name: str, revision: str | None = None) -> None:
        """The commit and the files of a repository."""
        repository = self._repository(name)
        commit, files = self._files(repository, revision or "main")
        siblings = [{"rfilename": file, "size": len(content)} for file, content in sorted(files.items())]
        answer = {"id": name, "sha": commit, "private": repository.private, "siblings": siblings}
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def resolve(self, name: str, revision: str, file: str) -> None:
        """A file, or for large ones where it is stored."""
        commit, files = self._files(self._repository(name), revision)
        if file not in files:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content, headers = files[file], {"X-Repo-Commit": commit}
        digest = hashlib.sha256(content).hexdigest()
        if not file.endswith(".safetensors"):
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            self._send(200, content, {**headers, "ETag": f'"{blob}"'})
            return
        self.content.stored[digest] = content
        linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        self._send(302, b"", {**headers, **linked, "Location": f"{self.content.storage}/storage/{digest}"})

    def storage(self, digest: str) -> None:
        """The content of a large file."""
        if "Authorization" in self.headers:
            raise _Refused(400, "", "the token must not reach the storage")
        self._send(200, self.content.stored[digest], {"ETag": f'"{digest}"'})


_NAME = r"(?P<name>[^/]+/[^/]+)"
_ROUTES = {
    rf"GET /api/models/{_NAME}": _Handler.info,
    rf"GET /api/models/{_NAME}/revision/(?P<revision>.+)": _Handler.info,
    rf"GET /{_NAME}/resolve/(?P<revision>[^/]+)/(?P<file>.+)": _Handler.resolve,
    r"GET /storage/(?P<digest>\w+)": _Handler.storage,
}
