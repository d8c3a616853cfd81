"""The embedded broker: a kombu transport with messages in one SQLite file.

A message is a row until it is acknowledged: taking one stamps it with the consumer and leaves it
there, so a consumer that dies takes nothing along. The next consumer to start puts back what dead
ones held. If a hint is lost all the same, as by a power cut, the recovery process sends it again.

A consumer that waits is woken by a bell (`app.services.queue.bell`) and hardly ever polls.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.scheduling import FairCycle

from app.services.queue.bell import Bell, ring
from app.storage.wal import private, use_wal

SCHEME = "dpmcmcqueue"
LOOK_SECONDS = 5.0  # should a bell not have rung
DEAF_SECONDS = 0.05  # where a folder takes no bells
TABLE = """CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, body TEXT NOT NULL, taken_by TEXT)"""
TAKE = """UPDATE message SET taken_by = ? WHERE id = (
    SELECT id FROM message WHERE queue = ? AND taken_by IS NULL ORDER BY id LIMIT 1)
    RETURNING id, body"""


def register() -> None:
    """Register the transport with kombu under its URL scheme."""
    TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def consumer() -> str:
    """Return this process's name as a consumer: process id and start time."""
    return f"{os.getpid()}:{_started(os.getpid())}"


def _started(pid: int) -> str:
    """Return a process's start time in kernel ticks; empty if it does not run."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def alive(holder: str) -> bool:
    """Return whether the process named by `consumer` is still running."""
    pid, _, started = holder.partition(":")
    return _started(int(pid)) == started


class Channel(virtual.Channel):
    """A channel with one connection to the file, reopened after a fork."""

    do_restore = False
    _opened: tuple[int, sqlite3.Connection] | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)  # type: ignore[no-untyped-call]
        self._guard = threading.RLock()

    @property
    def _path(self) -> str:
        """Return the path of the file."""
        return str(self.connection.client.transport_options["path"])

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, to one thread at a time."""
        with self._guard:
            if self._opened is None or self._opened[0] != os.getpid():
                private(self._path)
                opened = sqlite3.connect(
                    self._path, timeout=30, isolation_level=None, check_same_thread=False
                )
                use_wal(opened, self._path)
                opened.execute("PRAGMA synchronous=NORMAL")
                opened.execute(TABLE)
                self._opened = (os.getpid(), opened)
            yield self._opened[1]

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        """Insert a message, and wake waiting consumers."""
        with self._file() as file:
            body = json.dumps(message)
            file.execute("INSERT INTO message (queue, body) VALUES (?, ?)", (queue, body))
        ring(self._path)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the next message, marked as held by this process. Raises Empty."""
        with self._file() as file:
            row = file.execute(
                "SELECT 1 FROM message WHERE queue = ? AND taken_by IS NULL LIMIT 1", (queue,)
            ).fetchone()
            row = row and file.execute(TAKE, (consumer(), queue)).fetchone()
        if not row:
            raise Empty
        message: dict[str, Any] = json.loads(row[1])
        message["properties"]["delivery_tag"] = str(row[0])
        return message

    def _new_queue(self, queue: str, **_: Any) -> None:
        """Requeue messages held by dead consumers of the queue."""
        with self._file() as file:
            holders = file.execute(
                "SELECT DISTINCT taken_by FROM message WHERE queue = ? AND taken_by IS NOT NULL",
                (queue,),
            ).fetchall()
            for (holder,) in holders:
                if not alive(holder):
                    file.execute("UPDATE message SET taken_by = NULL WHERE taken_by = ?", (holder,))

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Delete the message, and wake consumers: see Transport.wake."""
        super().basic_ack(delivery_tag, multiple)  # type: ignore[no-untyped-call]
        with self._file() as file:
            file.execute("DELETE FROM message WHERE id = ?", (int(delivery_tag),))
        self.connection.wake()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Delete the message, or requeue it."""
        self.qos.ack(delivery_tag)
        with self._file() as file:
            if requeue:
                file.execute(
                    "UPDATE message SET taken_by = NULL WHERE id = ?", (int(delivery_tag),)
                )
            else:
                file.execute("DELETE FROM message WHERE id = ?", (int(delivery_tag),))
        if requeue:
            ring(self._path)
        self.connection.wake()

    def _size(self, queue: str) -> int:
        """Return the number of messages that nobody holds."""
        with self._file() as file:
            row = file.execute(
                "SELECT count(*) FROM message WHERE queue = ? AND taken_by IS NULL", (queue,)
            ).fetchone()
        return int(row[0])

    def _purge(self, queue: str) -> int:
        """Delete the queue's messages, and return their number."""
        with self._file() as file:
            return file.execute("DELETE FROM message WHERE queue = ?", (queue,)).rowcount

    def close(self) -> None:
        """Requeue unacknowledged messages, and close the file."""
        if not self.closed and self._opened is not None and self._opened[0] == os.getpid():
            unacknowledged = [(int(tag),) for tag in (self._qos._delivered if self._qos else ())]
            with self._file() as file:
                file.executemany("UPDATE message SET taken_by = NULL WHERE id = ?", unacknowledged)
                file.close()
            self._opened = None
            if unacknowledged:
                ring(self._path)
        if self._qos:
            self._qos._delivered.clear()
        super().close()  # type: ignore[no-untyped-call]


class Transport(virtual.Transport):
    """kombu's virtual transport over the file."""

    Channel = Channel
    driver_type = "sql"
    driver_name = "sqlite"
    can_parse_url = False
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct"]), heartbeats=False
    )
    cycle: FairCycle  # the base class declares none, and makes one
    _bell: Bell | None = None
    _deaf = False
    looked_at: float | None = None  # when somebody last looked for a message

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Deliver a message. Raises TimeoutError after `timeout` or the option `patience`.

        With that option also where the bell rang for something else, such as a signal.
        """
        patience = connection.client.transport_options.get("patience")
        waits = [seconds for seconds in (timeout, patience) if seconds is not None]
        until = time.monotonic() + min(waits, default=float("inf"))
        while True:
            self.looked_at = time.monotonic()
            try:
                self.cycle.get(self._deliver, timeout=timeout)  # type: ignore[no-untyped-call]
            except Empty:
                remaining = until - time.monotonic()
            else:
                return
            if remaining <= 0:
                raise TimeoutError
            if self._wait(connection, remaining) and patience is not None:
                until = time.monotonic()

    def _wait(self, connection: Any, seconds: float) -> bool:
        """Wait until there may be a message. Returns whether there was a wake-up."""
        if self._bell is None and not self._deaf:
            try:
                self._bell = Bell(connection.client.transport_options["path"])
                return True  # a message may have come before it was there
            except OSError:
                self._deaf = True
        if self._bell is None:
            time.sleep(min(seconds, DEAF_SECONDS))
            return False
        return self._bell.wait(min(seconds, LOOK_SECONDS))

    def wake(self) -> None:
        """Wake `drain_events`, since Celery acknowledges in another thread."""
        if self._bell is not None:
            self._bell.ring()

    def close_connection(self, connection: Any) -> None:
        """Remove the wake-up pipe and close."""
        if self._bell is not None:
            self._bell.close()
            self._bell = None
        super().close_connection(connection)  # type: ignore[no-untyped-call]

    def driver_version(self) -> str:
        """Return the version of SQLite."""
        return sqlite3.sqlite_version
