"""Debits: each decision and its entry in one transaction, which locks the ledger's head.

Every function takes an open write transaction and never commits. The head row is locked first
(PostgreSQL: FOR UPDATE; SQLite: BEGIN IMMEDIATE before), so decisions on one dataset happen one
after the other. A job on a pooled dataset is an entry of its ledger and of each holder's: their
heads are locked in the order of their ids, and all of them allow the job or none has an entry.
Comparisons are between whole numbers, rounded against the spender.
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

from sqlalchemy import Result, Select, Table, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError
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
    NotDrawn,
    NotVoidable,
    UnknownAccount,
    UnknownReservation,
    Voided,
)
from app.storage.rows import DatasetRow, JobRow, LedgerHeadRow, LedgerRow
from app.storage.types import utc_now
from dpmcmc.base.private import Permit
from dpmcmc.privacy.drawn import begins
from dpmcmc.privacy.event_json import as_dict, digest, from_dict
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.filter import EntryCost, FilterState, FilterTerms, entry_cost

HEADS, ENTRIES = cast(Table, LedgerHeadRow.__table__), cast(Table, LedgerRow.__table__)
DATASETS = cast(Table, DatasetRow.__table__)
# whose ledger a dataset is on: its own, or that of the first dataset of its population
LEDGER_OF = func.coalesce(DATASETS.c.ledger_id, DATASETS.c.id, type_=DATASETS.c.id.type)


@dataclass(frozen=True, slots=True)
class Allotment:
    """An analyst's cap (epsilon at the dataset's delta), and the sums of that analyst's jobs."""

    epsilon: float
    held: FilterState


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a ledger, locked by the present transaction.

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
        """Return posted and reserved costs together."""
        return sum_of(self.posted, self.reserved)


def sum_of(first: FilterState, second: FilterState) -> FilterState:
    """Return the sum of two states."""
    return FilterState(
        tuple(map(add, first.sums, second.sums)), tuple(map(add, first.unbounded, second.unbounded))
    )


@lru_cache(maxsize=1024)
def written(event: Event) -> tuple[str, str]:
    """Return an event's canonical JSON and its digest, cached."""
    return canonical(as_dict(event)), digest(event)


@lru_cache(maxsize=1024)
def price(terms: FilterTerms, event: Event) -> EntryCost:
    """Return the cost of an event under the terms, cached from the plan."""
    return entry_cost(terms, event)


def open_account(
    session: Session,
    dataset_id: UUID,
    terms: FilterTerms,
    actor_id: UUID | None,
    recorded: Mapping[str, Any] | None = None,
) -> None:
    """Open a dataset's ledger with its privacy terms, as its first entry.

    recorded: what else its first entry says (JSON values).
    """
    empty = FilterState.empty(terms)
    head = Head(dataset_id, 0, genesis(dataset_id), "open", terms, empty, empty, {}, 0)
    session.flush()
    details = {**(recorded or {}), "terms": json.loads(write_terms(terms))}
    entry = _next(head, "open", details=details, actor_id=actor_id)
    session.execute(insert(HEADS), {"dataset_id": dataset_id, **_moved(head, entry)})
    session.execute(_ADD_ENTRY, entry)


def reserve(
    session: Session,
    dataset_id: UUID,
    *,
    job_id: UUID,
    analyst_id: UUID,
    event: Event,
    until: datetime | None = None,
) -> None:
    """Reserve an event's cost for a stored job. Raises BudgetExhausted or AccountClosed.

    until: when the reservation lapses unless a worker has claimed the job (see `expire`).
    Raises UnknownAccount, AccountClosed, EventError (another neighbouring relation),
    BudgetExhausted (of the dataset, or of the analyst's allotment), and AlreadyReserved.
    """
    text, name = written(event)
    heads = _locked_for_jobs(session, dataset_id)
    for head, moved, cost in [_reserved(head, analyst_id, event) for head in heads]:
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
        try:
            append(session, moved, "reserve", **fields)
        except IntegrityError:
            raise AlreadyReserved("the job is not stored, or has a reservation") from None


def _reserved(head: Head, analyst_id: UUID, event: Event) -> tuple[Head, Head, EntryCost]:
    """Return head, head with the cost reserved, and the cost. Raises as `reserve`."""
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
    return head, moved, cost


def _allotted(head: Head, analyst_id: UUID, cost: EntryCost) -> Mapping[str, Allotment]:
    """Return the allotments with this analyst's entry added. Raises BudgetExhausted."""
    allotment = head.allotments.get(str(analyst_id))
    if allotment is None:
        return head.allotments
    terms, held = replace(head.terms, epsilon=allotment.epsilon), allotment.held.add(cost)
    if not terms.accepts(held):
        raise BudgetExhausted(terms, allotment.held, cost, allotment=True)
    return {**head.allotments, str(analyst_id): Allotment(allotment.epsilon, held)}


def post(session: Session, job_id: UUID, *, actor_id: UUID | None = None) -> Permit:
    """Turn a job's reservation into a final debit; return the permit for the rows.

    Idempotent: a later attempt of the same job gets a permit of its own without a second debit.
    Raises UnknownReservation, Voided, and AccountClosed where the rows are destroyed.
    """
    heads = _locked_by_job(session, job_id)
    settled = _settlement(session, job_id)
    if any("void" in entries for entries in settled.values()):
        raise Voided("the job's reservation was given back")
    if any(head.status == "destroyed" for head in heads):
        raise AccountClosed("the dataset's rows are destroyed")
    for head in heads:
        reserved = settled[head.dataset_id]["reserve"]
        if "post" not in settled[head.dataset_id]:
            cost = read_cost(reserved.cost)
            moved = replace(head, posted=head.posted.add(cost), reserved=head.reserved.remove(cost))
            append(session, moved, "post", actor_id=actor_id, **_same(reserved))
    reservation = settled[heads[0].dataset_id]["reserve"]
    subject = json.loads(reservation.details).get("dataset", str(reservation.dataset_id))
    return Permit(subject=subject, event_digest=reservation.event_digest)


def void(session: Session, job_id: UUID, *, reason: str, actor_id: UUID | None = None) -> None:
    """Release the reservation of a job that no worker has claimed. Idempotent.

    reason: a public word such as "cancelled". Raises UnknownReservation, and NotVoidable once the
    job was claimed or posted: then nothing is given back.
    """
    # no key update: a post waits for nobody's job while it holds the head
    job = select(JobRow.attempt).where(JobRow.id == job_id).with_for_update(key_share=True)
    claimed = session.scalar(job)
    heads = _locked_by_job(session, job_id)
    settled = _settlement(session, job_id)
    if all("void" in entries for entries in settled.values()):
        return
    if claimed or any("post" in entries for entries in settled.values()):
        raise NotVoidable("the job was claimed: its debit stays")
    for head in heads:
        reserved = settled[head.dataset_id]["reserve"]
        cost = read_cost(reserved.cost)
        moved = replace(
            head,
            reserved=head.reserved.remove(cost),
            allotments=_returned(head, reserved.analyst_id, cost),
            jobs=head.jobs - 1,
        )
        details = {"reason": reason}
        append(session, moved, "void", details=details, actor_id=actor_id, **_same(reserved))


def return_rest(session: Session, job_id: UUID, drawn: Event) -> None:
    """Refund what a job that stopped early did not draw. Idempotent.

    drawn: how the reserved event began, and nothing more happened to the rows; only of a job's
    first attempt can that be known. The debit is then exactly what the drawn event costs.
    Raises UnknownReservation, and NotDrawn where nothing was posted, or the drawn event is not how
    the reserved one begins: then nothing is given back.
    """
    heads = _locked_by_job(session, job_id)
    settled = _settlement(session, job_id)
    reserved = settled[heads[0].dataset_id]["reserve"]
    if not begins(from_dict(json.loads(reserved.event)), drawn):
        raise NotDrawn("what was drawn is not how the reserved event begins")
    if not all("post" in entries for entries in settled.values()):
        raise NotDrawn("nothing was debited")
    text, name = written(drawn)
    for head in heads:
        entries = settled[head.dataset_id]
        if "return" in entries:
            if entries["return"].event_digest != name:
                raise NotDrawn("something else was said to have been drawn before")
            continue
        rest = read_cost(entries["post"].cost).beyond(price(head.terms, drawn))
        analyst_id = entries["reserve"].analyst_id
        moved = replace(
            head,
            posted=head.posted.remove(rest),
            allotments=_returned(head, analyst_id, rest),
        )
        fields = {"job_id": job_id, "analyst_id": analyst_id, "event": text, "event_digest": name}
        append(session, moved, "return", cost=write_cost(rest), **fields)


def _returned(head: Head, analyst_id: UUID, cost: EntryCost) -> Mapping[str, Allotment]:
    """Return the allotments with this analyst's refund."""
    allotment = head.allotments.get(str(analyst_id))
    if allotment is None:
        return head.allotments
    held = allotment.held.remove(cost)
    return {**head.allotments, str(analyst_id): replace(allotment, held=held)}


def expire(session: Session, now: datetime, limit: int = 100) -> list[UUID]:
    """Void expired reservations of unclaimed jobs; return the jobs' ids.

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
    hold(session, jobs)
    for job_id in jobs:
        void(session, job_id, reason="expired")
    return jobs


def hold(session: Session, job_ids: Sequence[UUID]) -> None:
    """Lock the ledgers of several jobs, in a fixed order.

    In the order of their ids, as everybody does who needs more than one: nobody waits in a circle.
    """
    session.execute(_OF_JOBS, {"jobs": job_ids}).all()


def hold_pool(session: Session, dataset_id: UUID) -> None:
    """Lock the ledgers of a dataset and of its holders, in a fixed order."""
    session.execute(_OF_POOL, {"named": dataset_id}).all()


def ledger_of(session: Session, dataset_ids: Sequence[UUID]) -> Result[Any]:
    """Query the heads of datasets' ledgers. Column `of`: the requested dataset."""
    return session.execute(_LEDGER_OF, {"datasets": dataset_ids})


def holders_of(session: Session, dataset_ids: Sequence[UUID]) -> Result[Any]:
    """Query the heads of holders' ledgers. Column `of`: the pooled dataset."""
    return session.execute(_HOLDERS_OF, {"datasets": dataset_ids})


def locked(session: Session, dataset_id: UUID) -> Head:
    """Return a ledger's head, locked until the transaction ends. Raises UnknownAccount."""
    return _found_head(session.execute(_OF_DATASET, {"named": dataset_id}).one_or_none())


def _locked_for_jobs(session: Session, dataset_id: UUID) -> list[Head]:
    """Return the heads that a dataset's jobs debit, locked until the transaction ends.

    Raises UnknownAccount.
    """
    return _all_found(session.execute(_OF_POOL, {"named": dataset_id}))


def _locked_by_job(session: Session, job_id: UUID) -> list[Head]:
    """Return the heads of a job's reservation, locked until the transaction ends."""
    return _all_found(session.execute(_OF_JOB, {"job": job_id}))


def _all_found(rows: Result[Any]) -> list[Head]:
    """Return the heads. Raises UnknownAccount where there is none."""
    heads = [head_of(row) for row in rows]
    if not heads:
        raise UnknownAccount("no ledger was opened for this")
    return heads


def _found_head(row: Any) -> Head:
    """Return a head from its row. Raises UnknownAccount where there is none."""
    if row is None:
        raise UnknownAccount("no ledger was opened for this")
    return head_of(row)


def head_of(row: Any) -> Head:
    """Return a head decoded from its row."""
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
    """Return the allotments stored in a head."""
    fields = json.loads(text)
    return MappingProxyType(
        {
            analyst: Allotment(stored["epsilon"], read_state(canonical(stored["held"])))
            for analyst, stored in fields.items()
        }
    )


def write_allotments(allotments: Mapping[str, Allotment]) -> str:
    """Return allotments as canonical JSON."""
    return canonical(
        {
            analyst: {"epsilon": allotment.epsilon, "held": json.loads(write_state(allotment.held))}
            for analyst, allotment in allotments.items()
        }
    )


def _settlement(session: Session, job_id: UUID) -> dict[UUID, dict[str, Any]]:
    """Return a job's entries by ledger and kind, while the heads are locked."""
    rows_of: dict[UUID, dict[str, Any]] = {}
    for row in session.execute(_OF_ONE_JOB, {"job": job_id}):
        rows_of.setdefault(row.dataset_id, {})[row.kind] = row
    if not rows_of or not all("reserve" in entries for entries in rows_of.values()):
        raise UnknownReservation("nothing was reserved for this job")
    return rows_of


def _same(reserved: Any) -> dict[str, Any]:
    """Return the fields that a post or void copies from its reservation."""
    return {
        name: getattr(reserved, name) for name in ("job_id", "analyst_id", "event_digest", "cost")
    }


def append(session: Session, head: Head, kind: str, **fields: Any) -> None:
    """Insert the next entry and update the head."""
    entry = _next(head, kind, **fields)
    session.execute(_ADD_ENTRY, entry)
    session.execute(_MOVE_HEAD, {"at": head.dataset_id, **_moved(head, entry)})


def _next(
    head: Head, kind: str, details: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the entry after a head, whose sums are updated already."""
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
    """Return the head's columns after the entry."""
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


def _locking(ledger_id: Select[Any]) -> Select[Any]:
    """Return the query that locks ledgers' heads in order of their ids."""
    named = HEADS.c.dataset_id.in_(ledger_id)
    return select(HEADS).where(named).order_by(HEADS.c.dataset_id).with_for_update(of=HEADS)


# made once, and given their values as parameters: most of them run while a head is held
_LEDGER_OF = (
    select(DATASETS.c.id.label("of"), *HEADS.columns)
    .join_from(DATASETS, HEADS, HEADS.c.dataset_id == LEDGER_OF)
    .where(DATASETS.c.id.in_(bindparam("datasets", expanding=True)))
)
_HOLDERS_OF = (
    select(DATASETS.c.pool_id.label("of"), *HEADS.columns)
    .join_from(DATASETS, HEADS, HEADS.c.dataset_id == LEDGER_OF)
    .where(DATASETS.c.pool_id.in_(bindparam("datasets", expanding=True)))
    .order_by(HEADS.c.dataset_id)
)
_OF_ONE_JOB = select(ENTRIES).where(ENTRIES.c.job_id == bindparam("job"))
_OF_DATASET = _locking(select(LEDGER_OF).where(DATASETS.c.id == bindparam("named")))
_OF_POOL = _locking(
    select(LEDGER_OF).where(
        (DATASETS.c.id == bindparam("named")) | (DATASETS.c.pool_id == bindparam("named"))
    )
)
_OF_JOB = _locking(
    select(ENTRIES.c.dataset_id).where(
        ENTRIES.c.job_id == bindparam("job"), ENTRIES.c.kind == "reserve"
    )
)
_OF_JOBS = _locking(
    select(ENTRIES.c.dataset_id).where(
        ENTRIES.c.job_id.in_(bindparam("jobs", expanding=True)), ENTRIES.c.kind == "reserve"
    )
)
_ADD_ENTRY = insert(ENTRIES)
_MOVE_HEAD = update(HEADS).where(HEADS.c.dataset_id == bindparam("at"))
_BLANK: dict[str, Any] = dict.fromkeys(column.name for column in ENTRIES.columns)
