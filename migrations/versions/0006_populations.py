"""Ledgers shared by datasets about the same people, and encrypted fingerprints of uploads."""

import sqlalchemy as sa
from alembic import op

from migrations.kept import (
    asked_to_drop,
    holds_rows,
    is_sqlite,
    is_there,
    remake_ledger_entries,
)

revision = "0006"
down_revision = "0005"

BEFORE = (
    "kind IN ('open', 'reserve', 'post', 'void', 'raise_budget', "
    "'allot', 'grant', 'archive', 'unarchive', 'destroy')"
)
AFTER = BEFORE.replace("'destroy')", "'destroy', 'join', 'restore')")


def upgrade() -> None:
    """Add columns and table; existing datasets keep their own ledgers, without fingerprints."""
    op.add_column("datasets", sa.Column("population", sa.String(length=200), nullable=True))
    op.add_column("datasets", sa.Column("ledger_id", sa.Uuid(), nullable=True))
    op.create_index(
        "uq_datasets_population",
        "datasets",
        ["population"],
        unique=True,
        sqlite_where=sa.text("ledger_id IS NULL"),
        postgresql_where=sa.text("ledger_id IS NULL"),
    )
    change_kinds(BEFORE, AFTER)
    if is_there("fingerprints"):
        return
    op.create_table(
        "fingerprints",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_fingerprints")),
    )


def downgrade() -> None:
    """Refuse where ledgers are shared, else drop; fingerprints are kept."""
    datasets, entries = (
        sa.table("datasets", sa.column("ledger_id")),
        sa.table("ledger_entries", sa.column("kind")),
    )
    shared = (
        sa.select(sa.func.count()).select_from(datasets).where(datasets.c.ledger_id.isnot(None))
    )
    new = sa.select(sa.func.count()).where(entries.c.kind.in_(("join", "restore")))
    found = [op.get_bind().scalar(query) for query in (shared, new)]
    if any(found) and not asked_to_drop():
        raise RuntimeError(
            "datasets share the ledger of their population, or a restore was accepted:"
            " an older release cannot keep such books"
        )
    change_kinds(AFTER, BEFORE)
    op.drop_index("uq_datasets_population", "datasets")
    op.drop_column("datasets", "ledger_id")
    op.drop_column("datasets", "population")
    if asked_to_drop() or not holds_rows("fingerprints"):
        op.drop_table("fingerprints")


def change_kinds(before: str, after: str) -> None:
    """Change the allowed kinds of ledger entries, for SQLite by a new table."""
    if not is_sqlite():
        name = op.f("ck_ledger_entries_kind")
        op.drop_constraint(name, "ledger_entries")
        op.create_check_constraint(name, "ledger_entries", after)
        return
    remake_ledger_entries(before, after)
