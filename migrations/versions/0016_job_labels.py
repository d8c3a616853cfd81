"""An analyst's name and note of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the columns; existing jobs have neither."""
    op.add_column("jobs", sa.Column("name", sa.String(length=200), nullable=True))
    op.add_column("jobs", sa.Column("note", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("jobs", "note")
    op.drop_column("jobs", "name")
