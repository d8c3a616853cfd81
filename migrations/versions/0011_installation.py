"""The installation's id and processes; unavailable datasets, and shared ledgers."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create tables and columns; the id is made at first use."""
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
    """Drop them."""
    op.drop_column("datasets", "unavailable_reason")
    op.drop_column("datasets", "unavailable_at")
    op.drop_table("processes")
    op.drop_table("installation")
