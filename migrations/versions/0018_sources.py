"""Of what source a dataset is a snapshot, and which dataset's next version it is."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Datasets that are there already were uploaded."""
    op.add_column("datasets", sa.Column("source", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("datasets", sa.Column("refreshes", sa.Uuid(), nullable=True))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("datasets", "refreshes")
    op.drop_column("datasets", "source")
