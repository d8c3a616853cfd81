"""Reading ledgers: balances, entries and history. Public facts only."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.ledger.account import ENTRIES, Allotment, Head, head_of, holders_of, ledger_of, price
from app.ledger.codec import read_state, read_terms, write_terms
from app.ledger.errors import UnknownAccount
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.filter import (
    EntryCost,
    FilterState,
    FilterTerms,
    failure_left,
    mu_limit,
    remaining_epsilon,
    remaining_pure_epsilon,
    spent_epsilon,
)


@dataclass(frozen=True, slots=True)
class Balance:
    """The budget of a dataset or population. Epsilons are composed, at its delta.

    gdp_weight, renyi, failure_weight: the shares of delta, see FilterTerms. spent: posted jobs.
    reserved: reservations alone. remaining: the largest Gaussian job that still fits beside both,
    remaining_pure: of pure epsilon, remaining_failure: the probability with which jobs may fail.
    mu_total: what the GDP branch allows in all (0: it is off). mu_spent: of posted jobs; None
    where one has no GDP bound. jobs: how many hold budget. seq, head: number and hash of the last
    entry, to be kept elsewhere as an anchor for `verify`.
    """

    dataset_id: UUID
    status: str
    neighbouring: str
    epsilon: float
    delta: float
    gdp_weight: float
    renyi: tuple[tuple[float, float], ...]
    failure_weight: float
    spent_epsilon: float
    reserved_epsilon: float
    remaining_epsilon: float
    remaining_pure: float
    remaining_failure: float
    mu_total: float
    mu_spent: float | None
    jobs: int
    seq: int
    head: str


@dataclass(frozen=True, slots=True)
class Allotted:
    """An analyst's cap on a dataset, at the dataset's delta.

    spent: of this analyst's jobs, reservations included. remaining: the largest Gaussian job of
    this analyst's that fits both the cap and what the dataset has left, remaining_pure: of pure
    epsilon.
    """

    analyst_id: UUID
    epsilon: float
    spent_epsilon: float
    remaining_epsilon: float
    remaining_pure: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored ledger entry. hash: SHA-256 of the canonical JSON of `hashed`.

    event, cost, total, details: decoded; `hashed` has the stored text of each.
    """

    seq: int
    at: datetime
    kind: str
    actor_id: UUID | None
    job_id: UUID | None
    analyst_id: UUID | None
    event: dict[str, Any] | None
    event_digest: str | None
    cost: list[str | None] | None
    total: dict[str, Any]
    details: dict[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One step of the budget's history. epsilon_after: posted and reserved by then."""

    at: datetime
    job_id: UUID | None
    kind: str
    epsilon_after: float


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a reservation made now. Epsilons are computed on access.

    cost: of the event. views: terms, what is held and the cost, of the dataset and of the
    analyst's cap, and of a pooled dataset's holders.
    """

    affordable: bool
    cost: EntryCost
    views: tuple[tuple[FilterTerms, FilterState, EntryCost], ...]

    @property
    def epsilon(self) -> float:
        """Return the epsilon of the event alone; infinite where no branch bounds it."""
        terms = self.views[0][0]
        return spent_epsilon(terms, FilterState.empty(terms).add(self.cost))

    @property
    def bounded(self) -> bool:
        """Return whether some branch of the filter bounds the event."""
        return self.affordable or math.isfinite(self.epsilon)

    @property
    def remaining_after(self) -> float:
        """Return the remaining epsilon after the event."""
        return min(remaining_epsilon(terms, held.add(cost)) for terms, held, cost in self.views)


def _heads(session: Session, dataset_ids: Sequence[UUID]) -> dict[UUID, Head]:
    """Return the head of each dataset's ledger."""
    return {row.of: head_of(row) for row in ledger_of(session, dataset_ids)}


def _head(session: Session, dataset_id: UUID) -> Head:
    """Return the head of a dataset's ledger. Raises UnknownAccount."""
    try:
        return _heads(session, [dataset_id])[dataset_id]
    except KeyError:
        raise UnknownAccount("no ledger was opened for this") from None


def _holders(session: Session, dataset_ids: Sequence[UUID]) -> dict[UUID, list[Head]]:
    """Return the heads of pooled datasets' holders."""
    heads: dict[UUID, list[Head]] = {}
    for row in holders_of(session, dataset_ids):
        heads.setdefault(row.of, []).append(head_of(row))
    return heads


def _balance(dataset_id: UUID, head: Head, holders: Sequence[Head] = ()) -> Balance:
    """Return the balance of a head, limited by holders' ledgers."""
    terms, mu_spent = head.terms, head.posted.mu
    debited = [
        (head_of_holder.terms, head_of_holder.held) for head_of_holder in (head, *holders)
    ]  # by each job
    return Balance(
        dataset_id=dataset_id,
        status=head.status,
        neighbouring=terms.neighbouring.value,
        epsilon=terms.epsilon,
        delta=terms.delta,
        gdp_weight=terms.gdp_weight,
        renyi=terms.renyi,
        failure_weight=terms.failure_weight,
        spent_epsilon=spent_epsilon(terms, head.posted),
        reserved_epsilon=spent_epsilon(terms, head.reserved),
        remaining_epsilon=min(remaining_epsilon(*debit) for debit in debited),
        remaining_pure=min(remaining_pure_epsilon(*debit) for debit in debited),
        remaining_failure=min(failure_left(*debit) for debit in debited),
        mu_total=mu_limit(terms),
        mu_spent=mu_spent if math.isfinite(mu_spent) else None,
        jobs=head.jobs,
        seq=head.seq,
        head=head.hash,
    )


def balance(session: Session, dataset_id: UUID) -> Balance:
    """Return a dataset's present budget. Raises UnknownAccount."""
    head = _head(session, dataset_id)
    return _balance(dataset_id, head, _holders(session, [dataset_id]).get(dataset_id, ()))


def balances(session: Session, dataset_ids: Sequence[UUID]) -> dict[UUID, Balance]:
    """Return the budgets of several datasets; unknown ones are omitted."""
    return {at: balance for at, (balance, _) in budgets(session, dataset_ids).items()}


def terms_of(session: Session, dataset_id: UUID) -> FilterTerms:
    """Return a dataset's present terms. Raises UnknownAccount."""
    return _head(session, dataset_id).terms


def sums_of(held: str) -> dict[str, Any]:
    """Return an anchor's sums in the form of an amendment."""
    sums: dict[str, Any] = json.loads(held)
    return sums


def allotments(
    session: Session, dataset_ids: Sequence[UUID], analyst_id: UUID | None = None
) -> dict[UUID, list[Allotted]]:
    """Return analysts' caps on several datasets, of one analyst if given."""
    return {at: _caps(head, analyst_id) for at, head in _heads(session, dataset_ids).items()}


def budgets(
    session: Session, dataset_ids: Sequence[UUID], analyst_id: UUID | None = None
) -> dict[UUID, tuple[Balance, list[Allotted]]]:
    """Return budgets of several datasets with caps, in two queries."""
    holders = _holders(session, dataset_ids)
    return {
        at: (_balance(at, head, holders.get(at, ())), _caps(head, analyst_id))
        for at, head in _heads(session, dataset_ids).items()
    }


def _caps(head: Head, analyst_id: UUID | None) -> list[Allotted]:
    """Return the caps of a ledger, of one analyst if given."""
    return [
        _allotted(head, UUID(analyst), allotment)
        for analyst, allotment in sorted(head.allotments.items())
        if analyst_id is None or analyst == str(analyst_id)
    ]


def _allotted(head: Head, analyst_id: UUID, allotment: Allotment) -> Allotted:
    """Return one analyst's cap with what is spent and left."""
    terms = replace(head.terms, epsilon=allotment.epsilon)
    debited = (terms, allotment.held), (head.terms, head.held)
    return Allotted(
        analyst_id=analyst_id,
        epsilon=allotment.epsilon,
        spent_epsilon=spent_epsilon(terms, allotment.held),
        remaining_epsilon=min(remaining_epsilon(*debit) for debit in debited),
        remaining_pure=min(remaining_pure_epsilon(*debit) for debit in debited),
    )


def preview(
    session: Session, dataset_id: UUID, event: Event, analyst_id: UUID | None = None
) -> Preview:
    """Return whether an event would be accepted now, and what would remain. Free.

    Also works the event's cost out ahead of `reserve`, outside of the ledger's lock.
    Raises UnknownAccount and EventError (another neighbouring relation).
    """
    heads = [_head(session, dataset_id), *_holders(session, [dataset_id]).get(dataset_id, ())]
    costs = [price(head.terms, event) for head in heads]
    after = [
        (terms, held, cost)
        for head, cost in zip(heads, costs, strict=True)
        for terms, held in _views(head, analyst_id)
    ]
    affordable = all(terms.accepts(held.add(cost)) for terms, held, cost in after)
    opened = all(head.status == "open" for head in heads)
    return Preview(affordable and opened, costs[0], tuple(after))


def _views(head: Head, analyst_id: UUID | None) -> list[tuple[FilterTerms, FilterState]]:
    """Return (terms, held sums) of a ledger and of the analyst's cap on it."""
    views = [(head.terms, head.held)]
    allotment = head.allotments.get(str(analyst_id))
    if allotment is not None:
        views.append((replace(head.terms, epsilon=allotment.epsilon), allotment.held))
    return views


def entries(
    session: Session, dataset_id: UUID, after_seq: int = 0, limit: int = 100
) -> list[Entry]:
    """Return entries after `after_seq`, oldest first. Raises UnknownAccount."""
    ledger_id = _head(session, dataset_id).dataset_id
    query = select(ENTRIES).where(ENTRIES.c.dataset_id == ledger_id, ENTRIES.c.seq > after_seq)
    rows = session.execute(query.order_by(ENTRIES.c.seq).limit(limit))
    return [_entry(row) for row in rows]


def _entry(row: Any) -> Entry:
    """Return an entry from its row."""

    def decoded(text: str | None) -> Any:
        """Return decoded JSON, or None."""
        return None if text is None else json.loads(text)

    fields = {name: getattr(row, name) for name in Entry.__dataclass_fields__}
    for name in ("event", "cost", "total", "details"):
        fields[name] = decoded(fields[name])
    return Entry(**fields)


def history(session: Session, dataset_id: UUID, limit: int = 200) -> list[HistoryPoint]:
    """Return the latest entries that changed the budget, oldest first."""
    head = _head(session, dataset_id)
    terms = write_terms(head.terms)
    query = select(ENTRIES.c.at, ENTRIES.c.job_id, ENTRIES.c.kind, ENTRIES.c.total).where(
        ENTRIES.c.dataset_id == head.dataset_id,
        ENTRIES.c.kind.in_(("open", "reserve", "post", "void", "return", "raise_budget")),
    )
    rows = session.execute(query.order_by(ENTRIES.c.seq.desc()).limit(limit)).all()
    return [
        HistoryPoint(row.at, row.job_id, row.kind, _epsilon(terms, row.total))
        for row in reversed(rows)
    ]


@lru_cache(maxsize=8192)
def _epsilon(terms: str, total: str) -> float:
    """Return the epsilon of stored sums under stored terms."""
    return spent_epsilon(read_terms(terms), read_state(total))
