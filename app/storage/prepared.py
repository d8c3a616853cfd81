"""Statements compiled once, executed by the driver itself: for the few that run under a hot lock.

SQLAlchemy's own execution costs several times what the statement does on SQLite. Values and rows go
through the columns' types as usual, errors come out as SQLAlchemy's.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import Select

Statement = Select[Any] | UpdateBase
Convert = Callable[[Any], Any]


class Prepared:
    """One statement with named values; a select's rows have its columns as attributes."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._for = lru_cache(maxsize=2)(self._compiled)

    def _compiled(self, name: str) -> "_Compiled":
        return _Compiled(self._statement, DIALECTS[name])

    def run(self, session: Session, values: Mapping[str, Any]) -> list[Any]:
        """Execute in the session's transaction; the rows, if it is a select. Flushes nothing.

        Raises the errors that SQLAlchemy raises, such as IntegrityError.
        """
        connection = session.connection()
        dialect = connection.dialect
        driver: Any = connection.connection.driver_connection
        try:
            return self._for(dialect.name).run(driver, values)
        except dialect.loaded_dbapi.Error as error:
            base = dialect.loaded_dbapi.Error
            raise DBAPIError.instance(None, None, error, base, dialect=dialect) from error


DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": postgresql.psycopg.dialect(),  # type: ignore[no-untyped-call]
}


class _Compiled:
    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self._sql, self._fixed = str(compiled), dict(compiled.params)
        self._into = _converters(
            (name, bind.type.dialect_impl(dialect).bind_processor(dialect))
            for name, bind in compiled.binds.items()
        )
        self._selects = isinstance(statement, Select)
        columns = list(statement.selected_columns) if isinstance(statement, Select) else []
        self._row: Any = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]
        self._out = _converters(
            (at, column.type.dialect_impl(dialect).result_processor(dialect, None))
            for at, column in enumerate(columns)
        )

    def run(self, driver: Any, values: Mapping[str, Any]) -> list[Any]:
        """Execute on a driver's connection."""
        given = {**self._fixed, **values}
        for name, convert in self._into:
            given[name] = convert(given[name])
        cursor = driver.execute(self._sql, given)
        return [self._read(row) for row in cursor.fetchall()] if self._selects else []

    def _read(self, row: Any) -> Any:
        fields = list(row)
        for at, convert in self._out:
            fields[at] = convert(fields[at])
        return self._row(*fields)


def _converters(found: Iterable[tuple[Any, Convert | None]]) -> list[tuple[Any, Convert]]:
    return [(at, convert) for at, convert in found if convert is not None]
