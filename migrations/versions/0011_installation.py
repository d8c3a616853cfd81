"""The installation's id and its processes; datasets that are set aside or share a ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The installation is named by whoever first asks for its id."""
    op.create_table(
        "installation",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("number = 1", name=op.f("ck_installation_number")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_installation")),
    )
    op.create_table(
        "processes",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("able", sa.Boolean(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_processes")),
    )
    op.add_column("datasets", sa.Column("unavailable_at", sa.DateTime(timezone=True)))
    op.add_column("datasets", sa.Column("unavailable_reason", sa.String(length=200)))


def downgrade() -> None:
    """Forget who runs and what was set aside: an older release looks for itself."""
    op.drop_column("datasets", "unavailable_reason")
    op.drop_column("datasets", "unavailable_at")
    op.drop_table("processes")
    op.drop_table("installation")
