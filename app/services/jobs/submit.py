"""Submission of jobs: reserve the cost and store the row in one transaction, tell the workers."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy import Table, bindparam, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import ledger, logs, tracing
from app.services.accounts.access import check_open, open_to
from app.services.accounts.caller import Caller
from app.services.budgets.rewind import refuse_rewound
from app.services.context import Services
from app.services.errors import Refusal, not_found
from app.services.jobs.cancel import refuse_after_many
from app.services.jobs.kinds import body_hash
from app.services.jobs.kinds.base import Job, PaidJob
from app.services.jobs.labels import Label
from app.services.planning.plans import asked, unbounded
from app.storage.clock import database_now
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow, JobRow
from dpmcmc.base.digits import rounded_down
from dpmcmc.base.names import ROW
from dpmcmc.inputs.schema import Schema
from dpmcmc.planner import BasePlan
from dpmcmc.privacy import event_json
from dpmcmc.privacy.events import Event

_JOBS = cast(Table, JobRow.__table__)
# made once: both run while other writers wait
_ADD_JOB = insert(_JOBS)
_WAITING = select(func.count()).where(
    JobRow.user_id == bindparam("analyst"), JobRow.status.in_(("queued", "running"))
)
_ADMITTED = select(
    DatasetRow.destroyed_at,
    DatasetRow.archived_at,
    DatasetRow.unavailable_at,
    _WAITING.scalar_subquery().label("waiting"),
).where(DatasetRow.id == bindparam("dataset"), open_to(bindparam("analyst")))


def begin(
    services: Services,
    caller: Caller,
    dataset_id: UUID,
    job: PaidJob,
    label: Label,
    key: str | None,
    accept_low_quality: bool,
) -> JobRow | tuple[Schema, Sequence[Any]]:
    """Return the job of this idempotency key, or the facts to plan a new one.

    Raises Refusal: 404, 422, 422 idempotency_key_reused.
    """
    digest = body_hash(dataset_id, job, label, accept_low_quality)
    earlier = earlier_of(services, caller, key, digest)
    return earlier or asked(services, caller, dataset_id, job)


@tracing.span("submit")
def submit(
    services: Services,
    caller: Caller,
    dataset_id: UUID,
    job: PaidJob,
    label: Label,
    key: str | None,
    accept_low_quality: bool,
    plan: BasePlan,
) -> JobRow:
    """Accept a planned job, or return the one that this idempotency key made meanwhile.

    Raises Refusal: 404, 409 budget_exhausted, 429 too_many_jobs and too_many_cancelled, 422
    idempotency_key_reused, 503 ledger_rewound.
    """
    digest = body_hash(dataset_id, job, label, accept_low_quality)
    with services.sessions.read() as session:
        refuse_rewound(session, services, dataset_id)
        now = database_now(session)
        protects = _protects(session, dataset_id, job)
    row = _row(caller, dataset_id, job, key, digest, now)
    row.protects, row.name, row.note = protects, label.name, label.note
    row.resolved, row.progress_of = job.settled(plan).as_json(), plan.num_steps
    row.reasons = list(plan.reasons) or None
    row.event, row.event_digest, row.epsilon, row.mu = {}, "", 0.0, 0.0
    row.delta = plan.cost.delta
    if job.pays:
        row.event, row.event_digest = event_json.as_dict(plan.event), event_json.digest(plan.event)
        row.epsilon, row.mu = plan.cost.epsilon, plan.cost.mu
        row.reserved_until = now + timedelta(seconds=services.settings.reservation_seconds)
    try:
        with tracing.span("reserve", job=row.id), services.sessions.write() as session:
            _admit(services, session, caller, dataset_id)
            refuse_after_many(session, services, caller)
            if job.pays:
                take(session, row, plan.event)
            else:
                session.add(row)
    except ledger.BudgetExhausted as refused:
        raise _exhausted(refused, job) from None
    except ledger.AccountClosed:
        raise Refusal(409, "dataset_closed", "This dataset takes no new jobs.") from None
    except IntegrityError:
        earlier = earlier_of(services, caller, key, digest)
        if earlier is None:
            raise
        return earlier
    return _accepted(services, row)


def submit_free(
    services: Services, caller: Caller, of: UUID, job: Job, num_draws: int, key: str | None
) -> JobRow:
    """Accept a job on what job `of` released, or return the one of this key.

    Raises Refusal 404, 429 too_many_jobs, 422 idempotency_key_reused.
    """
    with services.sessions.read() as session:
        paid = session.get_one(JobRow, of)
        dataset_id, protects = paid.dataset_id, paid.protects
        now = database_now(session)
    digest = body_hash(dataset_id, job)
    earlier = earlier_of(services, caller, key, digest)
    if earlier is not None:
        return earlier
    row = _row(caller, dataset_id, job, key, digest, now)
    row.resolved, row.progress_of, row.protects = row.spec, num_draws, protects
    row.event, row.event_digest, row.epsilon, row.delta, row.mu = {}, "", 0.0, 0.0, 0.0
    with services.sessions.write() as session:
        _check_waiting(services, session.scalar(_WAITING, {"analyst": caller.id}))
        refuse_after_many(session, services, caller)
        session.add(row)
    return _accepted(services, row)


def _accepted(services: Services, row: JobRow) -> JobRow:
    """Notify the workers of an accepted job, and return it."""
    logs.logger().info("job_accepted", job=str(row.id))
    tell(services, row.id)
    return row


def earlier_of(services: Services, caller: Caller, key: str | None, digest: str) -> JobRow | None:
    """Return the job of an idempotency key. Raises Refusal 422 where its body differs."""
    if key is None:
        return None
    with services.sessions.read() as session:
        earlier = session.scalar(
            select(JobRow).where(JobRow.user_id == caller.id, JobRow.idempotency_key == key)
        )
    if earlier is not None and earlier.body_hash != digest:
        raise Refusal(
            422, "idempotency_key_reused", "This Idempotency-Key was used for another job."
        )
    return earlier


def _admit(services: Services, session: Session, caller: Caller, dataset_id: UUID) -> None:
    """Refuse where the dataset is closed to the caller, or too many jobs are queued."""
    parameters = {"dataset": dataset_id, "analyst": caller.id}
    dataset = session.execute(_ADMITTED, parameters).one_or_none()
    if dataset is None:
        raise not_found("dataset")
    check_open(dataset)
    _check_waiting(services, dataset.waiting)


def _protects(session: Session, dataset_id: UUID, job: PaidJob) -> dict[str, Any] | None:
    """Return whom a job protects; None for single rows or an unknown dataset."""
    dataset = session.get(DatasetRow, dataset_id)
    if dataset is None or dataset.unit == ROW:
        return None
    used = job.used(schema_of(dataset))
    return dataset.protects | {"max_rows": used.unit_rows}


def _check_waiting(services: Services, waiting: int | None) -> None:
    """Refuse where the maximum number of jobs is queued."""
    if (waiting or 0) >= services.settings.max_jobs_waiting:
        raise Refusal(429, "too_many_jobs", "Too many of your jobs are waiting; try again later.")


def take(session: Session, job: JobRow, event: Event) -> None:
    """Insert a job's row and reserve its cost."""
    session.execute(_ADD_JOB, {c.key: getattr(job, c.key) for c in _JOBS.columns})
    ledger.reserve(
        session,
        job.dataset_id,
        job_id=job.id,
        analyst_id=job.user_id,
        event=event,
        until=job.reserved_until,
    )


def _row(
    caller: Caller, dataset_id: UUID, job: Job, key: str | None, digest: str, now: datetime
) -> JobRow:
    """Return the row of an unclaimed job. now: by the database's clock."""
    return JobRow(
        id=uuid4(),
        user_id=caller.id,
        dataset_id=dataset_id,
        key_id=caller.key_id,
        status="queued",
        spec=job.as_json(),
        idempotency_key=key,
        body_hash=digest if key else None,
        attempt=0,
        token=0,
        cancel_requested=False,
        progress_step=0,
        created_at=now,
        traceparent=tracing.carrier(),
    )


def _exhausted(refused: ledger.BudgetExhausted, job: PaidJob) -> Refusal:
    """Return the refusal of a job that exceeds the budget."""
    requested, remaining = refused.requested, refused.remaining
    if math.isinf(requested):
        return unbounded(job)
    whose = "Your allotment's" if refused.allotment else "The dataset's"
    message = f"{whose} remaining budget does not allow this job."
    if refused.failure is not None:
        needed, rest = refused.failure
        message = (
            f"{whose} remaining budget does not allow this job, which fails with probability"
            f" {needed:.4g}. Of the failure share, the part of delta for medians and maxima,"
            f" {rounded_down(rest)} is left. Ask for a smaller delta, or for another statistic,"
            " which needs none of it."
        )
    return Refusal(
        409,
        "budget_exhausted",
        message,
        extra={
            "of": "allotment" if refused.allotment else "dataset",
            "requested": {"epsilon": requested},
            "remaining": {"epsilon": remaining},
        },
    )


def tell(services: Services, job_id: UUID) -> bool:
    """Notify the workers of a job. A broker failure is ignored: recovery sends it again."""
    try:
        with tracing.span("enqueue", job=job_id):
            services.publish(job_id)
    except Exception as error:
        logs.logger().warning("publish_failed", job=str(job_id), exception=type(error).__name__)
        return False
    return True
