"""Inferences that take longer than a request: jobs that read what another one released, for free.

Such a job has no entry in any ledger and opens no rows.
"""

import math
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app import logs, tracing
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.errors import Fault, Refusal
from app.services.jobs.specs import InferenceSpec, as_json, body_hash
from app.services.jobs.submit import earlier_of, tell
from app.services.results.fetch import TaskBlock, block_of
from app.storage.clock import database_now
from app.storage.rows import JobRow
from dpmcmc.base.errors import SpecError
from dpmcmc.queries import tasks
from dpmcmc.queries.statistics.questions import Question

AT_ONCE_SECONDS = 8.0  # what a request waits for


@dataclass(frozen=True, slots=True)
class Settled:
    """A question with its algorithm named, and about how long the answer takes."""

    question: Question
    seconds: float


def settled(found: TaskBlock, asked: Question) -> Settled | Fault:
    """What a question comes to, or what is wrong with it. Runs in a planner process."""
    try:
        told = tasks.settled_question(found.schema, found.spec, found.block, asked)
    except SpecError as error:
        return Fault(error.pointer, error.message)
    return Settled(*told)


def submit(
    services: Services, caller: Caller, of: UUID, question: Question, key: str | None
) -> JobRow:
    """Queue an inference on what the caller's job `of` released, or find the one of this key.

    Raises Refusal 404, 429 too_many_jobs, 422 idempotency_key_reused.
    """
    spec = InferenceSpec(str(of), question)
    with services.sessions.read() as session:
        dataset = session.get_one(JobRow, of).dataset_id
        now = database_now(session)
    digest = body_hash(dataset, spec)
    found = earlier_of(services, caller, key, digest)
    if found is not None:
        return found
    job = JobRow(
        id=uuid4(),
        user_id=caller.id,
        dataset_id=dataset,
        key_id=caller.key_id,
        status="queued",
        spec=as_json(spec),
        resolved=as_json(spec),
        event={},
        event_digest="",
        epsilon=0.0,
        delta=0.0,
        mu=0.0,
        idempotency_key=key,
        body_hash=digest if key else None,
        progress_of=question.draws,
        created_at=now,
        traceparent=tracing.carrier(),
    )
    with services.sessions.write() as session:
        waiting = select(func.count()).where(
            JobRow.user_id == caller.id, JobRow.status.in_(("queued", "running"))
        )
        if (session.scalar(waiting) or 0) >= services.settings.max_jobs_waiting:
            told = "Too many of your jobs are waiting; try again later."
            raise Refusal(429, "too_many_jobs", told)
        session.add(job)
    logs.logger().info("job_accepted", job=str(job.id))
    tell(services, job.id)
    return job


def given(session: Session, spec: InferenceSpec) -> TaskBlock | None:
    """What an inference reads; None where it is gone."""
    job = session.get(JobRow, UUID(spec.of))
    if job is None or job.status != "succeeded" or job.expired_at is not None:
        return None
    return block_of(session, job)


def expected_seconds(found: TaskBlock, asked: Question) -> float:
    """About how long it runs, above 0."""
    told = tasks.settled_question(found.schema, found.spec, found.block, asked)
    return told[1] if math.isfinite(told[1]) else 1.0
