"""Statements compiled once, executed by the driver itself: for the few that run under a hot lock.

SQLAlchemy's own execution costs several times what the statement does on SQLite. Values and rows go
through the columns' types as usual, errors come out as SQLAlchemy's.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import Select

Statement = Select[Any] | UpdateBase
Convert = Callable[[Any], Any]

# "pipeline" numbers its parameters, as PostgreSQL itself does
DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": postgresql.psycopg.dialect(),  # type: ignore[no-untyped-call]
    "pipeline": postgresql.base.PGDialect(paramstyle="numeric_dollar"),  # type: ignore[no-untyped-call]
}
_NUMBERS = count()


class Prepared:
    """One statement with named values; a select's rows have its columns as attributes."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self.compiled = lru_cache(maxsize=3)(self._compiled)

    def _compiled(self, name: str) -> "Compiled":
        return Compiled(self._statement, DIALECTS[name])

    def run(self, session: Session, values: Mapping[str, Any]) -> list[Any]:
        """Execute in the session's transaction; the rows, if it is a select. Flushes nothing.

        Raises the errors that SQLAlchemy raises, such as IntegrityError. Where the connection was
        lost it is not used again, nor is any other that the pool holds.
        """
        connection = session.connection()
        compiled = self.compiled(connection.dialect.name)
        cursor = execute(connection, compiled.sql, compiled.values(values))
        return compiled.rows(cursor.fetchall()) if compiled.selects else []


def execute(connection: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Any:
    """Execute on the driver's own connection. Returns the driver's cursor; raises as `run` does."""
    driver: Any = connection.connection.driver_connection
    dialect = connection.dialect
    try:
        return driver.execute(sql, *(() if values is None else (values,)))
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
            connection.engine.dispose()
        raise as_sqlalchemy(dialect, error, lost=lost) from error


def as_sqlalchemy(dialect: Dialect, error: Exception, *, lost: bool) -> BaseException:
    """A driver's error as SQLAlchemy would raise it, such as IntegrityError."""
    base = dialect.loaded_dbapi.Error
    return DBAPIError.instance(
        None, None, error, base, connection_invalidated=lost, dialect=dialect
    )


class Compiled:
    """A statement as one driver takes it. encoded: sql as bytes. name: unique in this process."""

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.sql = str(compiled)
        self.encoded, self.name = self.sql.encode(), f"dpmcmc_{next(_NUMBERS)}".encode()
        self.selects = isinstance(statement, Select)
        self._fixed, self._order = dict(compiled.params), compiled.positiontup or ()
        self._into = _converters(
            (name, bind.type.dialect_impl(dialect).bind_processor(dialect))
            for name, bind in compiled.binds.items()
        )
        columns = list(statement.selected_columns) if isinstance(statement, Select) else []
        self._row: Any = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]
        self._out = _converters(
            (at, column.type.dialect_impl(dialect).result_processor(dialect, None))
            for at, column in enumerate(columns)
        )

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The statement's values, as the driver takes them."""
        found = {**self._fixed, **given}
        for name, convert in self._into:
            found[name] = convert(found[name])
        return found

    def in_order(self, given: Mapping[str, Any]) -> list[Any]:
        """The same, by position: for a statement whose parameters have numbers."""
        found = self.values(given)
        return [found[name] for name in self._order]

    def rows(self, found: Iterable[Sequence[Any]]) -> list[Any]:
        """A select's rows, as its columns' types give them."""
        return [self._read(row) for row in found]

    def _read(self, row: Sequence[Any]) -> Any:
        if not self._out:
            return self._row(*row)
        fields = list(row)
        for at, convert in self._out:
            fields[at] = convert(fields[at])
        return self._row(*fields)


def _converters(found: Iterable[tuple[Any, Convert | None]]) -> list[tuple[Any, Convert]]:
    return [(at, convert) for at, convert in found if convert is not None]
