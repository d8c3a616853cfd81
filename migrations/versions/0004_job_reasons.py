"""The planner's reasons for a job's algorithm, as of its submission."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; existing jobs have no reasons."""
    op.add_column("jobs", sa.Column("reasons", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("jobs", "reasons")
