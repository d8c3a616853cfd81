"""Access control: which datasets and jobs a caller may see and use."""

from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, bindparam, exists, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from app.services.accounts.caller import Caller
from app.services.errors import Refusal, not_found
from app.storage.rows import DatasetRow, GrantRow, JobRow, KeyRow


def visible(caller: Caller) -> ColumnElement[bool]:
    """Return the SQL condition of the datasets that a caller may see."""
    if caller.role != "analyst":
        return DatasetRow.id.is_not(None)
    return open_to(caller.id)


def open_to(analyst: UUID | BindParameter[Any]) -> ColumnElement[bool]:
    """Return the SQL condition of the datasets that an analyst may use."""
    granted = exists().where(GrantRow.dataset_id == DatasetRow.id, GrantRow.user_id == analyst)
    return or_(DatasetRow.restricted.is_(False), granted)


# made once, and given their values as parameters: most requests run one of them
_ANY = select(DatasetRow).where(DatasetRow.id == bindparam("dataset"))
_OPEN = _ANY.where(open_to(bindparam("analyst")))
_OWN = select(JobRow).where(JobRow.id == bindparam("job"), JobRow.user_id == bindparam("user"))


def visible_dataset(session: Session, caller: Caller, dataset_id: UUID) -> DatasetRow:
    """Return the dataset. Raises Refusal 404 where it does not exist or is not visible."""
    query = _OPEN if caller.role == "analyst" else _ANY
    dataset = session.scalar(query, {"dataset": dataset_id, "analyst": caller.id})
    if dataset is None:
        raise not_found("dataset")
    return dataset


def usable_dataset(session: Session, caller: Caller, dataset_id: UUID) -> DatasetRow:
    """Return the dataset if it accepts new jobs. Raises Refusal 404 or 409."""
    dataset = visible_dataset(session, caller, dataset_id)
    check_open(dataset)
    return dataset


def check_open(dataset: Any) -> None:
    """Refuse a dataset that is archived or unavailable. Raises Refusal 409."""
    if dataset.destroyed_at is not None:
        raise Refusal(409, "dataset_destroyed", "The rows of this dataset were destroyed.")
    if dataset.archived_at is not None:
        raise Refusal(409, "dataset_archived", "This dataset is archived.")
    if dataset.unavailable_at is not None:
        raise Refusal(
            409,
            "dataset_unavailable",
            "The stored rows of this dataset cannot be read. An admin must put them right, and"
            " PATCH the dataset with available: true.",
        )


def closed_to(session: Session, dataset: DatasetRow, job: JobRow) -> str | None:
    """Return why a queued job may no longer run; None where it may.

    Most are ended when that comes about. This is for those that were taken in at that moment.
    """
    if dataset.archived_at is not None:
        return "dataset_archived"
    if session.execute(_OPEN, {"dataset": dataset.id, "analyst": job.user_id}).first() is None:
        return "grant_withdrawn"
    key = session.get(KeyRow, job.key_id) if job.key_id is not None else None
    return "key_revoked" if key is not None and key.revoked_at is not None else None


def stoppable_job(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    """Return a job that the caller may stop: an admin any, others their own. Raises Refusal 404."""
    if caller.role != "admin":
        return own_job(session, caller, job_id)
    job = session.get(JobRow, job_id)
    if job is None:
        raise not_found("job")
    return job


def own_job(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    """Return the caller's own job. Raises Refusal 404 where it is not theirs."""
    job = session.scalar(_OWN, {"job": job_id, "user": caller.id})
    if job is None:
        raise not_found("job")
    return job
