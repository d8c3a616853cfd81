"""Why the planner chose a job's algorithm, as the plan said when the job was taken on."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Jobs that are there already have none."""
    op.add_column("jobs", sa.Column("reasons", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Forget the reasons, and nothing else."""
    op.drop_column("jobs", "reasons")
