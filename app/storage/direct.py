"""Transactions straight on the driver's connection: for what runs while a hot row is locked.

A session costs more of a CPU than a debit's own work. Here statements are compiled once
(`app.storage.prepared`), and on PostgreSQL they travel in batches: a write waits for the next read
or for the commit and goes with it, so a debit is two round trips, with the row locked during one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from select import POLLIN, POLLOUT, poll
from typing import Any, Protocol

import psycopg
from psycopg import OperationalError
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import PoolProxiedConnection

from app.storage.engine import begin_writing, leave_queue
from app.storage.prepared import Compiled, Prepared, as_sqlalchemy

Values = Mapping[str, Any]
PREPARED, TYPES = "prepared", "types"


class Direct(Protocol):
    """An open write transaction. Errors are SQLAlchemy's, such as IntegrityError."""

    backend: str

    def rows(self, statement: Prepared, values: Values) -> list[Any]:
        """Execute a select now."""

    def write(self, statement: Prepared, values: Values, instead: Exception | None = None) -> None:
        """Execute a write, at the latest with the next `rows` or the commit.

        instead: raised, then, where the write breaks a constraint.
        """

    def commit(self) -> None:
        """Make it last. SQLite: it is not on the disk yet."""


def direct_on(engine: Engine, connection: PoolProxiedConnection) -> Direct:
    """Begin a transaction on a connection of this engine, for an early release of its locks."""
    kind = DirectSqlite if engine.dialect.name == "sqlite" else DirectPostgresql
    return kind(engine, connection)


class DirectSqlite:
    """On SQLite: every statement at once."""

    backend = "sqlite"

    def __init__(self, engine: Engine, connection: PoolProxiedConnection) -> None:
        self._dialect = engine.dialect
        self._connection = connection
        self._driver: Any = connection.driver_connection
        begin_writing(connection, early=True)

    def rows(self, statement: Prepared, values: Values) -> list[Any]:
        """Execute a select now."""
        compiled = statement.compiled("sqlite")
        return compiled.rows(self._execute(compiled.sql, compiled.values(values)).fetchall())

    def write(self, statement: Prepared, values: Values, instead: Exception | None = None) -> None:
        """Execute a write now."""
        compiled = statement.compiled("sqlite")
        try:
            self._execute(compiled.sql, compiled.values(values))
        except IntegrityError:
            if instead is None:
                raise
            raise instead from None

    def commit(self) -> None:
        """Commit to the log, which is not on the disk yet."""
        self._execute("COMMIT", {})
        leave_queue(self._connection.info)

    def _execute(self, sql: str, values: Values) -> Any:
        try:
            return self._driver.execute(sql, values)
        except self._dialect.loaded_dbapi.Error as error:
            raise as_sqlalchemy(self._dialect, error, lost=False) from error


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement on its way. instead: what to raise where it breaks a constraint."""

    name: bytes
    sql: bytes
    values: Sequence[Buffer | None] = ()
    instead: Exception | None = None


BEGIN = _Step(b"dpmcmc_begin", b"BEGIN")
COMMIT = _Step(b"dpmcmc_commit", b"COMMIT")
# a transaction of its own that writes to the log alone, and whose commit waits for the disk
FLUSH = _Step(b"dpmcmc_flush", b"SELECT pg_logical_emit_message(true, 'dpmcmc', '')")
Sent = tuple[_Step, bool]


class DirectPostgresql:
    """On PostgreSQL: prepared statements in libpq's pipeline mode."""

    backend = "postgresql"

    def __init__(self, engine: Engine, connection: PoolProxiedConnection) -> None:
        self._engine, self._connection = engine, connection
        self._driver: Any = connection.driver_connection
        info = connection.info
        if PREPARED not in info:
            info[PREPARED], info[TYPES] = set(), Transformer(self._driver)
        self._prepared: set[bytes] = info[PREPARED]
        self._types: Any = info[TYPES]
        self._waiting = [BEGIN]

    def rows(self, statement: Prepared, values: Values) -> list[Any]:
        """Send what waits and a select, and wait for its rows."""
        compiled = self._add(statement, values, None)
        result = self._send()
        self._types.set_pgresult(result)
        return compiled.rows(self._types.load_rows(0, result.ntuples, tuple))

    def write(self, statement: Prepared, values: Values, instead: Exception | None = None) -> None:
        """Let a write wait for the next `rows` or the commit."""
        self._add(statement, values, instead)

    def commit(self) -> None:
        """Send what waits and the commit; return once the disk has it."""
        self._waiting += (COMMIT, FLUSH)
        self._send()

    def _add(self, statement: Prepared, values: Values, instead: Exception | None) -> Compiled:
        compiled = statement.compiled("pipeline")
        given = compiled.in_order(values)
        texts = self._types.dump_sequence(given, [PyFormat.TEXT] * len(given))
        self._waiting.append(_Step(compiled.name, compiled.encoded, texts, instead))
        return compiled

    def _send(self) -> PGresult:
        """Execute everything that waits, in one round trip. Returns the last statement's result."""
        steps, self._waiting = self._waiting, []
        pgconn = self._driver.pgconn
        try:
            sent = self._put(pgconn, steps)
            results = _answers(pgconn)
        except BaseException as error:
            self._connection.invalidate(error)
            if not isinstance(error, OperationalError):
                raise
            self._engine.dispose()  # the pool's other connections are likely lost as well
            raise as_sqlalchemy(self._engine.dialect, error, lost=True) from error
        for (step, preparing), result in zip(sent, results, strict=True):
            self._check(step, result)
            if preparing:
                self._prepared.add(step.name)
            elif step is COMMIT and result.command_status != b"COMMIT":
                raise RuntimeError("the transaction had failed before its commit")
        return results[-1]

    def _put(self, pgconn: PGconn, steps: list[_Step]) -> list[Sent]:
        """Send the steps, each new one with its preparation before it."""
        sent: list[Sent] = []
        prepared = set(self._prepared)
        pgconn.enter_pipeline_mode()
        for step in steps:
            if step.name not in prepared:
                pgconn.send_prepare(step.name, step.sql)
                sent.append((step, True))
                prepared.add(step.name)
            pgconn.send_query_prepared(step.name, step.values)
            sent.append((step, False))
        pgconn.pipeline_sync()
        return sent

    def _check(self, step: _Step, result: PGresult) -> None:
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            error = error_from_result(result)
            if step.instead is not None and isinstance(error, psycopg.IntegrityError):
                raise step.instead
            raise as_sqlalchemy(self._engine.dialect, error, lost=False) from error


def _answers(pgconn: PGconn) -> list[PGresult]:
    """One result for every statement of a pipeline. Raises OperationalError where it breaks off."""
    found: list[PGresult] = []
    socket = poll()
    while True:
        unsent = pgconn.flush()
        if pgconn.is_busy():
            socket.register(pgconn.socket, POLLIN | POLLOUT if unsent else POLLIN)
            socket.poll()
            pgconn.consume_input()
            continue
        result = pgconn.get_result()
        if result is None and pgconn.status == ConnStatus.BAD:
            raise OperationalError("the connection to the database was lost")
        if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
            pgconn.exit_pipeline_mode()
            return found
        if result is not None:
            found.append(result)
