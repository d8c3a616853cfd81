"""Analysts' requests for a dataset, or for more budget."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "access_requests",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", sa.Uuid(), nullable=True),
        sa.Column("dataset_name", sa.String(length=200), nullable=True),
        sa.Column("epsilon", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job", sa.JSON(), nullable=True),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.Uuid(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("granted", sa.JSON(), nullable=True),
        sa.CheckConstraint(
            "status IN ('open', 'granted', 'refused', 'withdrawn')",
            name=op.f("ck_access_requests_status"),
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_access_requests_dataset_id_datasets")
        ),
        sa.ForeignKeyConstraint(
            ["decided_by"], ["users.id"], name=op.f("fk_access_requests_decided_by_users")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_access_requests_user_id_users")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_requests")),
    )
    op.create_index(
        op.f("ix_access_requests_created_at_id"), "access_requests", ["created_at", "id"]
    )
    op.create_index(
        op.f("ix_access_requests_user_id_created_at_id"),
        "access_requests",
        ["user_id", "created_at", "id"],
    )


def downgrade() -> None:
    """Drop the table; ledgers and audit trail keep what was granted."""
    op.drop_table("access_requests")
