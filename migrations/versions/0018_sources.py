"""The source of a dataset that is a snapshot, and the dataset that it succeeds."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the columns; existing datasets were uploaded."""
    op.add_column("datasets", sa.Column("source", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("datasets", sa.Column("refreshes", sa.Uuid(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("datasets", "refreshes")
    op.drop_column("datasets", "source")
