"""Other people's HTTP services, played by a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no log."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Answer on a port, by default a free one, while the block runs. Yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
