"""Datasets: taken in whole or not at all, changed by ledger entries, destroyed for good."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app import ledger
from app.jobs.access import visible, visible_dataset
from app.jobs.cancel import stop
from app.jobs.errors import Fault, Refusal, invalid
from app.jobs.pages import Page, by_number, by_time, encode
from app.jobs.services import Services
from app.jobs.users import Caller
from app.storage.columns import columns_json, parse_columns
from app.storage.errors import IngestError, StoreError, VersionsKeptError
from app.storage.ingest import ingest
from app.storage.limits import Limits
from app.storage.rows import DatasetRow, GrantRow, JobRow, UserRow
from app.storage.types import utc_now
from dpmcmc.privacy.filter import FilterTerms
from dpmcmc.privacy.types import Neighbouring

PARQUET_MAGIC = b"PAR1"
VERSIONS_KEPT = (
    "The key is destroyed, so nobody can read the rows; but the store keeps versions of the"
    " encrypted file that it does not let us delete."
)
UPLOAD_REFUSED = "The upload cannot be taken; nothing was stored."


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What an admin declares about an upload."""

    name: str
    description: str
    columns: Sequence[Mapping[str, Any]]
    neighbouring: str
    epsilon: float
    delta: float
    gdp_weight: float = 1.0
    renyi: tuple[tuple[float, float], ...] = ()
    grants: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """A dataset with its budget. grants: None where every analyst may use it."""

    row: DatasetRow
    balance: ledger.Balance
    grants: Sequence[UUID] | None


@dataclass(frozen=True, slots=True)
class Budget:
    """A dataset's budget. allotments: every analyst's cap, or an analyst's own one."""

    balance: ledger.Balance
    allotments: Sequence[ledger.Allotted]
    history: Sequence[ledger.HistoryPoint] = ()


def create(services: Services, caller: Caller, definition: Definition, file: BinaryIO) -> Described:
    """Take an upload in: the encrypted file first, then record and ledger in one transaction.

    Raises Refusal 422; its counts per column are for the uploading admin only.
    """
    dataset_id = uuid4()
    try:
        terms = FilterTerms(
            definition.epsilon,
            definition.delta,
            Neighbouring(definition.neighbouring),
            definition.gdp_weight,
            definition.renyi,
        )
    except ValueError:
        raise invalid("/metadata/privacy", "This budget cannot be kept.") from None
    with services.sessions.read() as session:
        _check_users(session, definition.grants, "/metadata/grants")
    try:
        columns = parse_columns([dict(column) for column in definition.columns])
        stored = ingest(
            services.vault.files,
            dataset_id,
            file,
            _format(file),
            columns,
            Limits(file_bytes=services.settings.max_upload_bytes),
        )
    except IngestError as error:
        raise _refused(error) from None
    row = DatasetRow(
        id=dataset_id,
        name=definition.name,
        description=definition.description,
        columns=columns_json(columns),
        rows=stored.rows,
        neighbouring=definition.neighbouring,
        restricted=definition.grants is not None,
        wrapped_key=stored.wrapped_key,
        created_by=caller.id,
        created_at=utc_now(),
    )
    try:
        return _record(services, caller, row, terms, definition.grants)
    except BaseException:
        with suppress(StoreError):  # the sweep deletes what stays
            services.vault.files.destroy(dataset_id)
        raise


def _record(
    services: Services,
    caller: Caller,
    row: DatasetRow,
    terms: FilterTerms,
    grants: Sequence[UUID] | None,
) -> Described:
    with services.sessions.write() as session:
        session.add(row)
        ledger.open_account(session, row.id, terms, caller.id)
        if grants is not None:
            _grant(session, caller, row.id, grants)
        return _described(session, row)


def _format(file: BinaryIO) -> Any:
    file.seek(0)
    magic = file.read(len(PARQUET_MAGIC))
    file.seek(0)
    return "parquet" if magic == PARQUET_MAGIC else "csv"


def _refused(error: IngestError) -> Refusal:
    """An upload's faults. Places among the declared columns lie in the metadata."""
    found = [
        Fault(place if place.startswith("/file") else f"/metadata{place}", message)
        for place, message in error.problems
    ]
    return Refusal(422, error.code, UPLOAD_REFUSED, found)


def _check_users(session: Session, grants: Sequence[UUID] | None, pointer: str) -> None:
    if not grants:
        return
    known = set(session.scalars(select(UserRow.id).where(UserRow.id.in_(grants))))
    for index, user_id in enumerate(grants):
        if user_id not in known:
            raise invalid(f"{pointer}/{index}", "There is no such user.")


def _grant(
    session: Session, caller: Caller, dataset_id: UUID, grants: Sequence[UUID] | None
) -> None:
    """Say who may use a dataset, in its ledger and in the grants' table."""
    users = None if grants is None else sorted({str(user) for user in grants})
    ledger.amend(session, dataset_id, "grant", {"users": users}, caller.id)
    session.execute(delete(GrantRow).where(GrantRow.dataset_id == dataset_id))
    session.add_all(GrantRow(dataset_id=dataset_id, user_id=UUID(user)) for user in users or ())
    session.execute(
        update(DatasetRow).where(DatasetRow.id == dataset_id).values(restricted=users is not None)
    )
    session.flush()


def _grants(session: Session, row: DatasetRow) -> Sequence[UUID] | None:
    if not row.restricted:
        return None
    query = select(GrantRow.user_id).where(GrantRow.dataset_id == row.id)
    return session.scalars(query.order_by(GrantRow.user_id)).all()


def _described(session: Session, row: DatasetRow) -> Described:
    return Described(row, ledger.balance(session, row.id), _grants(session, row))


def dataset(services: Services, caller: Caller, dataset_id: UUID) -> Described:
    """One dataset. Raises Refusal 404."""
    with services.sessions.read() as session:
        return _described(session, visible_dataset(session, caller, dataset_id))


def datasets(services: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Described]:
    """The datasets that a caller may see, newest first."""
    with services.sessions.read() as session:
        page = _page(session, caller, limit, cursor)
        found = ledger.balances(session, [row.id for row in page.items])
        items = [Described(row, found[row.id], _grants(session, row)) for row in page.items]
    return Page(items, page.next_cursor)


def _page(session: Session, caller: Caller, limit: int, cursor: str | None) -> Page[DatasetRow]:
    query = select(DatasetRow).where(visible(caller))
    return by_time(session, query, DatasetRow.created_at, DatasetRow.id, limit, cursor)


def budget(services: Services, caller: Caller, dataset_id: UUID) -> Budget:
    """One dataset's budget, without its history. Raises Refusal 404."""
    with services.sessions.read() as session:
        visible_dataset(session, caller, dataset_id)
        (caps,) = _allotments(session, caller, [dataset_id]).values()
        return Budget(ledger.balance(session, dataset_id), caps)


def budgets(services: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Budget]:
    """The budgets of the visible datasets, with their histories."""
    with services.sessions.read() as session:
        page = _page(session, caller, limit, cursor)
        ids = [row.id for row in page.items]
        found, caps = ledger.balances(session, ids), _allotments(session, caller, ids)
        items = [Budget(found[at], caps[at], ledger.history(session, at)) for at in ids]
    return Page(items, page.next_cursor)


def _allotments(
    session: Session, caller: Caller, dataset_ids: Sequence[UUID]
) -> dict[UUID, list[ledger.Allotted]]:
    """All caps for those who oversee; an analyst is told of the own one only."""
    own = caller.id if caller.role == "analyst" else None
    return ledger.allotments(session, dataset_ids, own)


def entries(
    services: Services, caller: Caller, dataset_id: UUID, limit: int, cursor: str | None
) -> Page[ledger.Entry]:
    """A dataset's ledger, oldest first. Raises Refusal 404."""
    after = by_number(cursor)
    with services.sessions.read() as session:
        visible_dataset(session, caller, dataset_id)
        found = ledger.entries(session, dataset_id, after, limit + 1)
    more = encode(found[limit - 1].seq) if len(found) > limit else None
    return Page(found[:limit], more)


def verify(services: Services, caller: Caller, dataset_id: UUID) -> ledger.Verification:
    """Recompute a dataset's ledger. Raises Refusal 404."""
    with services.sessions.read() as session:
        visible_dataset(session, caller, dataset_id)
        return ledger.verify(session, dataset_id)


def amend(
    services: Services, caller: Caller, dataset_id: UUID, changes: Mapping[str, Any]
) -> Described:
    """Apply `privacy`, `archived`, `grants` and `allotments`, all or none.

    Raises Refusal 404, 409, 422.
    """
    try:
        with services.sessions.write() as session:
            row = visible_dataset(session, caller, dataset_id)
            if row.destroyed_at is not None:
                raise Refusal(409, "dataset_destroyed", "The rows of this dataset were destroyed.")
            _raise_budget(session, caller, dataset_id, changes.get("privacy"))
            _archive(session, caller, row, changes.get("archived"))
            if "grants" in changes:
                _check_users(session, changes["grants"], "/grants")
                _grant(session, caller, dataset_id, changes["grants"])
            _allot(session, caller, dataset_id, changes.get("allotments", {}))
            session.flush()
            session.expire_all()
            return _described(session, visible_dataset(session, caller, dataset_id))
    except ledger.AmendmentRefused:
        raise Refusal(409, "amendment_refused", "The ledger refuses this change.") from None


def _raise_budget(
    session: Session, caller: Caller, dataset_id: UUID, raised: Mapping[str, float] | None
) -> None:
    named = {name: value for name, value in (raised or {}).items() if value is not None}
    if not named:
        return
    terms = ledger.terms_of(session, dataset_id)
    for name, value in named.items():
        if value < getattr(terms, name):
            raise invalid(f"/privacy/{name}", "A budget is never lowered.")
    ledger.amend(session, dataset_id, "raise_budget", named, caller.id)


def _allot(
    session: Session, caller: Caller, dataset_id: UUID, caps: Mapping[UUID, float | None]
) -> None:
    """Cap analysts under the dataset's budget (None: no more): an entry for each change."""
    if not caps:
        return
    analysts = select(UserRow.id).where(UserRow.id.in_(caps), UserRow.role == "analyst")
    known = set(session.scalars(analysts))
    now = ledger.allotments(session, [dataset_id])[dataset_id]
    before = {own.analyst_id: own.epsilon for own in now}
    for analyst, epsilon in sorted(caps.items()):
        if analyst not in known:
            raise invalid(f"/allotments/{analyst}", "There is no such analyst.")
        if epsilon != before.get(analyst):
            details = {"analyst": str(analyst), "epsilon": epsilon}
            ledger.amend(session, dataset_id, "allot", details, caller.id)


def _archive(session: Session, caller: Caller, row: DatasetRow, archived: bool | None) -> None:
    if archived is None or archived == (row.archived_at is not None):
        return
    ledger.amend(session, row.id, "archive" if archived else "unarchive", {}, caller.id)
    row.archived_at = utc_now() if archived else None


def destroy(services: Services, caller: Caller, dataset_id: UUID) -> None:
    """Forget a dataset's key, stop its jobs, and delete its file. Raises Refusal 404 or 503.

    Nobody can read the file once the key is gone, so a crash between the two leaves no rows. A file
    that could not be deleted, or of which the store keeps versions, is a 503: call again.
    """
    with services.sessions.write() as session:
        row = visible_dataset(session, caller, dataset_id)
        if row.destroyed_at is None:
            _stop_jobs(session, dataset_id)
            ledger.amend(session, dataset_id, "destroy", {}, caller.id)
            row.wrapped_key, row.destroyed_at = None, utc_now()
    try:
        services.vault.files.destroy(dataset_id)
    except VersionsKeptError:
        raise Refusal(503, "versions_kept", VERSIONS_KEPT) from None


def _stop_jobs(session: Session, dataset_id: UUID) -> None:
    live = (
        select(JobRow.id)
        .where(JobRow.dataset_id == dataset_id, JobRow.status.in_(("queued", "running")))
        .order_by(JobRow.id)
        .with_for_update()
    )
    for job_id in session.scalars(live).all():
        stop(session, job_id)
