"""Debits: a decision and its entry in one transaction that holds the dataset's head.

Every function takes an open write transaction and never commits. The head row is locked first
(PostgreSQL: FOR UPDATE; SQLite: BEGIN IMMEDIATE before), so decisions on one dataset happen one
after the other. Comparisons are between whole numbers, rounded against the spender.
Nothing written here depends on private rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from operator import add
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.orm import Session

from app.ledger.codec import (
    canonical,
    entry_hash,
    genesis,
    read_cost,
    read_state,
    read_terms,
    write_cost,
    write_state,
    write_terms,
)
from app.ledger.errors import (
    AccountClosed,
    AlreadyReserved,
    BudgetExhausted,
    NotVoidable,
    UnknownAccount,
    UnknownReservation,
    Voided,
)
from app.storage.direct import Direct
from app.storage.engine import EARLY_RELEASE
from app.storage.prepared import Prepared
from app.storage.rows import DatasetRow, JobRow, LedgerHeadRow, LedgerRow
from app.storage.types import utc_now
from dpmcmc.privacy.events import Event, as_dict, digest
from dpmcmc.privacy.filter import EntryCost, FilterState, FilterTerms, entry_cost
from dpmcmc.privacy.types import Permit

HEADS, ENTRIES = cast(Table, LedgerHeadRow.__table__), cast(Table, LedgerRow.__table__)
DATASETS = cast(Table, DatasetRow.__table__)
# whose ledger a dataset is on: its own, or that of the first dataset of its population
LEDGER_OF = func.coalesce(DATASETS.c.ledger_id, DATASETS.c.id, type_=DATASETS.c.id.type)


@dataclass(frozen=True, slots=True)
class Allotment:
    """An analyst's own cap (epsilon at the dataset's delta) and the sums of that analyst's jobs."""

    epsilon: float
    held: FilterState


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a ledger, locked while a transaction decides.

    dataset_id: whose it is; of a population, its first dataset.
    """

    dataset_id: UUID
    seq: int
    hash: str
    status: str
    terms: FilterTerms
    posted: FilterState
    reserved: FilterState
    allotments: Mapping[str, Allotment]
    jobs: int

    @property
    def held(self) -> FilterState:
        """Posted and reserved together: a reservation counts fully."""
        return sum_of(self.posted, self.reserved)


def sum_of(one: FilterState, other: FilterState) -> FilterState:
    """Two states added up."""
    return FilterState(
        tuple(map(add, one.sums, other.sums)), tuple(map(add, one.unbounded, other.unbounded))
    )


@lru_cache(maxsize=1024)
def written(event: Event) -> tuple[str, str]:
    """An event's canonical text and its digest, remembered."""
    return canonical(as_dict(event)), digest(event)


@lru_cache(maxsize=1024)
def price(terms: FilterTerms, event: Event) -> EntryCost:
    """What an event costs under the terms, remembered: a plan has it ready for the reservation."""
    return entry_cost(terms, event)


def open_account(
    session: Session, dataset_id: UUID, terms: FilterTerms, actor_id: UUID | None
) -> None:
    """Open a new dataset's ledger with its promise; its first entry follows its genesis."""
    empty = FilterState.empty(terms)
    head = Head(dataset_id, 0, genesis(dataset_id), "open", terms, empty, empty, {}, 0)
    session.flush()
    details = {"terms": json.loads(write_terms(terms))}
    entry = _next(head, "open", details=details, actor_id=actor_id)
    session.execute(insert(HEADS).values(dataset_id=dataset_id, **_moved(head, entry)))
    session.execute(insert(ENTRIES).values(entry))


def reserve(
    debit: Direct,
    dataset_id: UUID,
    *,
    job_id: UUID,
    analyst_id: UUID,
    event: Event,
    until: datetime | None = None,
) -> None:
    """Hold an event's cost for a job, or refuse. The job's row is stored, or written before this.

    until: when the reservation lapses unless a worker has claimed the job (see `expire`).
    Raises UnknownAccount, AccountClosed, EventError (another neighbouring relation),
    BudgetExhausted (of the dataset, or of the analyst's allotment), and AlreadyReserved, which may
    come as late as with the commit.
    """
    text, name = written(event)
    head = _one_head(debit.rows(_LOCK_EARLY[debit.backend], {"at": dataset_id}))
    if head.status != "open":
        raise AccountClosed("the dataset takes no new jobs")
    cost = price(head.terms, event)
    moved = replace(
        head,
        reserved=head.reserved.add(cost),
        allotments=_allotted(head, analyst_id, cost),
        jobs=head.jobs + 1,
    )
    if not head.terms.accepts(moved.held):
        raise BudgetExhausted(head.terms, head.held, cost)
    details = {"until": until.isoformat()} if until else {}
    if head.dataset_id != dataset_id:
        details["dataset"] = str(dataset_id)
    fields = {
        "details": details,
        "actor_id": analyst_id,
        "job_id": job_id,
        "analyst_id": analyst_id,
        "event": text,
        "event_digest": name,
        "cost": write_cost(cost),
    }
    refusal = AlreadyReserved("the job is not stored, or has a reservation")
    values = _written(moved, "reserve", **fields)
    for statement in _WRITES[debit.backend]:
        debit.write(statement, values, instead=refusal)


def _allotted(head: Head, analyst_id: UUID, cost: EntryCost) -> Mapping[str, Allotment]:
    """The allotments after one more entry of this analyst. Raises BudgetExhausted."""
    own = head.allotments.get(str(analyst_id))
    if own is None:
        return head.allotments
    terms, held = replace(head.terms, epsilon=own.epsilon), own.held.add(cost)
    if not terms.accepts(held):
        raise BudgetExhausted(terms, own.held, cost, allotment=True)
    return {**head.allotments, str(analyst_id): Allotment(own.epsilon, held)}


def post(session: Session, job_id: UUID, *, actor_id: UUID | None = None) -> Permit:
    """Turn a job's reservation into a debit for good, and hand out what opens the rows.

    Idempotent: a later attempt of the same job gets the same permit without a second debit.
    Raises UnknownReservation, Voided, and AccountClosed where the rows are destroyed.
    """
    head = _locked_by_job(session, job_id)
    entries = _settlement(session, job_id)
    reserved = entries["reserve"]
    if "void" in entries:
        raise Voided("the job's reservation was given back")
    if head.status == "destroyed":
        raise AccountClosed("the dataset's rows are destroyed")
    if "post" not in entries:
        cost = read_cost(reserved.cost)
        moved = replace(head, posted=head.posted.add(cost), reserved=head.reserved.remove(cost))
        append(session, moved, "post", actor_id=actor_id, **_same(reserved))
    subject = json.loads(reserved.details).get("dataset", str(head.dataset_id))
    return Permit(subject=subject, event_digest=reserved.event_digest)


def void(session: Session, job_id: UUID, *, reason: str, actor_id: UUID | None = None) -> None:
    """Give a reservation back, while no worker has ever claimed the job. Idempotent.

    reason: a public word such as "cancelled". Raises UnknownReservation, and NotVoidable once the
    job was claimed or posted: then nothing is given back.
    """
    # no key update: a post waits for nobody's job while it holds the head
    job = select(JobRow.attempt).where(JobRow.id == job_id).with_for_update(key_share=True)
    claimed = session.scalar(job)
    head = _locked_by_job(session, job_id)
    entries = _settlement(session, job_id)
    if "void" in entries:
        return
    if "post" in entries or claimed:
        raise NotVoidable("the job was claimed: its debit stays")
    reserved = entries["reserve"]
    cost = read_cost(reserved.cost)
    moved = replace(
        head,
        reserved=head.reserved.remove(cost),
        allotments=_returned(head, reserved.analyst_id, cost),
        jobs=head.jobs - 1,
    )
    details = {"reason": reason}
    append(session, moved, "void", details=details, actor_id=actor_id, **_same(reserved))


def _returned(head: Head, analyst_id: UUID, cost: EntryCost) -> Mapping[str, Allotment]:
    own = head.allotments.get(str(analyst_id))
    if own is None:
        return head.allotments
    return {**head.allotments, str(analyst_id): replace(own, held=own.held.remove(cost))}


def expire(session: Session, now: datetime, limit: int = 100) -> list[UUID]:
    """Void reservations past their time whose jobs no worker has claimed.

    Returns the jobs' ids, their rows locked: the caller marks them cancelled in this transaction.
    """
    lapsed = (
        select(JobRow.id)
        .where(JobRow.status == "queued", JobRow.attempt == 0, JobRow.reserved_until < now)
        .order_by(JobRow.dataset_id, JobRow.id)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    jobs = list(session.scalars(lapsed))
    for job_id in jobs:
        void(session, job_id, reason="expired")
    return jobs


def ledger_of(dataset_ids: Sequence[UUID]) -> Select[Any]:
    """The heads of datasets' ledgers, each with the dataset that it was asked for in `of`."""
    return (
        select(DATASETS.c.id.label("of"), *HEADS.columns)
        .join_from(DATASETS, HEADS, HEADS.c.dataset_id == LEDGER_OF)
        .where(DATASETS.c.id.in_(dataset_ids))
    )


def locked(session: Session, dataset_id: UUID) -> Head:
    """A dataset's head, held until the transaction ends. Raises UnknownAccount."""
    return _one_head(_LOCK.run(session, {"at": dataset_id}))


def _locked_by_job(session: Session, job_id: UUID) -> Head:
    """The head of the dataset that a job's reservation is on, held until the transaction ends.

    Where the session waits for the disk after its commit (`SessionFactory.debit`), PostgreSQL is
    told so in the same round trip.
    """
    early = session.info.get(EARLY_RELEASE)
    return _one_head((_LOCK_BY_JOB_EARLY if early else _LOCK_BY_JOB).run(session, {"at": job_id}))


def _one_head(rows: list[Any]) -> Head:
    if not rows:
        raise UnknownAccount("no ledger was opened for this")
    return head_of(rows[0])


def head_of(row: Any) -> Head:
    """A head's row, decoded."""
    return Head(
        row.dataset_id,
        row.seq,
        row.hash,
        row.status,
        read_terms(row.terms),
        read_state(row.posted),
        read_state(row.reserved),
        read_allotments(row.allotments),
        row.jobs,
    )


@lru_cache(maxsize=64)
def read_allotments(text: str) -> Mapping[str, Allotment]:
    """The allotments that a head stores."""
    fields = json.loads(text)
    return MappingProxyType(
        {
            analyst: Allotment(own["epsilon"], read_state(canonical(own["held"])))
            for analyst, own in fields.items()
        }
    )


def write_allotments(allotments: Mapping[str, Allotment]) -> str:
    """Allotments as canonical text."""
    return canonical(
        {
            analyst: {"epsilon": own.epsilon, "held": json.loads(write_state(own.held))}
            for analyst, own in allotments.items()
        }
    )


def _settlement(session: Session, job_id: UUID) -> dict[str, Any]:
    """A job's entries by kind, read while its head is held."""
    rows = _OF_JOB.run(session, {"at": job_id})
    entries = {row.kind: row for row in rows}
    if "reserve" not in entries:
        raise UnknownReservation("nothing was reserved for this job")
    return entries


def _same(reserved: Any) -> dict[str, Any]:
    """What a post or void repeats of its reservation."""
    return {
        name: getattr(reserved, name) for name in ("job_id", "analyst_id", "event_digest", "cost")
    }


def append(session: Session, head: Head, kind: str, **fields: Any) -> None:
    """Write the next entry and the moved head: one statement on PostgreSQL, two on SQLite."""
    values = _written(head, kind, **fields)
    for statement in _WRITES[session.get_bind().dialect.name]:
        statement.run(session, values)


def _written(head: Head, kind: str, **fields: Any) -> dict[str, Any]:
    """What the statements of `_WRITES` take: the next entry, and the head after it."""
    entry = _next(head, kind, **fields)
    return {**entry, **{_TO[name]: value for name, value in _moved(head, entry).items()}}


def _next(
    head: Head, kind: str, details: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """The entry that follows a head whose sums are moved already."""
    entry = {
        **_BLANK,
        **fields,
        "dataset_id": head.dataset_id,
        "seq": head.seq + 1,
        "at": utc_now(),
        "kind": kind,
        "total": write_state(head.held),
        "details": canonical(details) if details else "{}",
        "previous": head.hash,
    }
    entry["hash"] = entry_hash(entry)
    return entry


def _moved(head: Head, entry: dict[str, Any]) -> dict[str, Any]:
    """The head's columns once the entry is its last."""
    return {
        "seq": entry["seq"],
        "hash": entry["hash"],
        "status": head.status,
        "terms": write_terms(head.terms),
        "posted": write_state(head.posted),
        "reserved": write_state(head.reserved),
        "allotments": write_allotments(head.allotments) if head.allotments else "{}",
        "jobs": head.jobs,
    }


_BLANK: dict[str, Any] = dict.fromkeys(column.name for column in ENTRIES.columns)
_TO = {column.name: f"to_{column.name}" for column in HEADS.columns}
_AT = bindparam("at", type_=HEADS.c.dataset_id.type)
_EARLY: ColumnElement[str] = literal_column("set_config('synchronous_commit', 'off', true)").label(
    "early"
)
_RESERVED_ON = (
    select(ENTRIES.c.dataset_id)
    .where(ENTRIES.c.job_id == _AT, ENTRIES.c.kind == "reserve")
    .scalar_subquery()
)
_LEDGER = select(LEDGER_OF).where(DATASETS.c.id == _AT).scalar_subquery()
_OF_DATASET = select(HEADS).where(HEADS.c.dataset_id == _LEDGER).with_for_update(of=HEADS)
_ON_JOB = select(HEADS).where(HEADS.c.dataset_id == _RESERVED_ON).with_for_update(of=HEADS)
_MOVE = (
    update(HEADS)
    .where(HEADS.c.dataset_id == bindparam("dataset_id"))
    .values({c: bindparam(_TO[c.name]) for c in HEADS.columns if c.name != "dataset_id"})
)
_ADD = insert(ENTRIES).values({c: bindparam(c.name) for c in ENTRIES.columns})

_LOCK = Prepared(_OF_DATASET)
_LOCK_EARLY = {"sqlite": _LOCK, "postgresql": Prepared(_OF_DATASET.add_columns(_EARLY))}
_LOCK_BY_JOB, _LOCK_BY_JOB_EARLY = Prepared(_ON_JOB), Prepared(_ON_JOB.add_columns(_EARLY))
_OF_JOB = Prepared(select(ENTRIES).where(ENTRIES.c.job_id == _AT))
_WRITES = {
    "sqlite": (Prepared(_MOVE), Prepared(_ADD)),
    "postgresql": (Prepared(_ADD.add_cte(_MOVE.cte("moved"))),),
}
