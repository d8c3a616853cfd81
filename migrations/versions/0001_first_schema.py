"""The first schema, with triggers that make ledger rows immutable."""

import sqlalchemy as sa
from alembic import op

from migrations.kept import refuse_to_drop

revision = "0001"
down_revision = None

SQLITE_RULES = (
    """CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries
    BEGIN SELECT RAISE(ABORT, 'ledger entries are immutable'); END""",
    """CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries
    BEGIN SELECT RAISE(ABORT, 'ledger entries are immutable'); END""",
    # INSERT OR REPLACE would delete the old row without asking the rule above
    """CREATE TRIGGER ledger_entries_no_replace BEFORE INSERT ON ledger_entries
    WHEN EXISTS (SELECT 1 FROM ledger_entries
                 WHERE dataset_id = NEW.dataset_id AND seq = NEW.seq)
    BEGIN SELECT RAISE(ABORT, 'ledger entries are immutable'); END""",
    """CREATE TRIGGER ledger_heads_no_delete BEFORE DELETE ON ledger_heads
    BEGIN SELECT RAISE(ABORT, 'a ledger head stays'); END""",
    """CREATE TRIGGER ledger_heads_no_replace BEFORE INSERT ON ledger_heads
    WHEN EXISTS (SELECT 1 FROM ledger_heads WHERE dataset_id = NEW.dataset_id)
    BEGIN SELECT RAISE(ABORT, 'a ledger head stays'); END""",
    """CREATE TRIGGER ledger_heads_forward BEFORE UPDATE ON ledger_heads
    WHEN NEW.seq <> OLD.seq + 1 OR NEW.dataset_id <> OLD.dataset_id
    BEGIN SELECT RAISE(ABORT, 'a ledger head moves forward by one entry'); END""",
)
POSTGRESQL_RULES = (
    """CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'ledger rows are immutable' USING ERRCODE = 'integrity_constraint_violation';
    END $$""",
    """CREATE TRIGGER ledger_entries_immutable BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER ledger_heads_no_delete BEFORE DELETE ON ledger_heads
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER ledger_heads_no_truncate BEFORE TRUNCATE ON ledger_heads
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER ledger_heads_forward BEFORE UPDATE ON ledger_heads
    FOR EACH ROW WHEN (NEW.seq <> OLD.seq + 1 OR NEW.dataset_id <> OLD.dataset_id)
    EXECUTE FUNCTION ledger_refuse()""",
)


def create_users() -> None:
    """Create the table users."""
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("role IN ('admin', 'analyst', 'auditor')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )


def create_datasets() -> None:
    """Create the table datasets."""
    op.create_table(
        "datasets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("neighbouring", sa.String(length=20), nullable=False),
        sa.Column("restricted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("wrapped_key", sa.LargeBinary(), nullable=True),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("destroyed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "neighbouring IN ('replace_one', 'add_remove')", name=op.f("ck_datasets_neighbouring")
        ),
        sa.CheckConstraint(
            "(destroyed_at IS NULL) = (wrapped_key IS NOT NULL)", name=op.f("ck_datasets_destroyed")
        ),
        sa.CheckConstraint("rows >= 1", name=op.f("ck_datasets_rows")),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_datasets_created_by_users")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    op.create_index(
        op.f("ix_datasets_created_at_id"), "datasets", ["created_at", "id"], unique=False
    )


def create_keys() -> None:
    """Create the table keys."""
    op.create_table(
        "keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_keys_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_keys_digest")),
    )
    op.create_index(op.f("ix_keys_user_id"), "keys", ["user_id"], unique=False)


def create_grants() -> None:
    """Create the table grants."""
    op.create_table(
        "grants",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_grants_dataset_id_datasets")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_grants_user_id_users")),
        sa.PrimaryKeyConstraint("dataset_id", "user_id", name=op.f("pk_grants")),
    )
    op.create_index(op.f("ix_grants_user_id"), "grants", ["user_id"], unique=False)


def create_jobs() -> None:
    """Create the table jobs."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("resolved", sa.JSON(), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("event_digest", sa.String(length=64), nullable=False),
        sa.Column("epsilon", sa.Double(), nullable=False),
        sa.Column("delta", sa.Double(), nullable=False),
        sa.Column("mu", sa.Double(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("body_hash", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=True),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reserved_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("progress_step", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("progress_of", sa.BigInteger(), nullable=False),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("released_attempt", sa.Integer(), nullable=True),
        sa.Column("summary", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(status = 'succeeded') = (released_attempt IS NOT NULL)", name=op.f("ck_jobs_released")
        ),
        sa.CheckConstraint(
            "(status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name=op.f("ck_jobs_finished"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR attempt >= 1", name=op.f("ck_jobs_running_claimed")
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_jobs_status"),
        ),
        sa.CheckConstraint(
            "(idempotency_key IS NULL) = (body_hash IS NULL)", name=op.f("ck_jobs_idempotency")
        ),
        sa.CheckConstraint("(owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_jobs_lease")),
        sa.CheckConstraint("attempt >= 0 AND token >= 0", name=op.f("ck_jobs_attempt")),
        sa.CheckConstraint(
            "progress_step >= 0 AND progress_step <= progress_of", name=op.f("ck_jobs_progress")
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_jobs_dataset_id_datasets")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_jobs_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint(
            "user_id", "idempotency_key", name=op.f("uq_jobs_user_id_idempotency_key")
        ),
    )
    op.create_index(op.f("ix_jobs_created_at_id"), "jobs", ["created_at", "id"], unique=False)
    op.create_index(
        op.f("ix_jobs_dataset_id_created_at"), "jobs", ["dataset_id", "created_at"], unique=False
    )
    op.create_index(
        op.f("ix_jobs_status_lease_until"), "jobs", ["status", "lease_until"], unique=False
    )
    op.create_index(
        op.f("ix_jobs_status_published_at"), "jobs", ["status", "published_at"], unique=False
    )
    op.create_index(
        op.f("ix_jobs_user_id_created_at_id"), "jobs", ["user_id", "created_at", "id"], unique=False
    )


def create_ledger_heads() -> None:
    """Create the table ledger_heads."""
    op.create_table(
        "ledger_heads",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("posted", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Text(), nullable=False),
        sa.Column("allotments", sa.Text(), nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "status IN ('open', 'archived', 'destroyed')", name=op.f("ck_ledger_heads_status")
        ),
        sa.CheckConstraint("jobs >= 0", name=op.f("ck_ledger_heads_jobs")),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_ledger_heads_seq")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_ledger_heads_dataset_id_datasets")
        ),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_ledger_heads")),
    )


def create_chain_blocks() -> None:
    """Create the table chain_blocks."""
    op.create_table(
        "chain_blocks",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_draw", sa.BigInteger(), nullable=False),
        sa.Column("num_draws", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("attempt >= 1 AND seq >= 0", name=op.f("ck_chain_blocks_place")),
        sa.CheckConstraint(
            "first_draw >= 0 AND num_draws >= 1", name=op.f("ck_chain_blocks_draws")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_chain_blocks_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "attempt", "seq", name=op.f("pk_chain_blocks")),
    )


def create_ledger_entries() -> None:
    """Create the table ledger_entries."""
    op.create_table(
        "ledger_entries",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("actor_id", sa.Uuid(), nullable=True),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("analyst_id", sa.Uuid(), nullable=True),
        sa.Column("event", sa.Text(), nullable=True),
        sa.Column("event_digest", sa.String(length=64), nullable=True),
        sa.Column("cost", sa.Text(), nullable=True),
        sa.Column("total", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint(
            "(kind IN ('reserve', 'post', 'void')) = (job_id IS NOT NULL)",
            name=op.f("ck_ledger_entries_job"),
        ),
        sa.CheckConstraint(
            "kind IN ('open', 'reserve', 'post', 'void', 'raise_budget', "
            "'allot', 'grant', 'archive', 'unarchive', 'destroy')",
            name=op.f("ck_ledger_entries_kind"),
        ),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_ledger_entries_seq")),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["ledger_heads.dataset_id"],
            name=op.f("fk_ledger_entries_dataset_id_ledger_heads"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_ledger_entries_job_id_jobs")
        ),
        sa.PrimaryKeyConstraint("dataset_id", "seq", name=op.f("pk_ledger_entries")),
    )
    op.create_index(
        "uq_ledger_entries_job_id_kind", "ledger_entries", ["job_id", "kind"], unique=True
    )
    op.create_index(
        "uq_ledger_entries_settled_once",
        "ledger_entries",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("kind IN ('post', 'void')"),
        postgresql_where=sa.text("kind IN ('post', 'void')"),
    )


def upgrade() -> None:
    """Create all tables and triggers."""
    create_users()
    create_datasets()
    create_keys()
    create_grants()
    create_jobs()
    create_ledger_heads()
    create_chain_blocks()
    create_ledger_entries()
    rules = SQLITE_RULES if op.get_bind().dialect.name == "sqlite" else POSTGRESQL_RULES
    for rule in rules:
        op.execute(sa.text(rule))


def downgrade() -> None:
    """Drop all tables; those of ledgers only where that was requested."""
    refuse_to_drop("ledger_entries", "audit_entries")
    op.drop_table("ledger_entries")
    op.drop_table("chain_blocks")
    op.drop_table("ledger_heads")
    op.drop_table("jobs")
    op.drop_table("grants")
    op.drop_table("keys")
    op.drop_table("datasets")
    op.drop_table("users")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.text("DROP FUNCTION ledger_refuse()"))
