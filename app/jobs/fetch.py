"""Read jobs and the chains that they released."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.jobs.access import own_job
from app.jobs.chains import stored_chain
from app.jobs.errors import Refusal
from app.jobs.pages import Page, by_time
from app.jobs.services import Services
from app.jobs.specs import resolved_spec
from app.jobs.users import Caller
from app.storage.columns import schema_of
from app.storage.rows import JOB_STATUSES, DatasetRow, JobRow
from dpmcmc import diagnostics
from dpmcmc.models import parameters_of
from dpmcmc.privacy.types import Released


@dataclass(frozen=True, slots=True)
class Chain:
    """A released chain. draws: (chain, draw, parameter), warm-up included and counted."""

    job_id: UUID
    parameters: tuple[str, ...]
    num_warmup: int
    draws: NDArray[np.float64]


def job(services: Services, caller: Caller, job_id: UUID) -> JobRow:
    """The caller's job. Raises Refusal 404."""
    with services.sessions.read() as session:
        return own_job(session, caller, job_id)


def jobs(services: Services, caller: Caller, limit: int, cursor: str | None) -> Page[JobRow]:
    """The caller's jobs, newest first."""
    with services.sessions.read() as session:
        query = select(JobRow).where(JobRow.user_id == caller.id)
        return by_time(session, query, JobRow.created_at, JobRow.id, limit, cursor)


def chain(services: Services, caller: Caller, job_id: UUID) -> Chain:
    """The released chain of a succeeded job. Raises Refusal 404 or 409 job_not_finished."""
    with services.sessions.read() as session:
        return _chain(session, _succeeded(session, caller, job_id))


def summary(
    services: Services, caller: Caller, job_id: UUID
) -> tuple[JobRow, Sequence[Mapping[str, Any]]]:
    """The job and the summary of its chain after warm-up. Raises as `chain`."""
    with services.sessions.read() as session:
        found = _succeeded(session, caller, job_id)
        if found.summary is not None:
            return found, found.summary
        released = _chain(session, found)
    kept = Released(released.draws[:, released.num_warmup :])
    return found, [asdict(item) for item in diagnostics.summarise(kept, released.parameters)]


def _succeeded(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    found = own_job(session, caller, job_id)
    if found.status in ("queued", "running"):
        raise Refusal(409, "job_not_finished", "The job has not finished yet.")
    if found.status != "succeeded":
        raise Refusal(409, "job_without_chain", f"The job {found.status}; it released no chain.")
    return found


def _chain(session: Session, job: JobRow) -> Chain:
    spec = resolved_spec(job)
    dataset = session.get_one(DatasetRow, job.dataset_id)
    parameters = parameters_of(schema_of(dataset), spec.model)
    draws = stored_chain(session, job.id, job.released_attempt or 0, len(parameters))
    return Chain(job.id, parameters, spec.sampler.num_warmup or 0, draws)


def count_jobs(session: Session) -> dict[str, int]:
    """How many jobs there are in each status."""
    counted = session.execute(select(JobRow.status, func.count()).group_by(JobRow.status))
    counts = dict.fromkeys(JOB_STATUSES, 0)
    counts.update((status, number) for status, number in counted)
    return counts
