"""Dataset records: reading, changing and destroying them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app import ledger
from app.ledger.ends import end_of
from app.services.accounts.access import visible, visible_dataset
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.budgets.rewind import refuse_rewound
from app.services.context import Services
from app.services.cursors import Page, by_number, by_time, encode
from app.services.datasets.stored_rows import put_back
from app.services.errors import Refusal, invalid
from app.services.jobs.cancel import stop_all
from app.storage.columns import schema_of
from app.storage.errors import VersionsKeptError
from app.storage.locks import UPLOADS, take
from app.storage.rows import DatasetRow, GrantRow, JobRow, UserRow
from app.storage.types import utc_now
from dpmcmc.inputs.schema import Schema
from dpmcmc.privacy.promises import refusal

NEVER_LOWERED = "A budget is never lowered."
MOST_STEPS = 4000  # of all histories of a page together
LEAST_HISTORY, MOST_HISTORY = 2, 200  # steps of one
VERSIONS_KEPT = (
    "The key is destroyed, so nobody can read the rows; but the store keeps versions of the"
    " encrypted file that it does not let us delete."
)


@dataclass(frozen=True, slots=True)
class Described:
    """A dataset with its budget. grants: None where every analyst may use it.

    namesakes: other datasets in use of the same name, where they were looked for.
    """

    row: DatasetRow
    balance: ledger.Balance
    grants: Sequence[UUID] | None
    namesakes: Sequence[UUID] = ()

    @property
    def status(self) -> str:
        """Return the dataset's status; a shared ledger is open while one of its datasets may be."""
        if self.row.destroyed_at is not None:
            return "destroyed"
        if self.row.unavailable_at is not None:
            return "unavailable"
        return "archived" if self.row.archived_at is not None else self.balance.status


@dataclass(frozen=True, slots=True)
class Budget:
    """A dataset's budget. allotments: every analyst's cap, or only the caller's."""

    balance: ledger.Balance
    allotments: Sequence[ledger.Allotted]
    protects: Mapping[str, Any]
    history: Sequence[ledger.HistoryPoint] = ()


def holders_of(session: Session, row: DatasetRow) -> list[DatasetRow]:
    """Return the holders' datasets of a pooled one, in row order; else none."""
    return [session.get_one(DatasetRow, UUID(holder["dataset"])) for holder in row.holders or ()]


def check_users(session: Session, grants: Sequence[UUID] | None, pointer: str) -> None:
    """Refuse grants to unknown users. Raises Refusal 422."""
    if not grants:
        return
    known = set(session.scalars(select(UserRow.id).where(UserRow.id.in_(grants))))
    for index, user_id in enumerate(grants):
        if user_id not in known:
            raise invalid(f"{pointer}/{index}", "There is no such user.")


def grant(
    session: Session,
    caller: Caller,
    dataset_id: UUID,
    grants: Sequence[UUID] | None,
    reason: str | None = None,
) -> None:
    """Set who may use a dataset, in its ledger and in the grants table."""
    users = None if grants is None else sorted({str(user) for user in grants})
    ledger.amend(session, dataset_id, "grant", {"users": users}, caller.id, reason)
    session.execute(delete(GrantRow).where(GrantRow.dataset_id == dataset_id))
    session.add_all(GrantRow(dataset_id=dataset_id, user_id=UUID(user)) for user in users or ())
    session.execute(
        update(DatasetRow).where(DatasetRow.id == dataset_id).values(restricted=users is not None)
    )
    session.flush()


def _grants(session: Session, row: DatasetRow) -> Sequence[UUID] | None:
    """Return the users with grants; None where every analyst may use it."""
    if not row.restricted:
        return None
    query = select(GrantRow.user_id).where(GrantRow.dataset_id == row.id)
    return session.scalars(query.order_by(GrantRow.user_id)).all()


def described(session: Session, row: DatasetRow) -> Described:
    """Return a dataset with its balance and grants."""
    return Described(row, ledger.balance(session, row.id), _grants(session, row))


def in_use(session: Session, names: Collection[str]) -> list[UUID]:
    """Return the datasets of these names that are neither archived nor destroyed, oldest first."""
    query = select(DatasetRow.id).where(
        DatasetRow.name.in_(names),
        DatasetRow.archived_at.is_(None),
        DatasetRow.destroyed_at.is_(None),
    )
    return list(session.scalars(query.order_by(DatasetRow.created_at, DatasetRow.id)))


def with_namesakes(session: Session, caller: Caller, row: DatasetRow) -> Described:
    """Return a dataset; for an admin, with others in use of its name while it is in use."""
    shown = described(session, row)
    if caller.role != "admin" or row.archived_at is not None or row.destroyed_at is not None:
        return shown
    others = [at for at in in_use(session, [row.name]) if at != row.id]
    return replace(shown, namesakes=others)


def dataset(services: Services, caller: Caller, dataset_id: UUID) -> Described:
    """Return one dataset. Raises Refusal 404."""
    with services.sessions.read() as session:
        return with_namesakes(session, caller, visible_dataset(session, caller, dataset_id))


def schema(services: Services, caller: Caller, dataset_id: UUID) -> Schema:
    """Return the public schema of one dataset. Raises Refusal 404."""
    with services.sessions.read() as session:
        return schema_of(visible_dataset(session, caller, dataset_id))


def datasets(services: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Described]:
    """Return a page of the datasets that a caller may see, newest first."""
    with services.sessions.read() as session:
        page = _page(session, caller, limit, cursor)
        balances = ledger.balances(session, [row.id for row in page.items])
        items = [Described(row, balances[row.id], _grants(session, row)) for row in page.items]
    return Page(items, page.next_cursor)


def _page(session: Session, caller: Caller, limit: int, cursor: str | None) -> Page[DatasetRow]:
    """Return a page of visible dataset rows."""
    query = select(DatasetRow).where(visible(caller))
    return by_time(session, query, DatasetRow.created_at, DatasetRow.id, limit, cursor)


def budget(services: Services, caller: Caller, dataset_id: UUID) -> Budget:
    """Return a dataset's budget, without its history. Raises Refusal 404."""
    with services.sessions.read() as session:
        row = visible_dataset(session, caller, dataset_id)
        (balance,) = ledger.budgets(session, [dataset_id], _only(caller)).values()
        return Budget(*balance, row.protects)


def budgets(services: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Budget]:
    """Return budgets of the visible datasets, with recent history.

    A step's epsilon takes some tenths of a millisecond to work out, so that a page has MOST_STEPS
    of them at most, in equal parts.
    """
    with services.sessions.read() as session:
        page = _page(session, caller, limit, cursor)
        ids = [row.id for row in page.items]
        balances = ledger.budgets(session, ids, _only(caller))
        steps = max(LEAST_HISTORY, min(MOST_HISTORY, MOST_STEPS // max(1, len(ids))))
        items = [
            Budget(*balances[row.id], row.protects, ledger.history(session, row.id, steps))
            for row in page.items
        ]
    return Page(items, page.next_cursor)


def _only(caller: Caller) -> UUID | None:
    """Return the analyst whose caps are shown; None: all, for admins and auditors."""
    return caller.id if caller.role == "analyst" else None


def entries(
    services: Services, caller: Caller, dataset_id: UUID, limit: int, cursor: str | None
) -> Page[ledger.Entry]:
    """Return a page of a dataset's ledger, oldest first. Raises Refusal 404."""
    after = by_number(cursor)
    with services.sessions.read() as session:
        visible_dataset(session, caller, dataset_id)
        rows = ledger.entries(session, dataset_id, after, limit + 1)
    more = encode(rows[limit - 1].seq) if len(rows) > limit else None
    return Page(rows[:limit], more)


def verify(
    services: Services, caller: Caller, dataset_id: UUID, anchor: tuple[int, str] | None = None
) -> tuple[ledger.Verification, UUID]:
    """Verify a dataset's ledger; the verification is recorded in the audit trail.

    anchor: number and hash of an entry that was there before. Returns also whose ledger it is.
    Raises Refusal 404.
    """
    with services.sessions.read() as session:
        visible_dataset(session, caller, dataset_id)
        verification = ledger.verify(session, dataset_id, anchor)
        whose = end_of(session, dataset_id).ledger
    with services.sessions.write() as session:
        note(
            session, caller, "ledger.verify", dataset_id, ok=verification.ok, rows=verification.rows
        )
    return verification, whose


def amend(
    services: Services, caller: Caller, dataset_id: UUID, changes: Mapping[str, Any]
) -> Described:
    """Change `privacy`, `archived`, `available`, `grants` and `allotments` atomically.

    The ledger and the audit trail have what was before, and the `reason`.
    Raises Refusal 404, 409, 422.
    """
    with services.sessions.write() as session, amending():
        amend_in(services, session, caller, dataset_id, changes)
        session.expire_all()
        return with_namesakes(session, caller, visible_dataset(session, caller, dataset_id))


@contextmanager
def amending() -> Iterator[None]:
    """Translate a ledger's refusal into Refusal 409."""
    try:
        yield
    except ledger.AmendmentRefused:
        raise Refusal(409, "amendment_refused", "The ledger refuses this change.") from None


def amend_in(
    services: Services,
    session: Session,
    caller: Caller,
    dataset_id: UUID,
    changes: Mapping[str, Any],
) -> None:
    """Apply the changes of `amend` within an open transaction."""
    row = visible_dataset(session, caller, dataset_id)
    if row.destroyed_at is not None:
        raise Refusal(409, "dataset_destroyed", "The rows of this dataset were destroyed.")
    refuse_rewound(session, services, dataset_id)
    wanted = {name: value for name, value in changes.items() if name != "reason"}
    reason, before = changes.get("reason"), _present_values(session, row, wanted)
    _raise_budget(session, caller, row, changes.get("privacy"), reason)
    stopped = _stop_closed(session, row, changes)
    if changes.get("available"):
        put_back(services, session, caller, row)
    _archive(session, caller, row, changes.get("archived"), reason)
    if "grants" in changes:
        check_users(session, changes["grants"], "/grants")
        grant(session, caller, dataset_id, changes["grants"], reason)
    _allot(session, caller, dataset_id, changes.get("allotments", {}), reason)
    session.flush()
    details: dict[str, Any] = {"changes": _plain(wanted), "before": _plain(before)}
    if stopped:
        details["jobs_stopped"] = stopped
    if reason:
        details["reason"] = reason
    note(session, caller, "dataset.amend", dataset_id, **details)


def _present_values(
    session: Session, row: DatasetRow, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the present values of the members to be changed."""
    before: dict[str, Any] = {}
    if changes.get("privacy"):
        terms = ledger.terms_of(session, row.id)
        named = [name for name, value in changes["privacy"].items() if value is not None]
        before["privacy"] = {name: getattr(terms, name) for name in named}
    if "archived" in changes:
        before["archived"] = row.archived_at is not None
    if "grants" in changes:
        granted = _grants(session, row)
        before["grants"] = None if granted is None else sorted(granted)
    if changes.get("allotments"):
        caps = {cap.analyst_id: cap.epsilon for cap in ledger.allotments(session, [row.id])[row.id]}
        before["allotments"] = {analyst: caps.get(analyst) for analyst in changes["allotments"]}
    return before


def _stop_closed(session: Session, row: DatasetRow, changes: Mapping[str, Any]) -> int:
    """Stop the jobs to which a change closes the dataset, refunding queued ones.

    With a holder's dataset the jobs of the pooled one are stopped, which run on its rows too.
    """
    stopped, paying = 0, JobRow.epsilon > 0  # inferences read what was released
    if changes.get("archived") and row.archived_at is None:
        closed = [at for at in (row.id, row.pool_id) if at is not None]
        on_it = JobRow.dataset_id.in_(closed)
        stopped += stop_all(session, "dataset_archived", on_it, paying)
    if changes.get("grants") is not None:
        check_users(session, changes["grants"], "/grants")
        withdrawn = JobRow.user_id.not_in([UUID(str(user)) for user in changes["grants"]])
        its = JobRow.dataset_id == row.id
        stopped += stop_all(session, "grant_withdrawn", its, withdrawn, paying)
    return stopped


def _plain(value: Any) -> Any:
    """Return a change as JSON values."""
    if isinstance(value, Mapping):
        return {str(name): _plain(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_plain(held) for held in value]
    return str(value) if isinstance(value, UUID) else value


def _raise_budget(
    session: Session,
    caller: Caller,
    row: DatasetRow,
    raised: Mapping[str, float] | None,
    reason: str | None,
) -> None:
    """Raise the budget of the dataset's ledger."""
    named = {name: value for name, value in (raised or {}).items() if value is not None}
    if not named:
        return
    take(session, UPLOADS)  # no dataset joins the population with the budget of before
    ledger.hold_pool(session, row.id)
    terms = ledger.terms_of(session, row.id)
    for name, value in named.items():
        if value < getattr(terms, name):
            raise invalid(f"/privacy/{name}", NEVER_LOWERED)
    for part in (row, *holders_of(session, row)):
        _raise_one(session, caller, part, named, reason)


def _raise_one(
    session: Session,
    caller: Caller,
    row: DatasetRow,
    named: Mapping[str, float],
    reason: str | None,
) -> None:
    """Raise one budget to the named value, unless it is higher already.

    A pooled dataset's budget is no use beyond those of its holders: both are raised.
    """
    if row.destroyed_at is not None:
        return
    terms = ledger.terms_of(session, row.id)
    raised = {name: max(value, getattr(terms, name)) for name, value in named.items()}
    rows, delta = units_on(session, row.ledger_id or row.id), raised.get("delta", terms.delta)
    refused = refusal(delta, rows, row.unit)
    if refused and delta > terms.delta:  # what it has already it may keep
        raise invalid("/privacy/delta", refused)
    ledger.amend(session, row.id, "raise_budget", raised, caller.id, reason)


def units_on(session: Session, ledger_id: UUID) -> int:
    """Return the number of rows or persons on a ledger, over all its datasets.

    What was released of those stays released.
    """
    on_it = func.coalesce(DatasetRow.ledger_id, DatasetRow.id) == ledger_id
    return sum(row.units for row in session.scalars(select(DatasetRow).where(on_it)))


def _allot(
    session: Session,
    caller: Caller,
    dataset_id: UUID,
    caps: Mapping[UUID, float | None],
    reason: str | None,
) -> None:
    """Cap analysts' shares of the budget (None: no cap), with a ledger entry each."""
    if not caps:
        return
    analysts = select(UserRow.id).where(UserRow.id.in_(caps), UserRow.role == "analyst")
    known = set(session.scalars(analysts))
    now = ledger.allotments(session, [dataset_id])[dataset_id]
    before = {cap.analyst_id: cap.epsilon for cap in now}
    for analyst, epsilon in sorted(caps.items()):
        if analyst not in known:
            raise invalid(f"/allotments/{analyst}", "There is no such analyst.")
        if epsilon != before.get(analyst):
            details = {"analyst": str(analyst), "epsilon": epsilon}
            ledger.amend(session, dataset_id, "allot", details, caller.id, reason)


def _archive(
    session: Session, caller: Caller, row: DatasetRow, archived: bool | None, reason: str | None
) -> None:
    """Archive or reopen a dataset."""
    if archived is None or archived == (row.archived_at is not None):
        return
    ledger.amend(session, row.id, "archive" if archived else "unarchive", {}, caller.id, reason)
    row.archived_at = utc_now() if archived else None


def destroy(
    services: Services, caller: Caller, dataset_id: UUID, reason: str | None = None
) -> None:
    """Delete a dataset's key and file, and stop its jobs. Raises Refusal 404 or 503.

    Nobody can read the file once the key is gone, so a crash between the two leaves no rows. A file
    that could not be deleted, or of which the store keeps versions, is a 503: call again. With a
    pooled dataset its holders' are destroyed, and with a holder's the pooled one; other holders'
    stay.
    """
    with services.sessions.write() as session:
        row = visible_dataset(session, caller, dataset_id)
        rows = [row, *holders_of(session, row)]
        if row.pool_id is not None:
            rows.append(session.get_one(DatasetRow, row.pool_id))
        live = [part for part in rows if part.destroyed_at is None]
        for part in live:
            refuse_rewound(session, services, part.id)
        stop_all(session, "dataset_destroyed", JobRow.dataset_id.in_([part.id for part in live]))
        ledger.hold_pool(session, row.pool_id or row.id)
        for part in live:
            ledger.amend(session, part.id, "destroy", {}, caller.id, reason)
            part.wrapped_key, part.destroyed_at = None, utc_now()
            why: dict[str, Any] = {"reason": reason} if reason else {}
            note(session, caller, "dataset.destroy", part.id, **why)
        files = [part.id for part in rows if not part.holders]
    try:
        for one_id in files:
            services.vault.files.destroy(one_id)
    except VersionsKeptError:
        raise Refusal(503, "versions_kept", VERSIONS_KEPT) from None
