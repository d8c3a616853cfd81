"""Labels, expiry and last use of keys, and disabled users."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; existing keys do not expire."""
    op.add_column("keys", sa.Column("label", sa.String(length=200), nullable=True))
    for name in ("expires_at", "last_used_at"):
        op.add_column("keys", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    op.add_column("users", sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Drop the columns. Refuses where disabled users or expired keys would work again."""
    users = sa.table("users", sa.column("disabled_at"))
    keys = sa.table("keys", sa.column("expires_at"), sa.column("revoked_at"))
    ending = sa.select(sa.func.count()).where(
        keys.c.expires_at.isnot(None), keys.c.revoked_at.is_(None)
    )
    disabled = sa.select(sa.func.count()).where(users.c.disabled_at.isnot(None))
    if any(op.get_bind().scalar(query) for query in (ending, disabled)):
        raise RuntimeError(
            "users are disabled, or keys end: an older release would let them in. Revoke those"
            " keys, and the keys of those users, and enable the users"
        )
    op.drop_column("users", "disabled_at")
    for name in ("last_used_at", "expires_at", "label"):
        op.drop_column("keys", name)
