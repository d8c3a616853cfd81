"""The immutable audit trail, and the creator of a key."""

import sqlalchemy as sa
from alembic import op

from migrations.kept import asked_to_drop, holds_rows, is_sqlite, is_there

revision = "0005"
down_revision = "0004"

SQLITE_RULES = (
    """CREATE TRIGGER audit_entries_no_update BEFORE UPDATE ON audit_entries
    BEGIN SELECT RAISE(ABORT, 'audit entries are immutable'); END""",
    """CREATE TRIGGER audit_entries_no_delete BEFORE DELETE ON audit_entries
    BEGIN SELECT RAISE(ABORT, 'audit entries are immutable'); END""",
    """CREATE TRIGGER audit_entries_no_replace BEFORE INSERT ON audit_entries
    WHEN EXISTS (SELECT 1 FROM audit_entries WHERE seq = NEW.seq)
    BEGIN SELECT RAISE(ABORT, 'audit entries are immutable'); END""",
)
POSTGRESQL_RULES = (
    """CREATE TRIGGER audit_entries_immutable BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()""",
)


def upgrade() -> None:
    """Create the trail; existing keys have no creator."""
    op.add_column("keys", sa.Column("created_by", sa.Uuid(), nullable=True))
    if is_there("audit_entries"):
        return
    op.create_table(
        "audit_entries",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("actor_id", sa.Uuid(), nullable=True),
        sa.Column("key_id", sa.Uuid(), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("subject_id", sa.Uuid(), nullable=True),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_audit_entries_seq")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_entries")),
    )
    op.create_index(op.f("ix_audit_entries_user_id_seq"), "audit_entries", ["user_id", "seq"])
    for rule in SQLITE_RULES if is_sqlite() else POSTGRESQL_RULES:
        op.execute(sa.text(rule))


def downgrade() -> None:
    """Keep a trail with entries for a later upgrade; else drop it."""
    op.drop_column("keys", "created_by")
    if asked_to_drop() or not holds_rows("audit_entries"):
        op.drop_table("audit_entries")
