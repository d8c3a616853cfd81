"""Dashboard sessions signed in by an identity provider."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "provider_sessions",
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("sid", sa.String(255), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("renewing_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["key_id"], ["keys.id"], name=op.f("fk_provider_sessions_key_id_keys")
        ),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_provider_sessions")),
    )
    op.create_index(op.f("ix_provider_sessions_sid"), "provider_sessions", ["sid"])
    op.create_index(op.f("ix_provider_sessions_ends_at"), "provider_sessions", ["ends_at"])


def downgrade() -> None:
    """Drop the table; the sessions' keys still expire."""
    op.drop_table("provider_sessions")
