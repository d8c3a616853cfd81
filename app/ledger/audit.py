"""The audit trail: administrative acts as a hash chain.

Entries are written in the transaction of the act itself, last of all, so that the lock which keeps
two writers apart (PostgreSQL; on SQLite there is one writer) is held for a moment only. The
database refuses to change or delete them. Nothing in an entry is a row, a key or an upload's
values; that two uploads hold the same rows is told here, to admins and auditors.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from app.ledger.codec import canonical
from app.ledger.verify import Verification
from app.storage.locks import AUDIT, take
from app.storage.rows import AuditRow
from app.storage.types import utc_now

ENTRIES = cast(Table, AuditRow.__table__)
GENESIS = hashlib.sha256(b"dpmcmc audit 1").hexdigest()
HASHED_FIELDS = tuple(column.name for column in ENTRIES.columns if column.name != "hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An administrative act. subject_id: its object; user_id: the user it concerns.

    actor_id: None for the service itself. key_id, address: with which key and from where it came.
    """

    action: str
    actor_id: UUID | None
    key_id: UUID | None = None
    address: str | None = None
    subject_id: UUID | None = None
    user_id: UUID | None = None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A stored entry, with its details decoded."""

    seq: int
    at: datetime
    action: str
    actor_id: UUID | None
    key_id: UUID | None
    address: str | None
    subject_id: UUID | None
    user_id: UUID | None
    details: dict[str, Any]
    previous: str
    hash: str


def audit_hash(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of all fields but the hash."""
    plain = {name: _plain(fields[name]) for name in HASHED_FIELDS}
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value as JSON stores it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value


def record(session: Session, act: Act) -> None:
    """Append an entry, as the last statement of the act's transaction."""
    session.flush()
    take(session, AUDIT)
    seq, previous = end(session)
    entry = {
        "seq": seq + 1,
        "at": utc_now(),
        "action": act.action,
        "actor_id": act.actor_id,
        "key_id": act.key_id,
        "address": act.address,
        "subject_id": act.subject_id,
        "user_id": act.user_id,
        "details": canonical(dict(act.details)),
        "previous": previous,
    }
    session.execute(insert(ENTRIES).values({**entry, "hash": audit_hash(entry)}))


def end(session: Session) -> tuple[int, str]:
    """Return number and hash of the last entry; 0 and the genesis hash if there is none."""
    last = select(ENTRIES.c.seq, ENTRIES.c.hash).order_by(ENTRIES.c.seq.desc()).limit(1)
    last_row = session.execute(last).one_or_none()
    return (0, GENESIS) if last_row is None else (last_row.seq, last_row.hash)


def hash_at(session: Session, seq: int) -> str:
    """Return the hash of an entry; empty if there is none."""
    return session.scalar(select(ENTRIES.c.hash).where(ENTRIES.c.seq == seq)) or ""


def entries(
    session: Session, after_seq: int = 0, limit: int = 100, action: str | None = None
) -> list[AuditEntry]:
    """Return entries after `after_seq`, oldest first. action: filter."""
    query = select(ENTRIES).where(ENTRIES.c.seq > after_seq).order_by(ENTRIES.c.seq).limit(limit)
    if action is not None:
        query = query.where(ENTRIES.c.action == action)
    return [_entry(row) for row in session.execute(query)]


def concerning(session: Session, user_id: UUID, limit: int = 100) -> list[AuditEntry]:
    """Return other users' latest entries about a user, newest first."""
    query = (
        select(ENTRIES)
        .where(ENTRIES.c.user_id == user_id, ENTRIES.c.actor_id.is_distinct_from(user_id))
        .order_by(ENTRIES.c.seq.desc())
        .limit(limit)
    )
    return [_entry(row) for row in session.execute(query)]


def _entry(row: Any) -> AuditEntry:
    """Return an entry from its row."""
    fields = dict(row._mapping)
    return AuditEntry(**{**fields, "details": json.loads(row.details)})


def verify(session: Session, anchor: tuple[int, str] | None = None) -> Verification:
    """Verify the chain. Missing last entries are detected by an anchor only.

    anchor: (seq, hash) of an earlier end, kept elsewhere.
    """
    seq, previous = 0, GENESIS
    query = select(ENTRIES).order_by(ENTRIES.c.seq).execution_options(yield_per=1000)
    with session.execute(query) as rows:
        for row in rows:
            problem = _fault(row, seq, previous, anchor)
            if problem:
                return Verification(False, seq, end(session)[1], problem)
            seq, previous = row.seq, row.hash
    if anchor and anchor[0] > seq:
        return Verification(False, seq, previous, "entries that were anchored are missing")
    return Verification(True, seq, previous)


def _fault(row: Any, seq: int, previous: str, anchor: tuple[int, str] | None) -> str | None:
    """Return the fault of an entry, or None."""
    place = f"entry {seq + 1}"
    if row.seq != seq + 1:
        return f"{place}: missing"
    if row.previous != previous:
        return f"{place}: does not follow the one before it"
    if row.hash != audit_hash(row._mapping):
        return f"{place}: changed since it was written"
    if anchor and anchor[0] == row.seq and anchor[1] != row.hash:
        return f"{place}: not the one that was anchored"
    return None
