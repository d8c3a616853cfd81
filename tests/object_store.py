"""A real S3 server on this machine, and a door before it that can be shut and that breaks off."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from app.local_service import free_port
from app.storage.s3_store import Bucket

KEY = {"access_key_id": "somebody", "secret_access_key": "something"}
REGION = "us-east-1"


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """moto's S3 server as a program of its own. Gives its address."""
    port = free_port()
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "moto.server",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    raise RuntimeError("the S3 server did not start")


def settings_of(endpoint: str, bucket: str) -> dict[str, str]:
    """The service's settings for a bucket."""
    return {
        "s3_endpoint": endpoint,
        "s3_bucket": bucket,
        "s3_region": REGION,
        "s3_prefix": "rows",
        "s3_access_key": KEY["access_key_id"],
        "s3_secret_key": KEY["secret_access_key"],
    }


def bucket_at(endpoint: str, name: str) -> Bucket:
    """A bucket as the store takes it."""
    return Bucket(name, "rows", endpoint, REGION, KEY)


@lru_cache
def admin_of(endpoint: str) -> Any:
    """A client that may do everything."""
    return bucket_at(endpoint, "").client(3, 5, 30)


class Door:
    """Forwards connections to a server.

    shut: connections are closed at once. reopened: it is not to be shut again.
    cut_after: the next answer breaks off after so many bytes.
    swallow: the next request that begins so is served, but its answer is not handed on.
    """

    def __init__(self, server: str) -> None:
        self._to = int(server.rsplit(":", 1)[1])
        self.shut = self.reopened = False
        self.cut_after: int | None = None
        self.swallow: bytes | None = None
        self.swallowed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Forward nothing any more."""
        self.shut = True
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.shut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._to))
            state = {"swallow": False}
            for pump in (self._ask, self._answer):
                threading.Thread(target=pump, args=(client, server, state), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(2**16):
                if self.shut:
                    break
                if self.swallow and data.startswith(self.swallow):
                    self.swallow, state["swallow"] = None, True
                    self.swallowed += 1
                server.sendall(data)
        _hang_up(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(2**16):
                if self.shut or (state["swallow"] and b"100 Continue" not in data[:32]):
                    break
                if self.cut_after is not None:
                    left, self.cut_after = self.cut_after, None
                    sent = data[:left]
                    while len(sent) < left:
                        sent += server.recv(left - len(sent))
                    client.sendall(sent)
                    break
                client.sendall(data)
        _hang_up(client, server)


def _hang_up(*connections: socket.socket) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
