"""Indexes for fair scheduling: an analyst's oldest queued job, and last start."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the indexes."""
    columns = ["status", "user_id", "created_at", "id"]
    op.create_index(op.f("ix_jobs_status_user_id_created_at_id"), "jobs", columns)
    op.create_index(op.f("ix_jobs_user_id_started_at"), "jobs", ["user_id", "started_at"])


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index(op.f("ix_jobs_user_id_started_at"), "jobs")
    op.drop_index(op.f("ix_jobs_status_user_id_created_at_id"), "jobs")
