"""Whose turn it is: a free worker takes the job of whoever has the fewest running.

A message only says that some job waits. So it does not matter in which order messages come, and an
analyst who submits a thousand jobs delays the next one's by no more than one of them.
"""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from app.jobs.run import TimeUpError, run
from app.jobs.services import Services
from app.storage.rows import JobRow
from app.storage.types import utc_now

REMEMBERED = timedelta(days=1)  # how far back a turn counts
TRIES = 8  # others may take the same job at the same moment


def run_next(
    services: Services, hinted: UUID, time_up: type[BaseException] = TimeUpError
) -> UUID | None:
    """Run the job whose turn it is. Returns which one it was; None where none waits.

    hinted: the job that the message names, taken where others were quicker time after time.
    time_up: what the caller raises in here when the job's time is over.
    """
    for _ in range(TRIES):
        with services.sessions.read() as session:
            job_id = whose_turn(session, services.settings.max_attempts)
        if job_id is None:
            return None
        if run(services, job_id, time_up):
            return job_id
    return hinted if run(services, hinted, time_up) else None


def waits() -> ColumnElement[bool]:
    """The condition that a job has not ended and no worker holds it."""
    return or_(JobRow.status == "queued", (JobRow.status == "running") & JobRow.owner.is_(None))


def whose_turn(session: Session, max_attempts: int) -> UUID | None:
    """The oldest waiting job of the analyst with the fewest running.

    Among equals the one whose last job started longest ago, then the oldest job.
    """
    turns = (
        select(
            JobRow.user_id,
            func.count(JobRow.owner).label("running"),
            func.max(JobRow.started_at).label("last"),
        )
        .where(or_(JobRow.created_at >= utc_now() - REMEMBERED, JobRow.status == "running"))
        .group_by(JobRow.user_id)
        .subquery()
    )
    query = (
        select(JobRow.id)
        .outerjoin(turns, turns.c.user_id == JobRow.user_id)
        .where(waits(), JobRow.attempt < max_attempts)
        .order_by(
            func.coalesce(turns.c.running, 0),
            turns.c.last.nulls_first(),
            JobRow.created_at,
            JobRow.id,
        )
        .limit(1)
    )
    return session.scalar(query)
