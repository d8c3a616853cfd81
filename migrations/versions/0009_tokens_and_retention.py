"""Users of an identity provider, and deletion of draws after a time."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns; existing users have keys, and existing draws are present."""
    op.add_column("users", sa.Column("subject", sa.String(length=600), nullable=True))
    op.create_index("uq_users_subject", "users", ["subject"], unique=True)
    op.add_column("jobs", sa.Column("expired_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Drop the columns. Refuses where draws have been deleted."""
    jobs = sa.table("jobs", sa.column("expired_at"))
    gone = sa.select(sa.func.count()).where(jobs.c.expired_at.isnot(None))
    if op.get_bind().scalar(gone):
        raise RuntimeError("draws were deleted after their time: an older release cannot say so")
    op.drop_column("jobs", "expired_at")
    op.drop_index("uq_users_subject", "users")
    op.drop_column("users", "subject")
