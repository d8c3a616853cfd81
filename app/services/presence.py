"""Registration of the installation's running processes in the database.

Of a process on this machine the kernel says whether it is there; another machine's counts for as
long as it was seen lately.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import logs
from app.services.queue.sqlite_transport import alive, consumer
from app.storage.clock import database_now
from app.storage.rows import ProcessRow
from app.storage.session import SessionFactory

EVERY_SECONDS = 5.0
STALE_SECONDS = 35.0
API, WORKER, RECOVERY = "api", "worker", "recovery"


class RunningError(RuntimeError):
    """A process of the installation is still running."""


def own_name() -> str:
    """Return this process's name: host, process id and start time."""
    return f"{consumer()}@{socket.gethostname()}"


def say(sessions: SessionFactory, kind: str, able: bool) -> None:
    """Record that this process runs, and delete records of ended ones."""
    with sessions.write() as session:
        now, name = database_now(session), own_name()
        values = {"able": able, "seen_at": now, "kind": kind}
        known = session.execute(
            update(ProcessRow).where(ProcessRow.name == name).values(**values)
        ).rowcount  # type: ignore[attr-defined]
        if not known:
            host = socket.gethostname()
            session.execute(insert(ProcessRow).values(name=name, host=host, **values))
            ended = set(session.scalars(select(ProcessRow.name)))
            ended -= {name, *(row.name for row in running(session))}
            session.execute(delete(ProcessRow).where(ProcessRow.name.in_(ended)))


def leave(sessions: SessionFactory) -> None:
    """Delete the record of this process."""
    with sessions.write() as session:
        session.execute(delete(ProcessRow).where(ProcessRow.name == own_name()))


def running(session: Session) -> Sequence[ProcessRow]:
    """Return the records of running processes."""
    now, host = database_now(session), socket.gethostname()
    return [
        row
        for row in session.scalars(select(ProcessRow))
        if (alive(row.name.partition("@")[0]) if row.host == host else _fresh(row, now))
    ]


def refuse_while_running(sessions: SessionFactory) -> None:
    """Raise RunningError where a process of the installation is running."""
    with sessions.read() as session:
        programs = sorted((row.kind, row.host) for row in running(session))
    if programs:
        named = ", ".join(f"{kind} on {host}" for kind, host in programs)
        raise RunningError(
            f"processes of this installation still run ({named}): stop them all, and call again."
            f" One that was killed on another machine counts for {STALE_SECONDS:.0f} seconds"
        )


def able_workers(session: Session) -> int:
    """Return the number of workers that can take a job now."""
    now = database_now(session)
    return sum(row.kind == WORKER and row.able and _fresh(row, now) for row in running(session))


def _fresh(row: ProcessRow, now: object) -> bool:
    """Return whether a record is recent enough."""
    return bool(now - row.seen_at < timedelta(seconds=STALE_SECONDS))  # type: ignore[operator]


class Presence(threading.Thread):
    """A thread that records every few seconds that this process runs and can work.

    Its connections are given back in between: a worker's parent may fork at any moment.
    """

    def __init__(
        self, sessions: SessionFactory, kind: str, able: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(name="presence", daemon=True)
        self._sessions, self._kind, self._able = sessions, kind, able
        self._stop_now = threading.Event()

    def stop(self) -> None:
        """Stop, and delete the record."""
        self._stop_now.set()
        self.join()
        self._written(lambda: leave(self._sessions))

    def run(self) -> None:
        """Record until stopped."""
        while True:
            self._written(lambda: say(self._sessions, self._kind, self._able()))
            if self._stop_now.wait(EVERY_SECONDS):
                return

    def _written(self, write: Callable[[], None]) -> None:
        """Write to the database, ignoring an unavailable one."""
        try:
            write()
        except SQLAlchemyError as error:
            logs.logger().warning("presence_unwritten", exception=type(error).__name__)
        finally:
            self._sessions.dispose()
