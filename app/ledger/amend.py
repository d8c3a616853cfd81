"""Amendments of a dataset by admins, as ledger entries."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.ledger.account import DATASETS, ENTRIES, Allotment, Head, append, locked
from app.ledger.codec import canonical, read_cost, read_state
from app.ledger.errors import AmendmentRefused
from dpmcmc.privacy.filter import FilterState

Details = Mapping[str, Any]
RAISED = frozenset({"epsilon", "delta"})
STATUSES = ("archive", "unarchive", "destroy")
OF_ONE_DATASET = (*STATUSES, "grant", "join")


def amend(
    session: Session,
    dataset_id: UUID,
    kind: str,
    details: Details,
    actor_id: UUID | None,
    reason: str | None = None,
) -> None:
    """Write an amendment. reason: why, in its details. details, by kind (JSON values only):

    raise_budget: {"epsilon": …, "delta": …}, either or both, never lower than before; the entry has
                  what they were in "from"
    allot:        {"analyst": id, "epsilon": … or None}: that analyst's cap under the dataset's
    grant:        {"users": [ids] or None}: recorded; the grants' own table is the caller's
    archive, unarchive, destroy: {}; no new reservations while archived, none ever after destroy
    join:         {"rows": n}: a further dataset of the ledger's population, or with {"like": {…}}
                  one whose rows are largely those of a dataset on the ledger, or with {"separate":
                  {…}} one whose rows have another ledger's budget besides, and why; opens a ledger
                  again whose only dataset was archived or destroyed: what is spent stays spent.
                  "privacy_unit": of the dataset, where one is declared; rows are then its slots
    restore:      {"held": sums, "anchor": {…}}: the database was put back; at least what the anchor
                  says was held counts as spent
    Where several datasets share the ledger, an entry about one of them names it, and its
    being archived or destroyed is recorded and leaves the ledger open to the others.
    Raises UnknownAccount and AmendmentRefused.
    """
    if kind not in _AMENDMENTS:
        raise AmendmentRefused("unknown amendment")
    session.flush()
    head = locked(session, dataset_id)
    if head.status == "destroyed" and kind not in ("restore", "join"):
        raise AmendmentRefused("the dataset's rows are destroyed")
    fields = dict(details)
    if kind == "raise_budget":
        fields["from"] = {name: getattr(head.terms, name) for name in details if name in RAISED}
    if reason:
        fields["reason"] = reason
    shared = kind in OF_ONE_DATASET and _shared(session, dataset_id)
    if shared:
        fields["dataset"] = str(dataset_id)
    open_to_others = shared and kind in STATUSES
    moved = head if open_to_others else _AMENDMENTS[kind](session, head, details)
    append(session, moved, kind, details=fields, actor_id=actor_id)


def _shared(session: Session, dataset_id: UUID) -> bool:
    """Return whether other datasets are, or may come to be, on a dataset's ledger.

    Read while the head is held, which nobody joins meanwhile.
    """
    sharing = (DATASETS.c.id == dataset_id) & (
        DATASETS.c.population.is_not(None) | DATASETS.c.ledger_id.is_not(None)
    )
    query = select(DATASETS.c.id).where(sharing | (DATASETS.c.ledger_id == dataset_id))
    return session.execute(query.limit(1)).first() is not None


def _restore(_: Session, head: Head, details: Details) -> Head:
    """Return the head with the sums of an anchor taken as spent."""
    if set(details) != {"held", "anchor"}:
        raise AmendmentRefused("name what was held, and the anchor that says so")
    return replace(head, posted=at_least(head.posted, read_state(canonical(details["held"]))))


def at_least(state: FilterState, other: FilterState) -> FilterState:
    """Return the larger of two states in every branch."""
    return FilterState(
        tuple(map(max, state.sums, other.sums)), tuple(map(max, state.unbounded, other.unbounded))
    )


def _join(_: Session, head: Head, details: Details) -> Head:
    """Return the head with a further dataset on the ledger."""
    if not {"rows"} <= set(details) <= {"rows", "like", "separate", "privacy_unit"}:
        raise AmendmentRefused("name the number of rows, and what they are like")
    if not _is_number(details["rows"]):
        raise AmendmentRefused("name the number of rows")
    return replace(head, status="open")


def _raise_budget(_: Session, head: Head, details: Details) -> Head:
    """Return the head with a larger budget. Raises AmendmentRefused."""
    if not details or not set(details) <= RAISED:
        raise AmendmentRefused("name an epsilon, a delta or both")
    if not all(_is_number(value) for value in details.values()):
        raise AmendmentRefused("a budget is a finite number")
    try:
        terms = replace(head.terms, **details)
    except ValueError as error:
        raise AmendmentRefused("not a budget") from error
    if terms.epsilon < head.terms.epsilon or terms.delta < head.terms.delta:
        raise AmendmentRefused("a budget is never lowered")
    return replace(head, terms=terms)


def _allot(session: Session, head: Head, details: Details) -> Head:
    """Return the head with an analyst's cap set or removed."""
    if set(details) != {"analyst", "epsilon"} or not _is_id(details["analyst"]):
        raise AmendmentRefused("name an analyst and an epsilon")
    analyst, epsilon = str(UUID(details["analyst"])), details["epsilon"]
    others = {name: allotment for name, allotment in head.allotments.items() if name != analyst}
    if epsilon is None:
        return replace(head, allotments=others)
    if not _is_number(epsilon) or epsilon < 0:
        raise AmendmentRefused("an allotment is a finite number, 0 or larger")
    held = _held_by(session, head, UUID(analyst))
    return replace(head, allotments={**others, analyst: Allotment(epsilon, held)})


def _held_by(session: Session, head: Head, analyst_id: UUID) -> FilterState:
    """Return the sums of an analyst's jobs from the entries, while the head is locked."""
    held = FilterState.empty(head.terms)
    of_analyst = select(ENTRIES.c.kind, ENTRIES.c.cost).where(
        ENTRIES.c.dataset_id == head.dataset_id,
        ENTRIES.c.analyst_id == analyst_id,
        ENTRIES.c.kind.in_(("reserve", "void", "return")),
    )
    for kind, cost in session.execute(of_analyst):
        move = held.add if kind == "reserve" else held.remove
        held = move(read_cost(cost))
    return held


def _grant(_: Session, head: Head, details: Details) -> Head:
    """Return the head unchanged: grants are recorded in the details alone."""
    users = details.get("users", ...)
    listed = isinstance(users, list) and all(_is_id(user) for user in users)
    if set(details) != {"users"} or not (users is None or listed):
        raise AmendmentRefused("name a list of users, or None for everybody")
    return head


def _status(status: str, before: str | None) -> Callable[[Session, Head, Details], Head]:
    """Return the amendment that changes the status from `before`."""

    def change(_: Session, head: Head, details: Details) -> Head:
        """Return the head with the new status."""
        if details:
            raise AmendmentRefused("this amendment has no details")
        if before is not None and head.status != before:
            raise AmendmentRefused(f"only a dataset that is {before} can become {status}")
        return replace(head, status=status)

    return change


def _is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(float(value))


def _is_id(value: object) -> bool:
    """Return whether a value is a UUID as text."""
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


_AMENDMENTS: dict[str, Callable[[Session, Head, Details], Head]] = {
    "raise_budget": _raise_budget,
    "allot": _allot,
    "grant": _grant,
    "archive": _status("archived", before="open"),
    "unarchive": _status("open", before="archived"),
    "destroy": _status("destroyed", before=None),
    "join": _join,
    "restore": _restore,
}
