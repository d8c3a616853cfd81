"""Retention: draws are deleted after some days; job, summary and debit remain."""

import time
from datetime import timedelta

from sqlalchemy import delete, select, update

from app import logs
from app.services.context import Services
from app.storage.clock import database_now
from app.storage.rows import ChainBlockRow, JobRow, ReleaseRow

EVERY_SECONDS = 60.0
AT_ONCE = 20  # jobs in one transaction: chains may be large


class Retention:
    """Deletes expired draws once a minute, where a retention time is set."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._next = 0.0

    def round(self) -> None:
        """Delete expired draws if the minute is over."""
        if not self._services.settings.chain_days or time.monotonic() < self._next:
            return
        while expire(self._services) == AT_ONCE:
            pass
        self._next = time.monotonic() + EVERY_SECONDS


def expire(services: Services) -> int:
    """Delete expired draws of some jobs; return the number of jobs."""
    with services.sessions.write() as session:
        now = database_now(session)
        ended = now - timedelta(days=services.settings.chain_days)
        due = (
            select(JobRow.id)
            .where(JobRow.status == "succeeded", JobRow.finished_at < ended)
            .where(JobRow.expired_at.is_(None))
            .order_by(JobRow.finished_at)
            .limit(AT_ONCE)
            .with_for_update(skip_locked=True)
        )
        expired = session.scalars(due).all()
        if expired:
            session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id.in_(expired)))
            session.execute(delete(ReleaseRow).where(ReleaseRow.job_id.in_(expired)))
            session.execute(update(JobRow).where(JobRow.id.in_(expired)).values(expired_at=now))
    for job_id in expired:
        logs.logger().info("chain_expired", job=str(job_id))
    return len(expired)
