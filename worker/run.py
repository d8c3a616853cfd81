"""Running a job: claim and pay in one transaction, open rows, store blocks, succeed once.

Every write names the claim's owner and token: a worker given up for lost can change nothing.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from app import ledger, logs, tracing
from app.ledger.anchors import AnchorError
from app.ledger.ends import End
from app.services.accounts.access import closed_to
from app.services.budgets.rewind import REWOUND, RewoundError, check, keep
from app.services.context import Services
from app.services.datasets import stored_rows
from app.services.datasets.records import holders_of
from app.services.jobs.cancel import end_waiting
from app.services.jobs.kinds import kind_of, runnable
from app.services.jobs.kinds.base import UnrunnableError, Work
from app.services.results.chains import stored_block, stored_chain
from app.storage.clock import database_now
from app.storage.cluster import cluster_of
from app.storage.columns import schema_of
from app.storage.errors import DatasetFileError, StoreAwayError
from app.storage.files import Spread
from app.storage.keys import KeyFileError
from app.storage.rows import ChainBlockRow, DatasetRow, JobRow, ReleaseRow
from app.storage.types import utc_now
from dpmcmc.base.private import Permit, Private, Released
from dpmcmc.inputs.streamed import AnyRows
from worker.claims import has_place, taken
from worker.heartbeat import Heartbeat, StoppedError

PATIENCE_SECONDS = 60.0  # with a database or a store that is away
RETRY_SECONDS = 0.5
T = TypeVar("T")
AWAY_OR_UNKEPT = (StoreAwayError, AnchorError)
AWAY = (OperationalError, InterfaceError, PoolTimeoutError, *AWAY_OR_UNKEPT)


class TimeUpError(Exception):
    """The job exceeded its time limit."""


class LostError(Exception):
    """The attempt's lease was lost: another worker owns the job, or it has ended."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt at a job, fenced by owner and token. num_draws: of each chain.

    work: what is to be run. permit: for the rows; None where none are opened. ends: where the
    ledgers ended with its debit. holders: of a pooled dataset, theirs. traceparent: the span in
    which the job was submitted.
    """

    job_id: UUID
    owner: str
    token: int
    attempt: int
    work: Work
    failure: str
    num_draws: int
    dataset: DatasetRow
    holders: Sequence[DatasetRow]
    permit: Permit | None
    ends: Sequence[End]
    traceparent: str | None

    def holds(self) -> list[ColumnElement[bool]]:
        """Return the SQL condition of this attempt's lease, for all its writes."""
        return [
            JobRow.id == self.job_id,
            JobRow.owner == self.owner,
            JobRow.token == self.token,
            JobRow.status == "running",
        ]


@dataclass(frozen=True, slots=True)
class Part:
    """A block of an attempt's draws. seq: its number; first: its first draw's number."""

    seq: int
    first: int
    block: Released[NDArray[np.float64]]

    @property
    def end(self) -> int:
        """Return the number of the draw after the block."""
        return self.first + int(self.block.value.shape[1])

    def values(self, claim: Claim) -> dict[str, Any]:
        """Return the values of its database row."""
        return {
            "job_id": claim.job_id,
            "attempt": claim.attempt,
            "seq": self.seq,
            "first_draw": self.first,
            "num_draws": self.end - self.first,
            "payload": np.ascontiguousarray(self.block.value, dtype="<f8").tobytes(),
        }


@dataclass(frozen=True, slots=True)
class Attempted:
    """What an attempt has released: the stored blocks, and the last one, not yet stored."""

    services: Services
    claim: Claim
    last: Part

    def draws(self) -> NDArray[np.float64]:
        """Return all blocks (chain, draw, parameter), concatenated."""
        draws = self.last.block.value
        if not self.last.seq:
            return draws
        return np.concatenate([patiently(partial(self._stored, draws.shape[2])), draws], axis=1)

    def first(self) -> NDArray[np.float64]:
        """Return the first block (numbers,)."""
        return patiently(self._first) if self.last.seq else self.last.block.value.reshape(-1)

    def _stored(self, parameters: int) -> NDArray[np.float64]:
        """Return the stored blocks."""
        with self.services.sessions.read() as session:
            return stored_chain(session, self.claim.job_id, self.claim.attempt, parameters)

    def _first(self) -> NDArray[np.float64]:
        """Return the stored first block."""
        with self.services.sessions.read() as session:
            return stored_block(session, self.claim.job_id, self.claim.attempt, 0)


def run(services: Services, job_id: UUID, time_up: type[BaseException] = TimeUpError) -> bool:
    """Run a job if it is still queued. A duplicate call does nothing.

    time_up: what the caller raises in here when the job's time is over. Says whether it was ours.
    Raises StoreAwayError where this process does not reach the rows; nothing is paid then.
    """
    began = tracing.now()
    if not _rows_are_there(services, job_id):
        return False
    claim = _claim(services, job_id)
    if claim is None:
        return False
    facts = {"job": job_id, "attempt": claim.attempt}
    with tracing.span("run", parent=claim.traceparent, start=began, **facts):
        with tracing.span("claim", start=began):
            pass  # it is known only now which trace it belongs to
        _work(services, claim, time_up)
    return True


def _work(services: Services, claim: Claim, time_up: type[BaseException]) -> None:
    """Run a claimed job to its end, or to the end of the attempt."""
    log = logs.logger().bind(job=str(claim.job_id), attempt=claim.attempt)
    log.info("job_claimed")
    expected = claim.work.seconds
    with Heartbeat(services, claim.holds(), claim.num_draws, expected) as heartbeat:
        try:
            outcome = _attempt(services, claim, heartbeat)
        except LostError:
            outcome = "lost"
        except AWAY as error:  # the job stays claimed until its lease ends
            log.error("job_interrupted", exception=type(error).__name__)
            last = claim.attempt >= services.settings.max_attempts
            if not (last and isinstance(error, AWAY_OR_UNKEPT)):
                return
            outcome = _fail(services, claim, "store_unavailable")
        except DatasetFileError as error:  # it was damaged since it was examined
            log.error("rows_unavailable", reason=error.args[0])
            outcome = _fail(services, claim, stored_rows.UNAVAILABLE)
            stored_rows.set_aside_where_broken(services, (claim.dataset, *claim.holders))
        except time_up:
            outcome = _fail(services, claim, "time_limit_exceeded")
        except (SQLAlchemyError, KeyFileError, OSError) as error:  # no algorithm raises them
            log.error("storage_failed", exception=type(error).__name__, where=logs.where(error))
            outcome = _fail(services, claim, "storage_failed")
        except Exception as error:
            log.error("job_failed", exception=type(error).__name__, where=logs.where(error))
            outcome = _fail(services, claim, claim.failure)
    tracing.note(outcome=outcome)
    log.info("job_ended", outcome=outcome)


def _rows_are_there(services: Services, job_id: UUID) -> bool:
    """Return whether a queued job's rows can be opened, checked before it pays.

    A dataset whose file is at fault is set aside, and its jobs end. Raises StoreAwayError.
    """
    with services.sessions.read() as session:
        job = session.get(JobRow, job_id)
        if job is None or job.owner is not None or job.status not in ("queued", "running"):
            return False
        if not kind_of(job.resolved).pays:
            return True
        dataset = session.get_one(DatasetRow, job.dataset_id)
        holders = holders_of(session, dataset)
    if dataset.destroyed_at is not None:
        return True  # it is the claim that ends such a job
    with tracing.span("examine rows", parent=job.traceparent, job=job_id):
        try:
            stored_rows.examine(services, dataset, holders)
        except KeyFileError:
            logs.logger().error("master_key_mismatch", job=str(job_id))  # for another worker
            return False
        except DatasetFileError:
            return not stored_rows.set_aside_where_broken(services, (dataset, *holders))
    return True


def _claim(services: Services, job_id: UUID) -> Claim | None:
    """Claim and pay for a job in one transaction; None where it is not queued."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"
    now, using = utc_now(), services.settings
    until = now + timedelta(seconds=using.lease_seconds)
    try:
        with services.sessions.write() as session:
            if not has_place(session, job_id, using.running_of_user):
                return None
            if not taken(session, job_id, owner, until, using.max_attempts):
                return None
            job = session.get_one(JobRow, job_id)
            dataset = session.get_one(DatasetRow, job.dataset_id)
            runnable_job = runnable(job.resolved)
            holders = _usable(services, session, job, dataset) if runnable_job.pays else ()
            work = runnable_job.work(session, runnable_job.used(schema_of(dataset)))
            permit, ends = _paid(services, session, job) if runnable_job.pays else (None, ())
            job.started_at = job.started_at or max(job.created_at, database_now(session))
            return Claim(
                job_id=job_id,
                owner=owner,
                token=job.token,
                attempt=job.attempt,
                work=work,
                failure=runnable_job.failure,
                num_draws=job.progress_of,
                dataset=dataset,
                holders=holders,
                permit=permit,
                ends=ends,
                traceparent=job.traceparent,
            )
    except KeyFileError:
        logs.logger().error("master_key_mismatch", job=str(job_id))  # it waits for another worker
        return None
    except UnrunnableError as error:
        _fail_unclaimed(services, job_id, error.code)
        return None
    except ledger.AccountClosed:
        _fail_unclaimed(services, job_id, "dataset_destroyed")
        return None
    except RewoundError:
        logs.logger().error("job_not_claimed", job=str(job_id), help=REWOUND)
        return None


def _usable(
    services: Services, session: Session, job: JobRow, dataset: DatasetRow
) -> Sequence[DatasetRow]:
    """Return the holders' datasets that the job may open. Raises where one is closed.

    Raises UnrunnableError, or KeyFileError.
    """
    if dataset.destroyed_at is not None:  # a population's ledger stays open
        raise UnrunnableError("dataset_destroyed")
    closed = closed_to(session, dataset, job)
    if closed is not None:
        raise UnrunnableError(closed)
    holders = holders_of(session, dataset)
    for row in (dataset, *holders):
        _check_key(services, row)
    return holders


def _paid(services: Services, session: Session, job: JobRow) -> tuple[Permit, Sequence[End]]:
    """Write the debit. Returns the permit for the rows, and the ledgers' ends."""
    permit = ledger.post(session, job.id)
    return permit, check(session, services, job.dataset_id)


def _check_key(services: Services, dataset: DatasetRow) -> None:
    """Raise KeyFileError where this process cannot decrypt the dataset."""
    wrapped = dataset.wrapped_key  # None: destroyed, which the ledger refuses
    if wrapped is not None and not services.vault.files.opens(wrapped, dataset.id):
        raise KeyFileError("the dataset's key was not wrapped by this master key")


def _fail_unclaimed(services: Services, job_id: UUID, code: str) -> None:
    """Fail an unclaimed job, unpaid."""
    with services.sessions.write() as session:
        end_waiting(session, job_id, code)


def _attempt(services: Services, claim: Claim, heartbeat: Heartbeat) -> str:
    """Run the attempt until it ends or the heartbeat stops it. Returns how it ended."""
    try:
        return _draw(services, claim, heartbeat)
    except StoppedError:
        if heartbeat.lost:
            raise LostError from None
        return _cancelled(services, claim)


def _draw(services: Services, claim: Claim, heartbeat: Heartbeat) -> str:
    """Open the rows and store block after block. Raises StoppedError."""
    blocks = claim.work.blocks(partial(_opened, services, claim, heartbeat))
    first, seq = 0, 0
    while True:
        with heartbeat.stops_work():
            block = next(blocks)
        part = Part(seq, first, block)
        if claim.work.finished(part.end, claim.num_draws):
            return _succeed(services, claim, part)
        _store(services, claim, part)
        first, seq = part.end, seq + 1


def _opened(
    services: Services, claim: Claim, heartbeat: Heartbeat
) -> tuple[Private[AnyRows], Permit]:
    """Return the rows, closed, with their permit."""
    if claim.permit is None:
        raise ledger.UnknownReservation("nothing was paid for")
    with heartbeat.stops_work():
        return _rows(services, claim, heartbeat), claim.permit


@tracing.span("open rows")
def _rows(services: Services, claim: Claim, heartbeat: Heartbeat) -> Private[AnyRows]:
    """Return the rows, closed, once the payment is anchored outside the database.

    A store that is away is waited for, here and wherever rows are read later on. Raises its error
    after PATIENCE_SECONDS, or StoppedError.
    """
    away = partial(_waited, heartbeat)
    began = time.monotonic()
    while True:
        try:
            keep(services, claim.ends)
            return services.vault.files.load(
                claim.dataset, claim.holders, away, _summing(services, claim)
            )
        except AWAY_OR_UNKEPT as error:
            away(error, began)


def _summing(services: Services, claim: Claim) -> Spread | None:
    """Return the cluster's summing function for the paid event; None without a cluster."""
    cluster = cluster_of(services.settings)
    if cluster is None or claim.permit is None:
        return None
    return cluster.spread(claim.permit.event_digest)


def _waited(heartbeat: Heartbeat, error: Exception, since: float) -> None:
    """Wait before a retry. Raises the error once it lasts too long, or StoppedError.

    Where it stays away in the middle of a pass nothing of that pass was released: the next attempt
    draws all of the job's event afresh, for the same payment (docs/proofs/filter.md, section 6).
    """
    if heartbeat.cancelled or heartbeat.lost:
        raise StoppedError from None
    if time.monotonic() > since + PATIENCE_SECONDS:
        raise error
    time.sleep(RETRY_SECONDS)


def patiently(act: Callable[[], T]) -> T:
    """Return act(), retried while the database is unavailable. act must be idempotent.

    Raises the database's last error after PATIENCE_SECONDS.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return act()
        except AWAY:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)


@tracing.span("store")
def _store(services: Services, claim: Claim, part: Part) -> None:
    """Store a block. Raises LostError where the lease was lost.

    When it was stored is not shown: see heartbeat.scheduled.
    """
    values = part.values(claim)

    def write() -> None:
        """Insert the block, if the lease holds."""
        with services.sessions.write() as session:
            ours = select(JobRow.id).where(*claim.holds()).with_for_update()
            if session.scalar(ours) is None:
                raise LostError
            if not _stored(session, claim, part.seq):
                session.execute(insert(ChainBlockRow).values(values))

    patiently(write)


def _stored(session: Session, claim: Claim, seq: int) -> bool:
    """Return whether a block is stored already, its commit's response having been lost."""
    return session.get(ChainBlockRow, (claim.job_id, claim.attempt, seq)) is not None


@tracing.span("succeed")
def _succeed(services: Services, claim: Claim, last: Part) -> str:
    """Store the last block and publish this attempt's chain in one transaction.

    What a release left behind is stored in it as well, and what one that stopped early did not draw
    is given back. Only of a first attempt: what an earlier one drew nobody knows any more, and the
    whole debit stays.
    """
    summary, verdict = claim.work.summary(Attempted(services, claim, last))
    kept, values = claim.work.kept(), last.values(claim)
    drawn = claim.work.drawn() if claim.attempt == 1 else None
    cancelled = False

    def write() -> None:
        """Insert the block and mark the job as succeeded, if the lease holds."""
        nonlocal cancelled
        with services.sessions.write() as session:
            job = session.scalar(select(JobRow).where(JobRow.id == claim.job_id).with_for_update())
            if job is not None and job.status == "succeeded":
                if job.token == claim.token:
                    return  # an earlier try of this very write
                raise LostError
            if job is None or (job.owner, job.token) != (claim.owner, claim.token):
                raise LostError
            if job.cancel_requested:
                cancelled = True
                return
            now = database_now(session)
            session.execute(insert(ChainBlockRow).values(values))
            job.progress_step = last.end
            job.status, job.released_attempt = "succeeded", claim.attempt
            job.owner = job.lease_until = None
            job.finished_at, job.summary, job.verdict = now, summary, verdict
            if drawn is not None:
                ledger.return_rest(session, claim.job_id, drawn.event)
                job.reserved_epsilon, job.reserved_mu = job.epsilon, job.mu
                job.epsilon, job.mu = drawn.cost.epsilon, drawn.cost.mu
            if kept is not None:
                session.execute(insert(ReleaseRow).values(job_id=claim.job_id, content=kept))
            session.execute(
                delete(ChainBlockRow).where(
                    ChainBlockRow.job_id == claim.job_id, ChainBlockRow.attempt != claim.attempt
                )
            )

    patiently(write)
    return _cancelled(services, claim) if cancelled else "succeeded"


def _cancelled(services: Services, claim: Claim) -> str:
    """End a cancelled job. The debit stays."""
    return _end(services, claim, status="cancelled", error_code=None)


def _fail(services: Services, claim: Claim, code: str) -> str:
    """Fail the job. The debit stays."""
    return _end(services, claim, status="failed", error_code=code)


def _end(services: Services, claim: Claim, *, status: str, error_code: str | None) -> str:
    """End the job without a chain. The debit stays."""
    outcome = status

    def write() -> None:
        """Update the job's status, if the lease holds."""
        nonlocal outcome
        with services.sessions.write() as session:
            ended = session.execute(
                update(JobRow)
                .where(*claim.holds())
                .values(
                    status=status,
                    error_code=error_code or JobRow.error_code,  # why it was stopped stays
                    owner=None,
                    lease_until=None,
                    finished_at=database_now(session),
                )
            )
            if ended.rowcount != 1:  # type: ignore[attr-defined]
                outcome = "lost"
                return
            session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id == claim.job_id))

    patiently(write)
    return outcome
