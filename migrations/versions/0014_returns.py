"""Refunds to jobs that stop early."""

import sqlalchemy as sa
from alembic import op

from migrations.kept import is_sqlite, remake_ledger_entries

revision = "0014"
down_revision = "0013"

KINDS = ("'reserve', 'post', 'void'", "'reserve', 'post', 'void', 'return'")
ALL = (
    "kind IN ('open', {}, 'raise_budget', 'allot', 'grant', 'archive', 'unarchive', 'destroy',"
    " 'join', 'restore')"
)
OF_JOB = "(kind IN ({})) = (job_id IS NOT NULL)"


def upgrade() -> None:
    """Allow refund entries; existing jobs have none."""
    for name in ("reserved_epsilon", "reserved_mu"):
        op.add_column("jobs", sa.Column(name, sa.Double(), nullable=True))
    change_kinds(*KINDS)


def downgrade() -> None:
    """Revert. Refuses where a refund was made."""
    entries = sa.table("ledger_entries", sa.column("kind"))
    returned = sa.select(sa.func.count()).where(entries.c.kind == "return")
    if op.get_bind().scalar(returned):
        raise RuntimeError("jobs gave a part of their cost back: an older release cannot read that")
    change_kinds(*reversed(KINDS))
    for name in ("reserved_mu", "reserved_epsilon"):
        op.drop_column("jobs", name)


def change_kinds(before: str, after: str) -> None:
    """Change the allowed kinds of ledger entries, for SQLite by a new table."""
    if not is_sqlite():
        for name, check in (("kind", ALL), ("job", OF_JOB)):
            full = op.f(f"ck_ledger_entries_{name}")
            op.drop_constraint(full, "ledger_entries")
            op.create_check_constraint(full, "ledger_entries", check.format(after))
        return
    remake_ledger_entries(before, after, times=2)
