"""Take a job on: reserve its cost and write its row in one transaction, then tell the workers."""

import math
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import ledger, logs
from app.jobs.access import usable_dataset
from app.jobs.errors import Refusal
from app.jobs.plans import planned, unbounded
from app.jobs.services import Services
from app.jobs.specs import as_json, body_hash
from app.jobs.users import Caller
from app.storage.rows import JobRow
from app.storage.types import utc_now
from dpmcmc.planner import Plan
from dpmcmc.privacy import events
from dpmcmc.spec import JobSpec


def submit(
    services: Services, caller: Caller, dataset_id: UUID, spec: JobSpec, key: str | None
) -> JobRow:
    """Accept a job, or find the one that this idempotency key made before.

    Raises Refusal: 404, 422, 409 budget_exhausted, 429 too_many_jobs, 422 idempotency_key_reused.
    """
    digest = body_hash(dataset_id, spec)
    earlier = _earlier(services, caller, key, digest)
    if earlier is not None:
        return earlier
    with services.sessions.read() as session:
        dataset = usable_dataset(session, caller, dataset_id)
    plan = planned(services, dataset, spec)  # no lock is held while it thinks
    try:
        with services.sessions.debit() as session:
            job = _accept(services, session, caller, dataset_id, spec, plan)
            job.idempotency_key, job.body_hash = key, digest if key else None
            session.add(job)
            ledger.reserve(
                session,
                dataset_id,
                job_id=job.id,
                analyst_id=caller.id,
                event=plan.event,
                until=job.reserved_until,
            )
    except ledger.BudgetExhausted as refused:
        raise _exhausted(refused) from None
    except ledger.AccountClosed:
        raise Refusal(409, "dataset_closed", "This dataset takes no new jobs.") from None
    except IntegrityError:
        earlier = _earlier(services, caller, key, digest)
        if earlier is None:
            raise
        return earlier
    tell(services, job.id)
    return job


def _earlier(services: Services, caller: Caller, key: str | None, digest: str) -> JobRow | None:
    if key is None:
        return None
    with services.sessions.read() as session:
        found = session.scalar(
            select(JobRow).where(JobRow.user_id == caller.id, JobRow.idempotency_key == key)
        )
    if found is not None and found.body_hash != digest:
        raise Refusal(
            422, "idempotency_key_reused", "This Idempotency-Key was used for another job."
        )
    return found


def _accept(
    services: Services,
    session: Session,
    caller: Caller,
    dataset_id: UUID,
    spec: JobSpec,
    plan: Plan,
) -> JobRow:
    """The job's row, if the dataset still takes jobs and the caller has not too many waiting."""
    usable_dataset(session, caller, dataset_id)
    waiting = session.scalar(
        select(func.count()).where(
            JobRow.user_id == caller.id, JobRow.status.in_(("queued", "running"))
        )
    )
    if (waiting or 0) >= services.settings.max_jobs_waiting:
        raise Refusal(429, "too_many_jobs", "Too many of your jobs are waiting; try again later.")
    now = utc_now()
    return JobRow(
        id=uuid4(),
        user_id=caller.id,
        dataset_id=dataset_id,
        status="queued",
        spec=as_json(spec),
        resolved=as_json(plan.spec),
        event=events.as_dict(plan.event),
        event_digest=events.digest(plan.event),
        epsilon=plan.cost.epsilon,
        delta=plan.cost.delta,
        mu=plan.cost.mu,
        progress_of=plan.num_steps,
        created_at=now,
        reserved_until=now + timedelta(seconds=services.settings.reservation_seconds),
    )


def _exhausted(refused: ledger.BudgetExhausted) -> Refusal:
    """The refusal, worked out after the ledger's lock was given back."""
    requested, remaining = refused.requested, refused.remaining
    if math.isinf(requested):
        return unbounded()
    whose = "Your allotment's" if refused.allotment else "The dataset's"
    return Refusal(
        409,
        "budget_exhausted",
        f"{whose} remaining budget does not allow this job.",
        extra={
            "requested": {"epsilon": requested},
            "remaining": {"epsilon": remaining},
        },
    )


def tell(services: Services, job_id: UUID) -> bool:
    """Send the hint that a job waits. A broker that is away is no error: the reaper sends again."""
    try:
        services.publish(job_id)
    except Exception as error:
        logs.logger().warning("publish_failed", job=str(job_id), exception=type(error).__name__)
        return False
    return True
