"""Fair scheduling: the next job is that of the analyst with the fewest running ones.

A message only says that some job waits. So it does not matter in which order messages come, and an
analyst who submits a thousand jobs delays the next one's by no more than one of them. Nor may the
jobs of one analyst fill every place: a running job is not taken away, however long it takes.
"""

import time
from uuid import UUID

from sqlalchemy import Select, bindparam, func, select, true
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.expression import ScalarSelect

from app import logs
from app.services.context import Services
from app.services.jobs.submit import tell
from app.storage.errors import StoreAwayError
from app.storage.rows import JobRow, UserRow
from worker.run import TimeUpError, run

TRIES = 8  # others may take the same job at the same moment
AWAY_SECONDS = 2.0  # until another worker is told of a job whose rows this one does not reach


def run_next(
    services: Services, hinted: UUID, time_up: type[BaseException] = TimeUpError
) -> UUID | None:
    """Run the next job in turn, and return its id; None where none is queued.

    hinted: the job that the message names, taken where others were quicker time after time.
    time_up: what the caller raises in here when the job's time is over.

    A process that does not reach the rows takes none, and after a while hands the message on.
    """
    try:
        return _run_next(services, hinted, time_up)
    except StoreAwayError as error:
        logs.logger().error("store_unavailable", job=str(hinted), reason=error.reason)
        time.sleep(AWAY_SECONDS)
        tell(services, hinted)
        return None


def _run_next(services: Services, hinted: UUID, time_up: type[BaseException]) -> UUID | None:
    """Run the next job in turn; the hinted one after losing several to other workers."""
    for _ in range(TRIES):
        job_id = _next(services)
        if job_id is None:
            return None
        if run(services, job_id, time_up):
            break
    else:
        job_id = hinted if run(services, hinted, time_up) else None
    _tell_of_next(services)
    return job_id


def _next(services: Services) -> UUID | None:
    """Return the next job in turn."""
    using = services.settings
    with services.sessions.read() as session:
        return whose_turn(session, using.max_attempts, using.running_of_user)


def _tell_of_next(services: Services) -> None:
    """Resend the message of a job that waited for its analyst's free slot."""
    job_id = _next(services)
    if job_id is not None:
        tell(services, job_id)


def whose_turn(session: Session, max_attempts: int, at_once: int) -> UUID | None:
    """Return the oldest queued job of the analyst with the fewest running, below `at_once`.

    Among equals the one whose last job started longest ago, then the oldest job. Each analyst costs
    a few look-ups in an index, however many jobs wait or have ended.
    """
    return session.scalar(_TURN, {"max_attempts": max_attempts, "at_once": at_once})


def _turn() -> Select[UUID]:
    """Return the query for the next job in turn."""
    turns = (
        select(
            func.coalesce(
                _oldest(JobRow.status == "running", JobRow.owner.is_(None)),
                _oldest(JobRow.status == "queued", true()),
            ).label("job_id"),
            select(func.count())
            .where(_theirs(), JobRow.status == "running", JobRow.owner.is_not(None))
            .scalar_subquery()
            .label("running"),
            select(func.max(JobRow.started_at)).where(_theirs()).scalar_subquery().label("last"),
        )
        .select_from(UserRow)
        .subquery()
    )
    has_place = turns.c.running < bindparam("at_once")
    return (
        select(JobRow.id)
        .join(turns, (turns.c.job_id == JobRow.id) & has_place)
        .order_by(turns.c.running, turns.c.last.nulls_first(), JobRow.created_at, JobRow.id)
        .limit(1)
    )


def _theirs() -> ColumnElement[bool]:
    """Return the condition that a job is the user's."""
    return JobRow.user_id == UserRow.id


def _oldest(status: ColumnElement[bool], free: ColumnElement[bool]) -> ScalarSelect[UUID]:
    """Return the query for a user's oldest job of this status that may be claimed."""
    return (
        select(JobRow.id)
        .where(_theirs(), status, free, JobRow.attempt < bindparam("max_attempts"))
        .order_by(JobRow.created_at, JobRow.id)
        .limit(1)
        .scalar_subquery()
    )


_TURN = _turn()  # made once: it takes longer to make than to run
