"""Access requests: an analyst asks for a dataset or for budget, an admin grants or refuses.

A request for a dataset that the analyst may not see names it in the analyst's own words. Nothing
is looked up by that name, so that no answer says whether there is such a dataset.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.services.accounts import notices
from app.services.accounts.access import check_open, visible_dataset
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.cursors import Page, by_time
from app.services.datasets import records
from app.services.errors import Refusal, invalid, not_found
from app.services.idempotency import Once
from app.storage.rows import AccessRequestRow, GrantRow
from app.storage.types import utc_now

ACTS = {
    "granted": "request.grant",
    "refused": "request.refuse",
    "withdrawn": "request.withdraw",
}
MOST_OPEN = 20  # requests of one analyst that wait for an answer


@dataclass(frozen=True, slots=True)
class Wanted:
    """The content of an access request. See AccessRequestRow."""

    dataset: UUID | None
    dataset_name: str | None
    epsilon: float | None
    reason: str
    job: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Grant:
    """What an admin grants. dataset: set where the request names none by its id.

    allotment: the analyst's cap from now on; None leaves it as it is. epsilon: what the dataset's
    whole budget is raised to.
    """

    dataset: UUID | None = None
    allotment: float | None = None
    epsilon: float | None = None


def create(
    services: Services, caller: Caller, wanted: Wanted, once: Once | None = None
) -> AccessRequestRow:
    """Create an access request. Raises Refusal 404 on an invisible dataset, 409 or 429.

    once: the request, where it is not to ask twice when it is sent again.
    """
    if once is not None and (earlier := _made_before(services, caller, once)) is not None:
        return earlier
    try:
        with services.sessions.write() as session:
            if wanted.dataset is not None:
                check_open(visible_dataset(session, caller, wanted.dataset))
            _check_few(session, caller)
            row = AccessRequestRow(
                id=uuid4(),
                user_id=caller.id,
                dataset_id=wanted.dataset,
                dataset_name=wanted.dataset_name,
                epsilon=wanted.epsilon,
                reason=wanted.reason,
                job=wanted.job,
                created_at=utc_now(),
            )
            session.add(row)
            session.flush()
            if once is not None:
                once.remember(session, caller, row.id)
            note(
                session,
                caller,
                "request.create",
                row.id,
                epsilon=wanted.epsilon,
                reason=wanted.reason,
            )
            notices.write(services.settings, session, row)
            return row
    except IntegrityError:
        if once is not None and (earlier := _made_before(services, caller, once)) is not None:
            return earlier  # by the same request, sent twice at once
        raise


def _made_before(services: Services, caller: Caller, once: Once) -> AccessRequestRow | None:
    """Return the request that this idempotency key created before, or None."""
    with services.sessions.read() as session:
        earlier = once.made(session, caller)
        return None if earlier is None else session.get_one(AccessRequestRow, earlier.made_id)


def _check_few(session: Session, caller: Caller) -> None:
    """Refuse another request of a caller with the maximum number open. Raises Refusal 429."""
    is_open = (AccessRequestRow.user_id == caller.id) & (AccessRequestRow.status == "open")
    count = session.scalar(select(func.count()).select_from(AccessRequestRow).where(is_open)) or 0
    if count >= MOST_OPEN:
        raise Refusal(
            429,
            "too_many_requests_open",
            f"{MOST_OPEN} of your requests wait for an answer. Withdraw one first.",
        )


def requests(
    services: Services, caller: Caller, limit: int, cursor: str | None, status: str | None = None
) -> Page[AccessRequestRow]:
    """Return requests, newest first: an analyst's own, or all for admins and auditors."""
    query = select(AccessRequestRow)
    if caller.role == "analyst":
        query = query.where(AccessRequestRow.user_id == caller.id)
    if status is not None:
        query = query.where(AccessRequestRow.status == status)
    at, key = AccessRequestRow.created_at, AccessRequestRow.id
    with services.sessions.read() as session:
        return by_time(session, query, at, key, limit, cursor)


def request(services: Services, caller: Caller, request_id: UUID) -> AccessRequestRow:
    """Return a request. Raises Refusal 404 where it does not exist or is not visible."""
    with services.sessions.read() as session:
        return _request(session, caller, request_id)


def _request(
    session: Session, caller: Caller, request_id: UUID, *, lock: bool = False
) -> AccessRequestRow:
    """Return a request that the caller may see, locked if asked. Raises Refusal 404."""
    query = select(AccessRequestRow).where(AccessRequestRow.id == request_id)
    if caller.role == "analyst":
        query = query.where(AccessRequestRow.user_id == caller.id)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise not_found("access request")
    return row


def close(
    services: Services,
    caller: Caller,
    request_id: UUID,
    status: Literal["refused", "withdrawn"],
    answer: str | None,
) -> AccessRequestRow:
    """Refuse a request (admin), or withdraw an own one.

    Raises Refusal 404, and 409 where it was decided otherwise.
    """
    with services.sessions.write() as session:
        row = _request(session, caller, request_id, lock=True)
        if _is_new(row, status):
            _decide(services, session, caller, row, status, answer)
        return row


def grant(
    services: Services, caller: Caller, request_id: UUID, given: Grant, answer: str | None
) -> AccessRequestRow:
    """Grant a request: changes grants, cap and budget of the dataset in one transaction.

    Raises Refusal 404, 422, and 409 where it was decided otherwise or the ledger refuses.
    """
    with services.sessions.write() as session, records.amending():
        row = _request(session, caller, request_id, lock=True)
        if not _is_new(row, "granted"):
            return row
        dataset_id = _dataset_of(row, given)
        changes = _changes(session, caller, dataset_id, row.user_id, given)
        if not changes:
            raise invalid("", "Nothing would change: give an allotment or an epsilon.")
        said = f"access request {row.id}: {answer or row.reason}"
        records.amend_in(services, session, caller, dataset_id, {**changes, "reason": said})
        row.dataset_id = dataset_id
        row.granted = {
            "dataset": str(dataset_id),
            "access": "grants" in changes,
            "allotment": given.allotment,
            "epsilon": given.epsilon,
        }
        _decide(services, session, caller, row, "granted", answer)
        return row


def _is_new(row: AccessRequestRow, status: str) -> bool:
    """Return whether this decision is new; repeating the same one is no error."""
    if row.status not in ("open", status):
        raise Refusal(409, "request_decided", f"This request was {row.status} already.")
    return row.status == "open"


def _dataset_of(row: AccessRequestRow, given: Grant) -> UUID:
    """Return the dataset of a request, or that which the admin names. Raises Refusal 422."""
    if row.dataset_id is None and given.dataset is None:
        raise invalid("/dataset", "The request names a dataset in words: say which one is meant.")
    if row.dataset_id is not None and given.dataset not in (None, row.dataset_id):
        raise invalid("/dataset", "The request is for another dataset.")
    return row.dataset_id or given.dataset  # type: ignore[return-value]  # one is there


def _changes(
    session: Session, caller: Caller, dataset_id: UUID, analyst: UUID, given: Grant
) -> dict[str, Any]:
    """Return the changes of a dataset as a PATCH would have them. Raises Refusal 404 or 409."""
    dataset = visible_dataset(session, caller, dataset_id)
    check_open(dataset)
    changes: dict[str, Any] = {}
    if dataset.restricted:
        granted = select(GrantRow.user_id).where(GrantRow.dataset_id == dataset_id)
        users = set(session.scalars(granted))
        if analyst not in users:
            changes["grants"] = sorted(users | {analyst})
    if given.allotment is not None:
        changes["allotments"] = {analyst: given.allotment}
    if given.epsilon is not None:
        changes["privacy"] = {"epsilon": given.epsilon}
    return changes


def _decide(
    services: Services,
    session: Session,
    caller: Caller,
    row: AccessRequestRow,
    status: str,
    answer: str | None,
) -> None:
    """Record a decision, with its entry in the audit trail and its mail."""
    row.status, row.answer = status, answer
    row.decided_at, row.decided_by = utc_now(), caller.id
    session.flush()
    details: Mapping[str, Any] = {
        name: said for name, said in (("answer", answer), ("granted", row.granted)) if said
    }
    note(session, caller, ACTS[status], row.id, user_id=row.user_id, **details)
    notices.write(services.settings, session, row)
