"""Engines: the same code on SQLite (a file) and PostgreSQL (psycopg 3).

SQLite: WAL, synchronous=FULL (a commit survives a power cut), foreign keys, zeroed deletes. Writers
use one connection per process and BEGIN IMMEDIATE, and queue across processes on a lock file: the
kernel wakes the next one at once, where SQLite's own busy handler sleeps and lets latecomers
overtake. The queue is only for speed; what keeps two writers apart is SQLite's own lock.
"""

import fcntl
import os
from select import POLLIN, poll
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DisconnectionError

from app.storage.wal import open_queue, private, use_wal

BUSY_SECONDS = 60
READERS = 24  # connections, as many as threads read at once: none is opened for one transaction
PRAGMAS = (
    f"busy_timeout={BUSY_SECONDS * 1000}",
    "synchronous=FULL",
    "foreign_keys=ON",
    "recursive_triggers=ON",
    "secure_delete=ON",
)


class StorageUrlError(ValueError):
    """A database URL that is neither an SQLite file nor PostgreSQL."""


def engine_for(url: str | URL, *, writes: bool = True) -> Engine:
    """Return an engine for a URL. writes=False: its transactions are read-only.

    url: sqlite:///file or postgresql://… (always spoken by psycopg 3). Raises StorageUrlError.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, writes)
    if parsed.get_backend_name() == "postgresql":
        return _postgresql(parsed.set(drivername="postgresql+psycopg"), writes)
    raise StorageUrlError("the database must be SQLite or PostgreSQL")


def _postgresql(url: URL, writes: bool) -> Engine:
    """Return an engine for PostgreSQL."""
    engine = create_engine(url, pool_size=16, max_overflow=0, pool_timeout=60, pool_use_lifo=True)
    event.listen(engine, "checkout", _replace_where_hung_up)
    if writes:
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _replace_where_hung_up(connection: Any, _: object, __: object) -> None:
    """Replace pooled connections that the server has closed.

    A server says nothing on an idle connection but that it ends. Looking costs a microsecond, where
    a ping would cost every debit a round trip.
    """
    idle = poll()
    idle.register(connection.fileno(), POLLIN)
    if idle.poll(0):
        raise DisconnectionError("the server ended the connection")


def _sqlite(url: URL, writes: bool) -> Engine:
    """Return an engine for SQLite."""
    if not url.database or url.database == ":memory:":
        raise StorageUrlError(
            "SQLite needs a file: those who read and the one who writes each have a connection"
        )
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        pool_timeout=BUSY_SECONDS,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        pool_size=1 if writes else READERS,
        max_overflow=0,
        pool_use_lifo=True,  # the one that was used last has its schema and pages in memory
    )
    database = url.database
    private(database)
    event.listen(engine, "connect", lambda connection, _: _prepare(connection, database))
    if writes:
        _queue_writers(engine, database)
    else:
        event.listen(engine, "connect", _refuse_writes)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare(connection: Any, database: str) -> None:
    """Set the pragmas of a new connection."""
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    use_wal(connection, database)
    # synchronises the log: what was recovered after a kill may not be on the disk, and is seen
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _refuse_writes(connection: Any, _: object) -> None:
    """Make a connection read-only."""
    connection.execute("PRAGMA query_only=ON")


def _queue_writers(engine: Engine, database: str) -> None:
    """Serialise writers: lock a queue file before BEGIN IMMEDIATE, release it afterwards."""

    def join_queue(_: object, record: Any) -> None:
        """Open the queue file of a connection."""
        record.info["queue"] = open_queue(database)

    def begin(connection: Connection) -> None:
        """Lock the queue, then begin the transaction."""
        fcntl.flock(connection.info["queue"], fcntl.LOCK_EX)
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def leave_queue(_: object, record: Any) -> None:
        """Release the queue of a returned connection."""
        fcntl.flock(record.info["queue"], fcntl.LOCK_UN)

    def close_queue(_: object, record: Any) -> None:
        """Close the queue file of a connection."""
        queue = record.info.pop("queue", None)
        if queue is not None:
            os.close(queue)

    event.listen(engine, "connect", join_queue)
    event.listen(engine, "begin", begin)
    event.listen(engine, "checkin", leave_queue)
    event.listen(engine, "close", close_queue)
