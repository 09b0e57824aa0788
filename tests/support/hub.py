"""Stand-ins for the Hugging Face hub on this machine: one never answers, one knows nothing, one refuses connections."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

CLOSED = "http://127.0.0.1:9"
"""An address that refuses connections."""


@contextmanager
def silent_hub() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def empty_hub() -> Iterator[str]:
    """The address of a server that answers every request with 404."""

    class NotFound(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(404)
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
