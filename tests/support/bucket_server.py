"""A server on this machine that speaks S3's protocol, and can fail in chosen ways."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import responses
from typing import Any

import pytest

SCRAPS = 700
"""Bytes after which a connection is cut."""


class BucketServer:
    """moto behind a layer of faults.

    ``fault`` is asked before each request: it gets the method and path, and returns a status to fail with, "cut" to
    break the connection within the body, "slow" to send the body in pieces, or None.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.app = DomainDispatcherApplication(create_backend_app)
        self.fault: Callable[[str, str], Any] = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        self.server = make_server("127.0.0.1", 0, self, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        fault = self.fault(method, path)
        if isinstance(fault, int):
            start_response(f"{fault} {responses[fault]}", [("Content-Length", "0")])
            return [b""]
        body = self.app(environ, start_response)
        return body if fault is None else self._part(b"".join(body), fault)

    @staticmethod
    def _part(body: bytes, fault: str) -> Iterator[bytes]:
        if fault == "cut":
            yield body[:SCRAPS]
            raise ConnectionResetError  # after a header that promised more
        for start in range(0, len(body), SCRAPS):
            time.sleep(0.01)
            yield body[start : start + SCRAPS]

    @contextmanager
    def failing(self, fault: Callable[[str, str], Any]) -> Iterator[list[tuple[str, str]]]:
        """Ask ``fault`` during the block; yields the list of the block's requests."""
        self.fault, self.requests = fault, []
        try:
            yield self.requests
        finally:
            self.fault = lambda method, path: None


def open_server(monkeypatch: pytest.MonkeyPatch) -> BucketServer:
    """Start a server to which s3:// leads, with a bucket, ``bucket``."""
    import boto3
    from s3fs import S3FileSystem

    server = BucketServer()
    own = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    for key, value in {**own, "AWS_ENDPOINT_URL": server.url, "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(key, value)
    S3FileSystem.clear_instance_cache()
    boto3.client("s3").create_bucket(Bucket="bucket")
    return server
