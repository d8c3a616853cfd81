"""The trace of a job's submission, which the worker continues."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; existing jobs have no trace."""
    op.add_column("jobs", sa.Column("traceparent", sa.String(length=55), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("jobs", "traceparent")
