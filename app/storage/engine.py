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
from sqlalchemy.pool import PoolProxiedConnection

from app.storage.wal import open_queue, private, use_wal

BUSY_SECONDS = 60
EARLY_RELEASE = "early_release"
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
    """An engine of `url`; with writes=False its transactions can only read.

    url: sqlite:///file or postgresql://… (always spoken by psycopg 3). Raises StorageUrlError.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, writes)
    if parsed.get_backend_name() == "postgresql":
        return _postgresql(parsed.set(drivername="postgresql+psycopg"), writes)
    raise StorageUrlError("the database must be SQLite or PostgreSQL")


def direct_engine_for(url: str | URL, writer: Engine) -> Engine:
    """An engine for `app.storage.direct`, which does without psycopg's own statements.

    PostgreSQL: connections of its own, because psycopg drops every prepared statement of one
    where it rolls back after having prepared one itself. SQLite: the one writer.
    """
    if writer.dialect.name == "sqlite":
        return writer
    return _pooled(make_url(url).set(drivername="postgresql+psycopg"), max_overflow=0)


def _postgresql(url: URL, writes: bool) -> Engine:
    engine = _pooled(url, max_overflow=8)
    if writes:
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _pooled(url: URL, max_overflow: int) -> Engine:
    engine = create_engine(url, pool_size=8, max_overflow=max_overflow, pool_timeout=60)
    event.listen(engine, "checkout", _replace_where_hung_up)
    return engine


def _replace_where_hung_up(connection: Any, _: object, __: object) -> None:
    """Have the pool open another connection where the server has ended this one meanwhile.

    A server says nothing on an idle connection but that it ends. Looking costs a microsecond, where
    a ping would cost every debit a round trip.
    """
    idle = poll()
    idle.register(connection.fileno(), POLLIN)
    if idle.poll(0):
        raise DisconnectionError("the server ended the connection")


def _sqlite(url: URL, writes: bool) -> Engine:
    if not url.database or url.database == ":memory:":
        raise StorageUrlError(
            "SQLite needs a file: readers and the writer are different connections"
        )
    size = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 8, "max_overflow": 8}
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        pool_timeout=BUSY_SECONDS,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        **size,
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
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    use_wal(connection, database)


def _refuse_writes(connection: Any, _: object) -> None:
    connection.execute("PRAGMA query_only=ON")


def _queue_writers(engine: Engine, database: str) -> None:
    """Take the queue's lock before BEGIN IMMEDIATE; leave it with the connection."""

    def join_queue(_: object, record: Any) -> None:
        record.info["queue"] = open_queue(database)

    def begin(connection: Connection) -> None:
        early = bool(connection.get_execution_options().get(EARLY_RELEASE))
        begin_writing(connection.connection, early=early)

    def close_queue(_: object, record: Any) -> None:
        queue = record.info.pop("queue", None)
        if queue is not None:
            os.close(queue)

    event.listen(engine, "connect", join_queue)
    event.listen(engine, "begin", begin)
    event.listen(engine, "checkin", lambda _, record: leave_queue(record.info))
    event.listen(engine, "close", close_queue)


def leave_queue(info: Any) -> None:
    """Let the next writer in. Twice is no error. info: of the pool's connection."""
    fcntl.flock(info["queue"], fcntl.LOCK_UN)


def begin_writing(connection: PoolProxiedConnection, *, early: bool) -> None:
    """Begin a write transaction on SQLite, as the next in the queue.

    early: its commit does not wait for the disk; `sync_log` does, after it.
    """
    info, driver = connection.info, connection.driver_connection
    fcntl.flock(info["queue"], fcntl.LOCK_EX)
    if info.get(EARLY_RELEASE, False) != early:
        driver.execute(f"PRAGMA synchronous={'NORMAL' if early else 'FULL'}")
        info[EARLY_RELEASE] = early
    driver.execute("BEGIN IMMEDIATE")


def sync_log(engine: Engine) -> None:
    """Put SQLite's log on the disk: what was committed with synchronous=NORMAL is then durable.

    What is no longer in the log was moved to the database file and synchronised by the checkpoint
    that moved it, before the log was written over or removed.
    """
    try:
        log = os.open(f"{engine.url.database}-wal", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(log)
    finally:
        os.close(log)
