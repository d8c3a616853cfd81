"""The database tables. They hold public facts and identifiers, never rows of datasets.

Ids are UUIDv4, times are UTC. The migrations build the same tables; a test compares the two.
"""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.storage.types import Utc, utc_now

ROLES = ("admin", "analyst", "auditor")
JOB_STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")
FINAL_STATUSES = ("succeeded", "failed", "cancelled")
REQUEST_STATUSES = ("open", "granted", "refused", "withdrawn")
ACCOUNT_STATUSES = ("open", "archived", "destroyed")
AMENDMENTS = (
    "raise_budget",
    "allot",
    "grant",
    "archive",
    "unarchive",
    "destroy",
    "join",
    "restore",
)
OF_JOBS = ("reserve", "post", "void", "return")
ENTRY_KINDS = ("open", *OF_JOBS, *AMENDMENTS)


def one_of(column: str, values: tuple[str, ...]) -> str:
    """Return the SQL check that a column has one of these values."""
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


class Base(DeclarativeBase):
    """The declarative base; it names every constraint, for migrations."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Utc(), UUID: Uuid()}  # noqa: RUF012 - SQLAlchemy reads it so


class InstallationRow(Base):
    """The single row with the installation's id, used for brokers and stores."""

    __tablename__ = "installation"
    __table_args__ = (CheckConstraint("number = 1", name="number"),)

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, default=1)
    id: Mapped[UUID]


class ProcessRow(Base):
    """A process of the installation, as last seen.

    name: unique to it. able: whether it could do its work then; of a worker, take a job.
    """

    __tablename__ = "processes"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    host: Mapped[str] = mapped_column(String(200))
    able: Mapped[bool]
    seen_at: Mapped[datetime]


class UserRow(Base):
    """A user of the service.

    subject: issuer and subject of the tokens that this user comes with; None: with keys only.
    email: where the user wants to be told of access requests; None: nowhere.
    """

    __tablename__ = "users"
    __table_args__ = (
        CheckConstraint(one_of("role", ROLES), name="role"),
        Index("uq_users_subject", "subject", unique=True),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    role: Mapped[str] = mapped_column(String(20))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    disabled_at: Mapped[datetime | None]
    subject: Mapped[str | None] = mapped_column(String(600))
    email: Mapped[str | None] = mapped_column(String(254))


class KeyRow(Base):
    """An API key, as HMAC of its token. created_by: None where the service created it.

    last_used_at: to the minute.
    """

    __tablename__ = "keys"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    created_by: Mapped[UUID | None]
    label: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class ProviderSessionRow(Base):
    """A dashboard session signed in by an identity provider.

    key_id: the session's key, which ends with the provider's token. sid: the provider's own name of
    its session, where it has one. sealed: the ID token, and the refresh token where there is one,
    under a key that is not in the database. ends_at: after which it is renewed no more.
    renewing_until: while one process renews it.
    """

    __tablename__ = "provider_sessions"

    key_id: Mapped[UUID] = mapped_column(ForeignKey("keys.id"), primary_key=True)
    sid: Mapped[str | None] = mapped_column(String(255), index=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    ends_at: Mapped[datetime] = mapped_column(index=True)
    renewing_until: Mapped[datetime | None]


class IdempotencyRow(Base):
    """What an Idempotency-Key created: a user, key or dataset. Jobs store their own."""

    __tablename__ = "idempotency_keys"

    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    body_hash: Mapped[str] = mapped_column(String(64))
    made_id: Mapped[UUID]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class DatasetRow(Base):
    """Public metadata of a dataset, with its wrapped key.

    The budget is in the ledger's head, not here. wrapped_key is None once the rows are destroyed.
    restricted: only the users of its grants may use it. population: whom the rows are about.
    ledger_id: the dataset whose ledger and budget this one shares, the first of its population;
    None for a ledger of its own, as that first one has. holders: of a pooled dataset, the datasets
    (id, name, rows) that its rows are in, in their order; it has a key but no file. pool_id: of
    such a holder's dataset, the pooled one, whose jobs debit the holder's ledger as well.
    unavailable_at: when it was set aside because its stored rows cannot be opened, for
    unavailable_reason; None once an admin has put them right. privacy_unit: {column, max_rows}
    where a person may have several rows, and rows are then slots, max_rows of each person; "row"
    where each row is declared to be a person; None where nothing is. source: of a snapshot, what it
    is of: {name, table | query | path, skip, skip_undeclared}. refreshes: the dataset whose next
    version this is.
    """

    __tablename__ = "datasets"
    __table_args__ = (
        CheckConstraint("rows >= 1", name="rows"),
        CheckConstraint(one_of("neighbouring", ("replace_one", "add_remove")), name="neighbouring"),
        CheckConstraint("(destroyed_at IS NULL) = (wrapped_key IS NOT NULL)", name="destroyed"),
        Index(None, "created_at", "id"),
        Index(
            "uq_datasets_population",
            "population",
            unique=True,
            sqlite_where=text("ledger_id IS NULL"),
            postgresql_where=text("ledger_id IS NULL"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(200))
    description: Mapped[str] = mapped_column(Text, default="")
    columns: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    rows: Mapped[int] = mapped_column(BigInteger)
    neighbouring: Mapped[str] = mapped_column(String(20), default="replace_one")
    restricted: Mapped[bool] = mapped_column(default=False, server_default=false())
    wrapped_key: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_by: Mapped[UUID] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    archived_at: Mapped[datetime | None]
    destroyed_at: Mapped[datetime | None]
    population: Mapped[str | None] = mapped_column(String(200))
    ledger_id: Mapped[UUID | None]
    holders: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    pool_id: Mapped[UUID | None] = mapped_column(index=True)
    unavailable_at: Mapped[datetime | None]
    unavailable_reason: Mapped[str | None] = mapped_column(String(200))
    privacy_unit: Mapped[dict[str, Any] | str | None] = mapped_column(JSON(none_as_null=True))
    source: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    refreshes: Mapped[UUID | None]

    @property
    def unit_rows(self) -> int:
        """Largest number of rows of a person; 1 where a row is protected."""
        unit = self.privacy_unit
        return int(unit["max_rows"]) if isinstance(unit, dict) else 1

    @property
    def units(self) -> int:
        """Number of persons, or of rows where a row is protected."""
        return self.rows // self.unit_rows

    @property
    def unit(self) -> str:
        """The privacy unit: the column of persons, or "row"."""
        unit = self.privacy_unit
        return str(unit["column"]) if isinstance(unit, dict) else "row"

    @property
    def protects(self) -> dict[str, Any]:
        """Whom every epsilon protects, as in answers of the API."""
        return {"unit": self.unit, "max_rows": self.unit_rows}


class FingerprintRow(Base):
    """An upload's encrypted fingerprint, kept after its rows are destroyed."""

    __tablename__ = "fingerprints"

    dataset_id: Mapped[UUID] = mapped_column(primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)


class GrantRow(Base):
    """An analyst's access to a restricted dataset."""

    __tablename__ = "grants"

    dataset_id: Mapped[UUID] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class AccessRequestRow(Base):
    """An analyst's request for a dataset, or for more budget.

    dataset_id: of a dataset that the analyst may see; dataset_name: of one by the name that the
    analyst knows it by, which says nothing of whether there is one; one of the two. epsilon: the
    budget that was asked for. job: the job that it is for, as `POST /v1/plans` takes it. answer:
    the admin's. granted: what was changed.
    """

    __tablename__ = "access_requests"
    __table_args__ = (
        CheckConstraint(one_of("status", REQUEST_STATUSES), name="status"),
        Index(None, "created_at", "id"),
        Index(None, "user_id", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"))
    dataset_id: Mapped[UUID | None] = mapped_column(ForeignKey("datasets.id"))
    dataset_name: Mapped[str | None] = mapped_column(String(200))
    epsilon: Mapped[float | None]
    reason: Mapped[str] = mapped_column(Text)
    job: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    status: Mapped[str] = mapped_column(String(10), default="open")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    decided_at: Mapped[datetime | None]
    decided_by: Mapped[UUID | None] = mapped_column(ForeignKey("users.id"))
    answer: Mapped[str | None] = mapped_column(Text)
    granted: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class NoticeRow(Base):
    """A queued mail about an access request.

    user_id: whom by mail; None: to the webhook. status: of the request, as the message tells it.
    due_at: when to try, again where it was tried before.
    """

    __tablename__ = "notices"
    __table_args__ = (Index(None, "due_at"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    request_id: Mapped[UUID] = mapped_column(ForeignKey("access_requests.id"))
    status: Mapped[str] = mapped_column(String(10))
    user_id: Mapped[UUID | None] = mapped_column(ForeignKey("users.id"))
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(default=utc_now)


class LedgerHeadRow(Base):
    """The end of a dataset's ledger: the row that every debit locks.

    seq, hash: of the last entry. terms, posted, reserved: canonical JSON of the filter's terms and
    of its exact integer sums (decimal strings). jobs: how many hold budget. allotments: canonical
    JSON, analyst -> that analyst's own cap and sums. They live in this one row so that locking it
    once gives a decision everything it needs. Only app.ledger writes it; the database
    lets seq go forward by one only.
    """

    __tablename__ = "ledger_heads"
    __table_args__ = (
        CheckConstraint("seq >= 1", name="seq"),
        CheckConstraint("jobs >= 0", name="jobs"),
        CheckConstraint(one_of("status", ACCOUNT_STATUSES), name="status"),
    )

    dataset_id: Mapped[UUID] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger)
    hash: Mapped[str] = mapped_column(String(64))
    status: Mapped[str] = mapped_column(String(20))
    terms: Mapped[str] = mapped_column(Text)
    posted: Mapped[str] = mapped_column(Text)
    reserved: Mapped[str] = mapped_column(Text)
    allotments: Mapped[str] = mapped_column(Text)
    jobs: Mapped[int] = mapped_column(BigInteger)


class LedgerRow(Base):
    """An immutable ledger entry. The database refuses UPDATE and DELETE.

    cost: what a reserve, post, void or return moves. total: posted plus reserved after this entry.
    event: what was reserved, and of a return what was drawn.
    actor_id: who asked. There is no foreign key to users on purpose: it would lock the user's row
    while the head is held, and jobs carry one already.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint("seq >= 1", name="seq"),
        CheckConstraint(one_of("kind", ENTRY_KINDS), name="kind"),
        CheckConstraint(f"({one_of('kind', OF_JOBS)}) = (job_id IS NOT NULL)", name="job"),
        Index("uq_ledger_entries_job_id_kind", "job_id", "kind", "dataset_id", unique=True),
        Index(
            "uq_ledger_entries_settled_once",
            "job_id",
            "dataset_id",
            unique=True,
            sqlite_where=text("kind IN ('post', 'void')"),
            postgresql_where=text("kind IN ('post', 'void')"),
        ),
    )

    dataset_id: Mapped[UUID] = mapped_column(
        ForeignKey("ledger_heads.dataset_id"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(20))
    actor_id: Mapped[UUID | None]
    job_id: Mapped[UUID | None] = mapped_column(ForeignKey("jobs.id"))
    analyst_id: Mapped[UUID | None]
    event: Mapped[str | None] = mapped_column(Text)
    event_digest: Mapped[str | None] = mapped_column(String(64))
    cost: Mapped[str | None] = mapped_column(Text)
    total: Mapped[str] = mapped_column(Text)
    details: Mapped[str] = mapped_column(Text)
    previous: Mapped[str] = mapped_column(String(64))
    hash: Mapped[str] = mapped_column(String(64))


class AuditRow(Base):
    """An immutable entry of the audit trail, inserted by app.ledger.audit only.

    Ids have no foreign keys, for the reasons of LedgerRow's and because acts may name what is gone.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (CheckConstraint("seq >= 1", name="seq"), Index(None, "user_id", "seq"))

    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    action: Mapped[str] = mapped_column(String(40))
    actor_id: Mapped[UUID | None]
    key_id: Mapped[UUID | None]
    address: Mapped[str | None] = mapped_column(String(64))
    subject_id: Mapped[UUID | None]
    user_id: Mapped[UUID | None]
    details: Mapped[str] = mapped_column(Text)
    previous: Mapped[str] = mapped_column(String(64))
    hash: Mapped[str] = mapped_column(String(64))


class JobRow(Base):
    """A job: its authoritative state; broker messages are hints.

    spec: as submitted; resolved: as planned and paid for. attempt counts claims and token is the
    fence: every write of a worker names both owner and token. published_at: when the id was last
    handed to the broker. released_attempt: whose chain blocks are visible, set once with succeeded.
    reserved_until: when an unclaimed reservation lapses (None: never). traceparent: the span in
    which it was submitted, where traces are made. epsilon, mu: what it costs; of one that stopped
    early what it drew, beside reserved_epsilon and reserved_mu, all that was debited. reasons: why
    the planner chose the algorithm, where that was left to it. key_id: of the key that it was
    submitted with. verdict: on what it released, with its summary. expired_at: when its draws were
    deleted, after their time. protects: whom its epsilon protects; None: a row. name, note: its
    analyst's own words for it.

    spec, event and summary are read when they are asked for: most readers need none of them.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(one_of("status", JOB_STATUSES), name="status"),
        CheckConstraint("attempt >= 0 AND token >= 0", name="attempt"),
        CheckConstraint("(owner IS NULL) = (lease_until IS NULL)", name="lease"),
        CheckConstraint("status <> 'running' OR attempt >= 1", name="running_claimed"),
        CheckConstraint("(status = 'succeeded') = (released_attempt IS NOT NULL)", name="released"),
        CheckConstraint(
            f"({one_of('status', FINAL_STATUSES)}) = (finished_at IS NOT NULL)", name="finished"
        ),
        CheckConstraint("(idempotency_key IS NULL) = (body_hash IS NULL)", name="idempotency"),
        CheckConstraint("progress_step >= 0 AND progress_step <= progress_of", name="progress"),
        UniqueConstraint("user_id", "idempotency_key"),
        Index(None, "user_id", "created_at", "id"),
        Index(None, "created_at", "id"),
        Index(None, "status", "lease_until"),
        Index(None, "status", "published_at"),
        Index(None, "status", "user_id", "created_at", "id"),
        Index(None, "user_id", "started_at"),
        Index(None, "dataset_id", "created_at"),
        Index(None, "key_id", "status"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"))
    dataset_id: Mapped[UUID] = mapped_column(ForeignKey("datasets.id"))
    status: Mapped[str] = mapped_column(String(20), default="queued")
    spec: Mapped[dict[str, Any]] = mapped_column(JSON, deferred=True)
    resolved: Mapped[dict[str, Any]] = mapped_column(JSON)
    event: Mapped[dict[str, Any]] = mapped_column(JSON, deferred=True)
    event_digest: Mapped[str] = mapped_column(String(64))
    epsilon: Mapped[float]
    delta: Mapped[float]
    mu: Mapped[float | None]
    reserved_epsilon: Mapped[float | None]
    reserved_mu: Mapped[float | None]
    key_id: Mapped[UUID | None]
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    body_hash: Mapped[str | None] = mapped_column(String(64))
    attempt: Mapped[int] = mapped_column(default=0, server_default="0")
    owner: Mapped[str | None] = mapped_column(String(200))
    token: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    lease_until: Mapped[datetime | None]
    published_at: Mapped[datetime | None]
    reserved_until: Mapped[datetime | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False, server_default=false())
    progress_step: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    progress_of: Mapped[int] = mapped_column(BigInteger)
    error_code: Mapped[str | None] = mapped_column(String(100))
    released_attempt: Mapped[int | None]
    summary: Mapped[dict[str, Any] | list[dict[str, Any]] | None] = mapped_column(
        JSON(none_as_null=True), deferred=True
    )
    verdict: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    traceparent: Mapped[str | None] = mapped_column(String(55))
    reasons: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    expired_at: Mapped[datetime | None]
    protects: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    name: Mapped[str | None] = mapped_column(String(200))
    note: Mapped[str | None] = mapped_column(Text)


class ReleaseRow(Base):
    """A succeeded job's stored release, for free posteriors.

    In a table of its own: of many coefficients it takes megabytes, and a list of jobs needs none.
    """

    __tablename__ = "releases"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    content: Mapped[dict[str, Any]] = mapped_column(JSON)


class ChainBlockRow(Base):
    """Released draws of one attempt, float64, little-endian, C order (chain, draw, parameter).

    first_draw, num_draws: which draws of every chain. Visible only while the job's released_attempt
    is this attempt.
    """

    __tablename__ = "chain_blocks"
    __table_args__ = (
        CheckConstraint("attempt >= 1 AND seq >= 0", name="place"),
        CheckConstraint("first_draw >= 0 AND num_draws >= 1", name="draws"),
    )

    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    first_draw: Mapped[int] = mapped_column(BigInteger)
    num_draws: Mapped[int]
    payload: Mapped[bytes] = mapped_column(LargeBinary)
