"""What an analyst calls a job, and writes about it."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Jobs that are there already have no name and no note."""
    op.add_column("jobs", sa.Column("name", sa.String(length=200), nullable=True))
    op.add_column("jobs", sa.Column("note", sa.Text(), nullable=True))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("jobs", "note")
    op.drop_column("jobs", "name")
