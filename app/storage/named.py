"""SQL functions of names in stored JSON, on SQLite and PostgreSQL."""

from typing import Any

from sqlalchemy import String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class columns_of_task(FunctionElement[str]):  # noqa: N801 a function of SQL
    """The columns that a task names, joined by commas; NULL where it names none.

    Its argument: the resolved spec of a job.
    """

    name, type, inherit_cache = "columns_of_task", String(), True


class columns_of_dataset(FunctionElement[str]):  # noqa: N801 a function of SQL
    """The names of a dataset's columns, joined by commas. Argument: the columns."""

    name, type, inherit_cache = "columns_of_dataset", String(), True


SQLITE = "(SELECT group_concat(leaf.atom, ', ') FROM json_tree({0}{1}) AS leaf WHERE {2})"
POSTGRESQL = (
    "(SELECT string_agg(leaf.name, ', ') FROM jsonb_array_elements_text({0}) AS leaf(name))"
)
FOUND = "jsonb_path_query_array(CAST({0} AS JSONB), '{1}')"


@compiles(columns_of_task, "sqlite")
def _task_in_sqlite(element: columns_of_task, compiler: SQLCompiler, **kw: Any) -> str:
    """Return the SQL of columns_of_task for SQLite."""
    named = "leaf.key = 'column' OR leaf.path LIKE '%.columns'"
    where = f"leaf.type = 'text' AND leaf.path NOT LIKE '$.task.impossible%' AND ({named})"
    return SQLITE.format(compiler.process(element.clauses, **kw), ", '$.task'", where)


@compiles(columns_of_dataset, "sqlite")
def _dataset_in_sqlite(element: columns_of_dataset, compiler: SQLCompiler, **kw: Any) -> str:
    """Return the SQL of columns_of_dataset for SQLite."""
    return SQLITE.format(compiler.process(element.clauses, **kw), "", "leaf.key = 'name'")


@compiles(columns_of_task, "postgresql")
def _task_in_postgresql(element: columns_of_task, compiler: SQLCompiler, **kw: Any) -> str:
    """Return the SQL of columns_of_task for PostgreSQL."""
    spec = compiler.process(element.clauses, **kw)
    parents = ("$.task", "$.task.statistics[*]")
    paths = (f"{parent}.{name}" for parent in parents for name in ("column", "columns[*]"))
    return POSTGRESQL.format(" || ".join(FOUND.format(spec, path) for path in paths))


@compiles(columns_of_dataset, "postgresql")
def _dataset_in_postgresql(element: columns_of_dataset, compiler: SQLCompiler, **kw: Any) -> str:
    """Return the SQL of columns_of_dataset for PostgreSQL."""
    columns = compiler.process(element.clauses, **kw)
    return POSTGRESQL.format(FOUND.format(columns, "$[*].name"))
