"""Verification of a ledger: recomputed from its entries, compared with its head.

Found: an entry that was changed, removed (also the last ones: the head knows their number and
hash), inserted or moved; a wrong running sum; a job settled twice; a reservation beyond the promise
of its time; a return of anything but what was not drawn. Not found by any hash chain: somebody who
rewrites the tail, the hashes and the head together. Keep the head's (seq, hash) elsewhere, pass it
as `anchor`: all up to it is then pinned.
"""

import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Result, select
from sqlalchemy.orm import Session

from app.ledger.account import (
    ENTRIES,
    Allotment,
    Head,
    head_of,
    ledger_of,
    price,
    sum_of,
    written,
)
from app.ledger.amend import RAISED, STATUSES, at_least
from app.ledger.codec import (
    canonical,
    entry_hash,
    genesis,
    read_cost,
    read_state,
    read_terms,
    write_cost,
    write_state,
)
from app.ledger.errors import UnknownAccount
from app.storage.rows import OF_JOBS
from dpmcmc.privacy.drawn import begins
from dpmcmc.privacy.event_json import from_dict
from dpmcmc.privacy.filter import EntryCost, FilterState, FilterTerms


@dataclass(frozen=True, slots=True)
class Verification:
    """rows: entries read. head: the stored head's hash. problem: the first fault, in words."""

    ok: bool
    rows: int
    head: str
    problem: str | None = None


class _FaultError(Exception):
    """A fault of a ledger, described by public facts only."""


def verify(
    session: Session, dataset_id: UUID, anchor: tuple[int, str] | None = None
) -> Verification:
    """Verify hash chain and totals of a ledger against its head.

    session: a read session (one snapshot). anchor: (seq, hash) of an earlier head, kept elsewhere.
    Raises UnknownAccount.
    """
    row = ledger_of(session, [dataset_id]).one_or_none()
    if row is None:
        raise UnknownAccount("no ledger was opened for this")
    ledger_id = row.dataset_id
    replay = _Replay(ledger_id)
    try:
        with _stream(session, ledger_id) as rows:
            for entry in rows:
                replay.follow(entry)
                if anchor and anchor[0] == entry.seq and anchor[1] != entry.hash:
                    raise _FaultError(f"entry {entry.seq}: not the one that was anchored")
        if anchor and anchor[0] > replay.seq:
            raise _FaultError("entries that were anchored are missing")
        replay.compare(head_of(row))
    except _FaultError as fault:
        return Verification(False, replay.seq, row.hash, str(fault))
    except (ValueError, KeyError, TypeError, IndexError):
        return Verification(False, replay.seq, row.hash, f"entry {replay.seq + 1}: unreadable")
    return Verification(True, replay.seq, row.hash)


def _stream(session: Session, dataset_id: UUID) -> Result[Any]:
    """Return the entries one by one."""
    query = select(ENTRIES).where(ENTRIES.c.dataset_id == dataset_id).order_by(ENTRIES.c.seq)
    return session.execute(query.execution_options(yield_per=1000))


class _Replay:
    """The state of a ledger as recomputed from its entries so far."""

    def __init__(self, dataset_id: UUID) -> None:
        self.dataset_id = dataset_id
        self.seq, self.hash, self.status = 0, genesis(dataset_id), "open"
        self.terms: FilterTerms | None = None
        self.posted = self.reserved = self.held = FilterState((), ())
        self.allotments: dict[str, Allotment] = {}
        self.by_analyst: dict[str, FilterState] = {}
        self.open_jobs: dict[UUID, tuple[str, str]] = {}
        self.settled: dict[UUID, str] = {}
        self.events: dict[UUID, str] = {}
        self.returned: set[UUID] = set()

    def follow(self, entry: Any) -> None:
        """Apply one entry. Raises _FaultError."""
        place = f"entry {self.seq + 1}"
        if entry.seq != self.seq + 1:
            raise _FaultError(f"{place}: missing")
        if entry.previous != self.hash:
            raise _FaultError(f"{place}: does not follow the one before it")
        if entry.hash != entry_hash(entry._mapping):
            raise _FaultError(f"{place}: changed since it was written")
        fault = self._apply(entry)
        if fault:
            raise _FaultError(f"{place}: {fault}")
        if entry.total != write_state(self.held):
            raise _FaultError(f"{place}: wrong total")
        self.seq, self.hash = entry.seq, entry.hash

    def _apply(self, entry: Any) -> str | None:
        """Apply an entry by its kind; return its fault, or None."""
        details = json.loads(entry.details)
        if (entry.kind == "open") != (self.terms is None):
            return "a ledger opens once, with its first entry"
        if entry.kind == "open":
            self._open(details)
            return None
        if entry.kind == "return":
            return self._return(entry)
        if entry.kind in OF_JOBS:
            return self._debit(entry)
        return self._amend(entry.kind, details)

    def _open(self, details: dict[str, Any]) -> None:
        """Apply the opening entry."""
        self.terms = read_terms(canonical(details["terms"]))
        self.posted = self.reserved = self.held = FilterState.empty(self.terms)

    def _debit(self, entry: Any) -> str | None:
        """Apply a post or void; return its fault, or None."""
        cost, key = read_cost(entry.cost), (entry.cost, entry.event_digest)
        if entry.kind == "reserve":
            if entry.job_id in self.settled or entry.job_id in self.open_jobs:
                return "a second reservation for one job"
            self.open_jobs[entry.job_id] = key
            self.events[entry.job_id] = entry.event
            return self._reserve(entry, cost)
        if self.open_jobs.pop(entry.job_id, None) != key:
            return "settles what was not reserved"
        self.settled[entry.job_id] = entry.kind
        self.reserved = self.reserved.remove(cost)
        if entry.kind == "post":
            self.posted = self.posted.add(cost)
        else:
            self.held = self.held.remove(cost)
            self._move(str(entry.analyst_id), cost, FilterState.remove)
        return None

    def _return(self, entry: Any) -> str | None:
        """Apply a refund to a posted job; return its fault, or None."""
        if self.settled.get(entry.job_id) != "post" or entry.job_id in self.returned:
            return "returns what was not debited"
        drawn = from_dict(json.loads(entry.event))
        planned = from_dict(json.loads(self.events[entry.job_id]))
        if not begins(planned, drawn) or entry.event_digest != written(drawn)[1]:
            return "what was drawn is not how the reserved event begins"
        rest = price(self._terms, planned).beyond(price(self._terms, drawn))
        if entry.cost != write_cost(rest):
            return "returns something else than what was not drawn"
        self.returned.add(entry.job_id)
        self.posted, self.held = self.posted.remove(rest), self.held.remove(rest)
        self._move(str(entry.analyst_id), rest, FilterState.remove)
        return None

    def _reserve(self, entry: Any, cost: EntryCost) -> str | None:
        """Apply a reservation; return its fault, or None."""
        analyst = str(entry.analyst_id)
        self.reserved, self.held = self.reserved.add(cost), self.held.add(cost)
        self._move(analyst, cost, FilterState.add)
        caps = [(self._terms, self.held)]
        allotment = self.allotments.get(analyst)
        if allotment is not None:
            caps.append((replace(self._terms, epsilon=allotment.epsilon), allotment.held))
        fits = self.status == "open" and all(terms.accepts(held) for terms, held in caps)
        return None if fits else "a reservation that was not allowed"

    def _move(self, analyst: str, cost: EntryCost, move: Any) -> None:
        """Add or remove a cost in the sums of ledger and analyst."""
        empty = FilterState.empty(self._terms)
        self.by_analyst[analyst] = move(self.by_analyst.get(analyst, empty), cost)
        if analyst in self.allotments:
            allotment = self.allotments[analyst]
            self.allotments[analyst] = replace(allotment, held=self.by_analyst[analyst])

    @property
    def _terms(self) -> FilterTerms:
        """Return the present terms. Raises _FaultError before the opening entry."""
        if self.terms is None:
            raise _FaultError("the ledger was never opened")
        return self.terms

    def _amend(self, kind: str, details: dict[str, Any]) -> str | None:
        """Apply an amendment; return its fault, or None."""
        if kind == "raise_budget":
            raised = {name: details[name] for name in RAISED if name in details}
            self.terms = replace(self._terms, **raised)
        elif kind == "allot":
            self._allot(details["analyst"], details["epsilon"])
        elif kind == "restore":
            self.posted = at_least(self.posted, read_state(canonical(details["held"])))
            self.held = sum_of(self.posted, self.reserved)
        elif kind == "join":
            self.status = "open"
        elif kind in STATUSES and "dataset" not in details:
            self.status = {"archive": "archived", "unarchive": "open", "destroy": "destroyed"}[kind]
        return None

    def _allot(self, analyst: str, epsilon: float | None) -> None:
        """Apply a change of an analyst's cap."""
        self.allotments.pop(analyst, None)
        if epsilon is not None:
            empty = FilterState.empty(self._terms)
            self.allotments[analyst] = Allotment(epsilon, self.by_analyst.get(analyst, empty))

    def compare(self, head: Head) -> None:
        """Compare the recomputed state with the stored head. Raises _FaultError."""
        replayed = (self.seq, self.hash)
        if replayed != (head.seq, head.hash):
            raise _FaultError("the last entries are missing, or the head was changed")
        jobs = sum(1 for kind in self.settled.values() if kind == "post") + len(self.open_jobs)
        mine = (self.status, self.terms, self.posted, self.reserved, self.allotments, jobs)
        stored = (head.status, head.terms, head.posted, head.reserved, head.allotments, head.jobs)
        if mine != stored:
            raise _FaultError("the head's totals are not those of the entries")
