"""Claiming jobs: who may claim one, and the transaction that claims and pays for it."""

from datetime import datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from app.storage.rows import JobRow, UserRow

_JOBS = cast(Table, JobRow.__table__)
# made once: each takes longer to make than to run, and others wait while a claim writes
_OWNER = (
    select(UserRow.id)
    .where(
        UserRow.id == select(JobRow.user_id).where(JobRow.id == bindparam("job")).scalar_subquery()
    )
    .with_for_update(key_share=True)
)
_RUNNING = select(func.count()).where(
    JobRow.user_id == bindparam("user"), JobRow.status == "running", JobRow.owner.is_not(None)
)
_WAITS = or_(JobRow.status == "queued", (JobRow.status == "running") & JobRow.owner.is_(None))
_TAKE = (
    update(_JOBS)
    .where(JobRow.id == bindparam("job"), _WAITS, JobRow.attempt < bindparam("most"))
    .where(JobRow.user_id.in_(select(UserRow.id).where(UserRow.disabled_at.is_(None))))
    .values(
        status="running",
        owner=bindparam("by"),
        token=JobRow.token + 1,
        attempt=JobRow.attempt + 1,
        lease_until=bindparam("until"),
        progress_step=0,
    )
)


def has_place(session: Session, job_id: UUID, at_once: int) -> bool:
    """Return whether the job's analyst may run another. Locks the user's row."""
    user = session.scalar(_OWNER, {"job": job_id})
    return (session.scalar(_RUNNING, {"user": user}) or 0) < at_once


def taken(session: Session, job_id: UUID, owner: str, until: datetime, most: int) -> bool:
    """Claim a queued job for its next attempt, if any is left. Returns whether it was queued."""
    values = {"job": job_id, "by": owner, "until": until, "most": most}
    result: Any = session.execute(_TAKE, values)
    return bool(result.rowcount == 1)
