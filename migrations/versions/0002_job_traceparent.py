"""Where a job's trace began, so that the worker goes on with it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Jobs that are there already have no trace."""
    op.add_column("jobs", sa.Column("traceparent", sa.String(length=55), nullable=True))


def downgrade() -> None:
    """Forget the traces, and nothing else."""
    op.drop_column("jobs", "traceparent")
