"""A server on this machine that speaks S3's protocol, and can fail in chosen ways."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import responses

import pytest


class BucketServer:
    """moto, which first asks ``fault`` about the method and path of each request.

    It answers a status to fail with, "cut" to break the connection within the body, "slow" to send pieces, or None.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.app = DomainDispatcherApplication(create_backend_app)
        self.fault, self.requests = lambda method, path: None, []
        self.server = make_server("127.0.0.1", 0, self, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __call__(self, environ, start_response):
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        fault = self.fault(*self.requests[-1])
        if isinstance(fault, int):
            start_response(f"{fault} {responses[fault]}", [("Content-Length", "0")])
            return [b""]
        body = self.app(environ, start_response)
        return self._pieces(b"".join(body), fault) if fault else body

    @staticmethod
    def _pieces(body: bytes, fault: str) -> Iterator[bytes]:
        for start in range(0, len(body), 700):
            yield body[start : start + 700]
            if fault == "cut":
                raise ConnectionResetError  # the header promised more
            time.sleep(0.01)

    @contextmanager
    def failing(self, fault) -> Iterator[list[tuple[str, str]]]:
        """Ask ``fault`` during the block; yields its requests."""
        self.fault, self.requests = fault, []
        try:
            yield self.requests
        finally:
            self.fault = lambda method, path: None


def open_server(monkeypatch: pytest.MonkeyPatch) -> BucketServer:
    """Start a server to which s3:// leads, with a bucket, ``bucket``."""
    import boto3

    server = BucketServer()
    own = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    for key, value in {**own, "AWS_ENDPOINT_URL": server.url, "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(key, value)
    boto3.client("s3").create_bucket(Bucket="bucket")
    return server
