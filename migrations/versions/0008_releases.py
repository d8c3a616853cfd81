"""Stored releases, and verdicts of jobs."""

import sqlalchemy as sa
from alembic import op

from migrations.kept import asked_to_drop, holds_rows, is_there

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add them; existing jobs have neither."""
    op.add_column("jobs", sa.Column("verdict", sa.JSON(), nullable=True))
    if is_there("releases"):
        return
    op.create_table(
        "releases",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_releases_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_releases")),
    )


def downgrade() -> None:
    """Keep releases, which were paid for, for a later upgrade; drop verdicts."""
    op.drop_column("jobs", "verdict")
    if asked_to_drop() or not holds_rows("releases"):
        op.drop_table("releases")
