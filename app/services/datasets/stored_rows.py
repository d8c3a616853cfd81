"""Check that stored rows can be decrypted, before a job pays for them.

A dataset whose file is missing, damaged or another one's is set aside: its waiting jobs end with
nothing paid, and it takes no more until an admin has put the file back and says so.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app import ledger, logs
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.errors import Refusal
from app.services.jobs.cancel import end_waiting
from app.storage.errors import DatasetFileError, StoreAwayError
from app.storage.keys import KeyFileError
from app.storage.rows import DatasetRow, JobRow
from app.storage.types import utc_now

UNAVAILABLE = "dataset_unavailable"
NOT_OURS = "it is not the one in which this installation keeps its rows"


def examine(services: Services, dataset: DatasetRow, holders: Sequence[DatasetRow]) -> None:
    """Check the files of a dataset that is not destroyed.

    Raises DatasetFileError where a file is at fault, StoreAwayError where this process does not
    reach the installation's store, and KeyFileError where it has another master key.
    """
    files = services.vault.files
    try:
        files.examine(dataset, holders)
    except DatasetFileError:
        if not files.is_marked(services.sessions.installation):
            raise StoreAwayError(NOT_OURS) from None
        raise
    except KeyFileError:
        if _opens_another(services, dataset, holders):
            raise DatasetFileError("the dataset's key cannot be opened") from None
        raise


def _opens_another(services: Services, dataset: DatasetRow, holders: Sequence[DatasetRow]) -> bool:
    """Return whether the master key decrypts some other dataset, hence is the right one."""
    excluded = [row.id for row in (dataset, *holders)]
    others = select(DatasetRow.id, DatasetRow.wrapped_key).where(
        DatasetRow.wrapped_key.is_not(None), DatasetRow.id.not_in(excluded)
    )
    with services.sessions.read() as session:
        keys = session.execute(others.limit(20)).all()
    return any(services.vault.files.opens(key or b"", at) for at, key in keys)


def check_store(services: Services) -> None:
    """Raise StoreAwayError where the store is not the installation's.

    A store without its mark is the installation's where it holds a file that our keys open, as
    after a move, and where no dataset has rows yet.
    """
    files = services.vault.files
    files.check()
    if files.is_marked(services.sessions.installation):
        return
    with services.sessions.read() as session:
        rows = session.scalars(
            select(DatasetRow)
            .where(DatasetRow.destroyed_at.is_(None), DatasetRow.holders.is_(None))
            .order_by(DatasetRow.created_at.desc())
        ).all()
    if rows and not any(_is_there(services, row) for row in rows):
        raise StoreAwayError(NOT_OURS)


def mark_store(services: Services) -> None:
    """Write the installation's marker into the store. Raises StoreAwayError."""
    check_store(services)
    services.vault.files.mark(services.sessions.installation)


def _is_there(services: Services, row: DatasetRow) -> bool:
    """Return whether a dataset's file is present and decrypts with its key."""
    try:
        services.vault.files.examine(row)
    except (DatasetFileError, KeyFileError):
        return False
    return True


def set_aside(services: Services, dataset: DatasetRow, reason: str) -> None:
    """Mark a dataset as unavailable, with its pooled dataset, and end its queued jobs.

    Whoever finds it first writes the entry of the audit trail. reason: what is wrong with the file.
    """
    datasets = [at for at in (dataset.id, dataset.pool_id) if at is not None]
    with services.sessions.write() as session:
        in_use = (
            select(DatasetRow.id)
            .where(DatasetRow.id.in_(datasets), DatasetRow.unavailable_at.is_(None))
            .where(DatasetRow.destroyed_at.is_(None))
            .order_by(DatasetRow.id)
            .with_for_update(key_share=True)
        )
        ids = session.scalars(in_use).all()
        waiting = _waiting(session, datasets)
        ledger.hold(session, waiting)
        for job_id in waiting:
            end_waiting(session, job_id, UNAVAILABLE)
        now = {"unavailable_at": utc_now(), "unavailable_reason": reason}
        session.execute(update(DatasetRow).where(DatasetRow.id.in_(ids)).values(now))
        for at in ids:
            note(session, None, "dataset.set_aside", at, reason=reason, jobs_ended=len(waiting))
    for at in ids:
        logs.logger().error("dataset_set_aside", dataset=str(at), reason=reason)


def set_aside_where_broken(services: Services, datasets: Sequence[DatasetRow]) -> bool:
    """Mark datasets with broken files as unavailable. Returns whether there was one.

    datasets: one, or a pooled one and its holders, whose files have its rows.
    """
    broken = False
    for dataset in datasets:
        try:
            if not dataset.holders:
                examine(services, dataset, ())
        except (DatasetFileError, KeyFileError) as error:
            set_aside(services, dataset, error.args[0])
            broken = True
    return broken


def _waiting(session: Session, dataset_ids: Sequence[UUID]) -> Sequence[UUID]:
    """Return the unclaimed jobs of datasets, locked for the transaction."""
    waits = (
        select(JobRow.id)
        .where(JobRow.dataset_id.in_(dataset_ids), JobRow.status.in_(("queued", "running")))
        .where(JobRow.owner.is_(None))
        .order_by(JobRow.dataset_id, JobRow.id)
        .with_for_update(key_share=True)
    )
    return session.scalars(waits).all()


def put_back(services: Services, session: Session, caller: Caller, dataset: DatasetRow) -> None:
    """Make a repaired dataset available again, with pooled ones that depend on it.

    Raises Refusal 409, and StoreAwayError.
    """
    holders = [
        session.get_one(DatasetRow, UUID(holder["dataset"])) for holder in dataset.holders or ()
    ]
    try:
        examine(services, dataset, holders)
    except (DatasetFileError, KeyFileError) as error:
        raise Refusal(409, "dataset_unavailable", f"It stays set aside: {error.args[0]}.") from None
    rows = [dataset, *holders]
    if dataset.pool_id is not None:
        pool = session.get_one(DatasetRow, dataset.pool_id)
        others = [
            session.get_one(DatasetRow, UUID(holder["dataset"])) for holder in pool.holders or ()
        ]
        if all(other.id == dataset.id or other.unavailable_at is None for other in others):
            rows.append(pool)
    for row in rows:
        if row.unavailable_at is not None:
            row.unavailable_at = row.unavailable_reason = None
            note(session, caller, "dataset.put_back", row.id)
