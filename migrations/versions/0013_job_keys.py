"""The API key that submitted a job; the job does not run once the key is revoked."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; it is empty for existing jobs."""
    op.add_column("jobs", sa.Column("key_id", sa.Uuid(), nullable=True))
    op.create_index(op.f("ix_jobs_key_id_status"), "jobs", ["key_id", "status"])


def downgrade() -> None:
    """Drop the column."""
    op.drop_index(op.f("ix_jobs_key_id_status"), "jobs")
    op.drop_column("jobs", "key_id")
