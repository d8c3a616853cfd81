"""How long a request holds the event loop, in time of the CPU: others' load makes it no longer.

A beat in the loop reads the CPU time of the process again and again. What passes between two beats
was spent by the loop itself, or by a thread that did not let the loop go on.
"""

import asyncio
import gc
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from app.connections import protocol
from app.main import create_app
from app.serve import SWITCH_SECONDS
from app.services.accounts.users import ensure_admin
from app.services.context import Services, open_services
from app.services.upkeep import migrate
from app.settings import Settings
from tests.api.support import ADMIN, MANY, PLANNERS

BEAT_SECONDS = 0.001
ANSWER_SECONDS = 120.0
MOST_SECONDS, TRIES = 0.05, 3  # of a core


class Server(uvicorn.Server):
    """A server in a thread of this process, whose loop is watched."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def __init__(self, app: Any, settings: Settings) -> None:
        http: Any = protocol(settings.request_seconds, settings.send_seconds)
        config = uvicorn.Config(app, port=0, http=http, log_config=None, access_log=False)
        super().__init__(config)
        self.longest = 0.0
        self.thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self) -> None:
        beating = asyncio.create_task(self._beat())
        await self.serve()
        beating.cancel()

    async def _beat(self) -> None:
        before = time.process_time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now = time.process_time()
            self.longest = max(self.longest, now - before)
            before = now

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])

    def ask(self, request: bytes) -> bytes:
        """What is answered to these bytes, until the server closes; empty where it only closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS) as line:
            sending = threading.Thread(target=_send, args=(line, request))
            sending.start()
            answer = bytearray()
            with suppress(ConnectionError):
                while part := line.recv(2**16):
                    answer += part
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            sending.join()
        return bytes(answer)

    def stall(self, request: bytes) -> tuple[float, bytes]:
        """The longest stall in seconds while this is answered, and the answer.

        The shortest of three times where it is long: what holds the loop does so each time, and
        what else this process or its machine has to do may not.
        """
        stalls: list[float] = []
        while not stalls or (min(stalls) >= MOST_SECONDS and len(stalls) < TRIES):
            time.sleep(5 * BEAT_SECONDS)
            self.longest = 0.0
            answer = self.ask(request)
            time.sleep(5 * BEAT_SECONDS)
            stalls.append(self.longest)
        return min(stalls), answer


def _send(line: socket.socket, request: bytes) -> None:
    with suppress(OSError):
        line.sendall(request)


@contextmanager
def served(folder: Path, **values: Any) -> Iterator[tuple[Server, Services]]:
    """A service that listens, with its loop watched."""
    settings = Settings(data_dir=folder, admin_key=ADMIN, **{**MANY, "workers": 0, **values})
    migrate(settings)
    opened = open_services(settings)
    services = Services(settings, opened.sessions, opened.vault, lambda _: None)
    ensure_admin(services, ADMIN)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(settings, open_house=lambda _: services, planners=PLANNERS)
    server = Server(app, settings)
    server.thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        gc.collect()
        gc.freeze()
        yield server, services
    finally:
        server.should_exit = True
        server.thread.join()
        gc.unfreeze()
        sys.setswitchinterval(before)
