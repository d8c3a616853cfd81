"""What lies outside of the service: an identity provider and a webhook, which may hang."""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from app.services.accounts.tokens import DISCOVERY

Mode = Literal["answers", "silent", "trickles"]
BYTE_SECONDS = 1.0  # between two bytes of an answer that trickles


class Outside:
    """A server for both, in a thread. ends: the last entry number that each ledger was said to
    have, by the ledger's id.

    silent: it takes connections and requests, and never answers. trickles: it answers a byte now
    and then. Who waits for an answer when the mode changes gets none.
    """

    def __init__(self, mode: Mode = "answers") -> None:
        self.ends: dict[str, int] = {}
        self._mode, self._over = mode, threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads, self._server.block_on_close = True, False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def settings(self) -> dict[str, str]:
        """A service whose identity provider and whose anchors' webhook this is."""
        return {
            "DPMCMC_OIDC_ISSUER": self.url,
            "DPMCMC_OIDC_AUDIENCE": "dpmcmc",
            "DPMCMC_OIDC_ROLES": json.dumps({"analysts": "analyst"}),
            "DPMCMC_ANCHOR_WEBHOOK": self.url,
        }

    def become(self, mode: Mode) -> None:
        """Behave otherwise from now on."""
        self._over.set()
        self._mode, self._over = mode, threading.Event()

    def close(self) -> None:
        """End, with all that waits."""
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _took(self, body: bytes) -> None:
        for line in json.loads(body)["anchors"]:
            known = self.ends.get(line["ledger"], 0)
            self.ends[line["ledger"]] = max(known, line["seq"])

    def _handler(outside) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler is self
        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                """Hang before anything is read, where that is the mode."""
                super().setup()
                mode, over = outside._mode, outside._over
                if mode == "answers":
                    return
                with suppress(OSError):
                    if mode == "trickles":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not over.wait(BYTE_SECONDS):
                        if mode == "trickles":
                            self.wfile.write(b"x")
                self.connection.close()

            def do_GET(self) -> None:
                """The provider: its address of keys, and none of them."""
                keys = f"{outside.url}/keys"
                self._answer({"jwks_uri": keys} if self.path == DISCOVERY else {"keys": []})

            def do_POST(self) -> None:
                """The webhook: lines of anchors."""
                outside._took(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer({})

            def _answer(self, document: Any) -> None:
                text = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def handle(self) -> None:
                """A caller that leaves is no error."""
                with suppress(OSError, ValueError):
                    super().handle()

            def finish(self) -> None:
                """The same at the end."""
                with suppress(OSError, ValueError):
                    super().finish()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
