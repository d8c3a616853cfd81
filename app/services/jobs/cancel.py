"""Cancelling jobs: a queued job is refunded; a running one stops and stays paid."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from app import ledger
from app.services.accounts.access import stoppable_job
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.errors import Refusal
from app.services.jobs.kinds import kind_of
from app.storage.clock import database_now
from app.storage.rows import FINAL_STATUSES, ChainBlockRow, JobRow

CANCELLED_SECONDS = 3600
TOO_MANY = "Too many of your jobs of the last hour were cancelled before they ran."


def cancel(services: Services, caller: Caller, job_id: UUID) -> JobRow:
    """Cancel a job (admin: any). Idempotent.

    Raises Refusal 404 or 409 job_finished.
    """
    with services.sessions.write() as session:
        before = stoppable_job(session, caller, job_id)
        if before.status in ("succeeded", "failed"):
            raise Refusal(409, "job_finished", "The job has ended; there is nothing to cancel.")
        if before.status not in FINAL_STATUSES:
            stop(session, job_id)
            if before.user_id != caller.id:
                note(session, caller, "job.cancel", job_id, user_id=before.user_id)
        session.expire_all()
        return stoppable_job(session, caller, job_id)


def refuse_after_many(session: Session, services: Services, caller: Caller) -> None:
    """Refuse jobs of an analyst with too many recent cancellations. Raises Refusal 429.

    Each of them leaves entries in ledgers, and nothing deletes those.
    """
    lately = (
        JobRow.user_id == caller.id,
        JobRow.status == "cancelled",
        JobRow.created_at > database_now(session) - timedelta(seconds=CANCELLED_SECONDS),
        JobRow.attempt == 0,
        JobRow.error_code.is_(None),  # not what others ended
    )
    if (
        session.scalar(select(func.count()).where(*lately)) or 0
    ) >= services.settings.max_cancelled:
        raise Refusal(429, "too_many_cancelled", TOO_MANY)


def stop(session: Session, job_id: UUID, code: str | None = None) -> None:
    """Void an unclaimed job; request a running one to stop.

    code: why, where it is not its analyst who cancels it. The job says so.
    """
    why = {} if code is None else {"error_code": code}
    if _end(session, job_id, why, JobRow.status == "queued"):
        give_back(session, job_id, code or "cancelled")
        return
    if _end(session, job_id, why, JobRow.status == "running", JobRow.owner.is_(None)):
        session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id == job_id))
        return
    session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status == "running")
        .values(cancel_requested=True, **why)
    )


def stop_all(session: Session, code: str | None, *conditions: ColumnElement[bool]) -> int:
    """Stop unfinished jobs that meet the conditions. Returns their number.

    Call it before anything else locks a ledger: a claim locks its job first.
    """
    live = (
        select(JobRow.id)
        .where(JobRow.status.in_(("queued", "running")), *conditions)
        .order_by(JobRow.dataset_id, JobRow.id)
        .with_for_update(key_share=True, of=JobRow)
    )
    jobs = session.scalars(live).all()
    ledger.hold(session, jobs)
    for job_id in jobs:
        stop(session, job_id, code)
    return len(jobs)


def end_waiting(session: Session, job_id: UUID, code: str) -> bool:
    """Fail an unclaimed job with error `code`, and release its reservation.

    Says whether it was there.
    """
    ended = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status.in_(("queued", "running")))
        .where(JobRow.owner.is_(None))
        .values(status="failed", error_code=code, token=JobRow.token + 1)
        .values(finished_at=database_now(session))
    )
    if ended.rowcount != 1:  # type: ignore[attr-defined]
        return False
    session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id == job_id))
    if session.get_one(JobRow, job_id).attempt == 0:
        give_back(session, job_id, code)
    return True


def give_back(session: Session, job_id: UUID, reason: str) -> None:
    """Release a job's reservation, if it has one."""
    if kind_of(session.get_one(JobRow, job_id).resolved).pays:
        ledger.void(session, job_id, reason=reason)


def _end(
    session: Session, job_id: UUID, why: Mapping[str, str], *conditions: ColumnElement[bool]
) -> bool:
    """End a job that meets the conditions. Returns whether it did."""
    now = database_now(session)
    ended = {"status": "cancelled", "cancel_requested": True, "finished_at": now, **why}
    done = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, *conditions)
        .values(token=JobRow.token + 1, **ended)
    )
    return bool(done.rowcount == 1)  # type: ignore[attr-defined]
