"""Datasets of several data holders; a job may debit several ledgers."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

ONCE = "uq_ledger_entries_job_id_kind"
SETTLED = "uq_ledger_entries_settled_once"


def upgrade() -> None:
    """Add the columns; existing datasets have one holder."""
    op.add_column("datasets", sa.Column("holders", sa.JSON(), nullable=True))
    op.add_column("datasets", sa.Column("pool_id", sa.Uuid(), nullable=True))
    op.create_index(op.f("ix_datasets_pool_id"), "datasets", ["pool_id"])
    change_indexes(["job_id", "kind", "dataset_id"], ["job_id", "dataset_id"])


def downgrade() -> None:
    """Revert. Refuses where a job has debited several ledgers."""
    datasets = sa.table("datasets", sa.column("pool_id"))
    held = sa.select(sa.func.count()).where(datasets.c.pool_id.isnot(None))
    if op.get_bind().scalar(held):
        raise RuntimeError("some datasets have several holders: an older release cannot keep them")
    change_indexes(["job_id", "kind"], ["job_id"])
    op.drop_index(op.f("ix_datasets_pool_id"), "datasets")
    op.drop_column("datasets", "pool_id")
    op.drop_column("datasets", "holders")


def change_indexes(once: list[str], settled: list[str]) -> None:
    """Replace the unique indexes of a job's ledger entries."""
    op.drop_index(ONCE, "ledger_entries")
    op.drop_index(SETTLED, "ledger_entries")
    op.create_index(ONCE, "ledger_entries", once, unique=True)
    rule = sa.text("kind IN ('post', 'void')")
    op.create_index(
        SETTLED,
        "ledger_entries",
        settled,
        unique=True,
        sqlite_where=rule,
        postgresql_where=rule,
    )
