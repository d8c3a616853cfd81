"""Helpers of migrations: tables of records that a downgrade keeps if they have rows."""

import sqlalchemy as sa
from alembic import context, op

ASKED = "drop_ledgers"


def holds_rows(table: str) -> bool:
    """Return whether a table has a row."""
    rows = op.get_bind().execute(sa.select(sa.literal(1)).select_from(sa.table(table)).limit(1))
    return rows.first() is not None


def asked_to_drop() -> bool:
    """Return whether dropping records was requested: `alembic -x drop_ledgers=yes`."""
    asked = context.get_x_argument(as_dictionary=True).get(ASKED) == "yes"
    return asked or bool(context.config.attributes.get(ASKED))


def refuse_to_drop(*tables: str) -> None:
    """Refuse a downgrade that drops records. Raises RuntimeError unless it was requested."""
    held = [table for table in tables if is_there(table) and holds_rows(table)]
    if held and not asked_to_drop():
        raise RuntimeError(
            f"{' and '.join(held)} would be dropped, and with them what was spent:"
            f" say -x {ASKED}=yes where that is meant"
        )


def is_there(table: str) -> bool:
    """Return whether a table exists, kept by an earlier downgrade."""
    return bool(sa.inspect(op.get_bind()).has_table(table))


def remake_ledger_entries(before: str, after: str, times: int = 1) -> None:
    """Copy the ledger entries to a table with another check, which SQLite cannot alter.

    before: what stands so many times in the table's definition, and becomes after. Raises
    RuntimeError where it does not. Indexes and triggers are kept.
    """
    connection = op.get_bind()
    kept = connection.exec_driver_sql(
        "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'ledger_entries' AND sql IS NOT NULL"
    ).all()
    (table,) = (sql for kind, sql in kept if kind == "table")
    if table.count(before) != times:
        raise RuntimeError("the table of ledger entries is not as an earlier migration made it")
    copy = table.replace("ledger_entries", "ledger_entries_new", 1).replace(before, after)
    connection.exec_driver_sql(copy)
    connection.exec_driver_sql("INSERT INTO ledger_entries_new SELECT * FROM ledger_entries")
    connection.exec_driver_sql("DROP TABLE ledger_entries")  # fires no trigger
    connection.exec_driver_sql("ALTER TABLE ledger_entries_new RENAME TO ledger_entries")
    for kind, sql in kept:
        if kind != "table":
            connection.exec_driver_sql(sql)


def is_sqlite() -> bool:
    """Return whether the database is SQLite."""
    return bool(op.get_bind().dialect.name == "sqlite")
