"""Recovery of jobs: requeues those of lost workers, and resends messages that were lost.

It goes by its own monotonic clock: a lease that it has seen unchanged for the lease's length has
lapsed, whatever the wall clocks say; reservations lapse by the database's clock. Every write is
conditional: more recovery processes do no harm.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app import ledger, logs
from app.services.context import Services
from app.services.jobs.submit import tell
from app.storage.clock import database_now
from app.storage.rows import ChainBlockRow, JobRow

FIRST_RESEND_SECONDS = 4.0
LAST_RESEND_SECONDS = 600.0


@dataclass(slots=True)
class Waiting:
    """A queued job as seen by this process. next_at: when to resend its message."""

    attempt: int
    next_at: float
    pause: float = FIRST_RESEND_SECONDS


@dataclass(slots=True)
class Recovery:
    """The recovery's state between rounds."""

    services: Services
    clock: Callable[[], float] = time.monotonic
    _leases: dict[UUID, tuple[int, datetime | None, float]] = field(default_factory=dict)
    _waiting: dict[UUID, Waiting] = field(default_factory=dict)

    def round(self) -> None:
        """Check all running and queued jobs once."""
        if not self._any():
            self._leases, self._waiting = {}, {}
            return
        self._expire()
        self._watch_leases()
        self._resend()

    def _any(self) -> bool:
        """Return whether there are running or queued jobs."""
        live = select(JobRow.id).where(JobRow.status.in_(("queued", "running"))).limit(1)
        with self.services.sessions.read() as session:
            return session.scalar(live) is not None

    def _expire(self) -> None:
        """End queued jobs whose reservation has expired."""
        with self.services.sessions.read() as session:
            now = database_now(session)
            late = select(JobRow.id).where(JobRow.status == "queued", JobRow.reserved_until < now)
            due = session.scalar(late.limit(1))
        if due is None:
            return
        with self.services.sessions.write() as session:
            lapsed = ledger.expire(session, now)
            session.execute(
                update(JobRow)
                .where(JobRow.id.in_(lapsed))
                .values(status="cancelled", error_code="reservation_expired", finished_at=now)
            )

    def _watch_leases(self) -> None:
        """Find running jobs whose lease was not renewed."""
        now = self.clock()
        held = select(JobRow.id, JobRow.token, JobRow.lease_until).where(
            JobRow.status == "running", JobRow.owner.is_not(None)
        )
        with self.services.sessions.read() as session:
            rows = session.execute(held).all()
        leases: dict[UUID, tuple[int, datetime | None, float]] = {}
        for job_id, token, lease in rows:
            before = self._leases.get(job_id)
            same = before is not None and before[:2] == (token, lease)
            since = before[2] if before is not None and same else now
            leases[job_id] = (token, lease, since)
            if now - since >= self.services.settings.lease_seconds:
                self._give_up(job_id, token, lease)
                del leases[job_id]
        self._leases = leases

    def _give_up(self, job_id: UUID, token: int, lease: datetime | None) -> None:
        """Requeue a job whose lease expired; fail it after the last attempt."""
        with self.services.sessions.write() as session:
            lost = (
                update(JobRow)
                .where(JobRow.id == job_id, JobRow.status == "running")
                .where(JobRow.token == token, JobRow.lease_until == lease)
                .values(owner=None, lease_until=None, token=JobRow.token + 1)
                .returning(JobRow.attempt, JobRow.cancel_requested)
            )
            row = session.execute(lost).one_or_none()
            if row is None:
                return
            ended = self._after_loss(session, job_id, row.attempt, row.cancel_requested)
        logs.logger().warning("worker_lost", job=str(job_id), attempt=row.attempt, ended=ended)
        if not ended:
            tell(self.services, job_id)

    def _after_loss(self, session: Session, job_id: UUID, attempt: int, cancelled: bool) -> bool:
        """End a job that was cancelled or has no attempt left. Returns whether it did."""
        session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id == job_id))
        if not cancelled and attempt < self.services.settings.max_attempts:
            return False
        session.execute(
            update(JobRow)
            .where(JobRow.id == job_id)
            .values(
                status="cancelled" if cancelled else "failed",
                error_code=JobRow.error_code if cancelled else "worker_lost",
                finished_at=database_now(session),
            )
        )
        return True

    def _resend(self) -> None:
        """Resend messages of jobs that are still queued."""
        now = self.clock()
        unowned = (
            select(JobRow.id, JobRow.attempt)
            .where(JobRow.status.in_(("queued", "running")), JobRow.owner.is_(None))
            .order_by(JobRow.created_at, JobRow.id)
        )
        with self.services.sessions.read() as session:
            rows = session.execute(unowned).all()
        before, self._waiting = self._waiting, {}
        for job_id, attempt in rows:
            entry = before.get(job_id)
            if entry is None or entry.attempt != attempt:
                entry = Waiting(attempt, now + FIRST_RESEND_SECONDS)
            elif now >= entry.next_at and tell(self.services, job_id):
                entry.pause = min(2 * entry.pause, LAST_RESEND_SECONDS)
                entry.next_at = now + entry.pause
            self._waiting[job_id] = entry
