"""Reading jobs, and the chains and results that they released."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.services.accounts.access import own_job
from app.services.accounts.caller import Caller
from app.services.accounts.keys import living
from app.services.context import Services
from app.services.cursors import Page, by_time
from app.services.errors import Refusal, not_found
from app.services.jobs.kinds import kind_of, read
from app.services.jobs.kinds.chains import ChainJob
from app.services.jobs.kinds.dry import DRY, DryChainJob
from app.services.jobs.kinds.inferences import TaskBlock, first_block
from app.services.jobs.kinds.tasks import TaskJob
from app.services.jobs.wanted import Wanted
from app.services.results.chains import Draws, kept_draws, stored_columns
from app.storage.columns import schema_of
from app.storage.rows import JOB_STATUSES, DatasetRow, JobRow, ReleaseRow
from dpmcmc.base.private import Released
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner import Cost
from dpmcmc.posterior import diagnostics
from dpmcmc.posterior.explain import explained
from dpmcmc.posterior.units import Scale
from dpmcmc.queries.synthetic.drawn import Values
from dpmcmc.queries.tasks import table_of
from dpmcmc.queries.tasks.statistic import StatisticTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from dpmcmc.queries.tasks.two_stages import TwoStagesTask


@dataclass(frozen=True, slots=True)
class Chain:
    """A released chain. draws: warm-up included; not in memory where stored.

    verdict: status and sentence of what it is worth; None of a job before there were any.
    attributes: what it cost and how it was made.
    """

    job_id: UUID
    parameters: tuple[str, ...]
    num_warmup: int
    draws: Draws
    verdict: tuple[str, str] | None = None
    attributes: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of a job, as an event stream shows it."""

    id: UUID
    status: str
    step: int
    of: int
    started: datetime | None
    verdict: dict[str, Any] | None = None


_WATCHED = (
    JobRow.id,
    JobRow.status,
    JobRow.progress_step,
    JobRow.progress_of,
    JobRow.started_at,
    JobRow.verdict,
)


def seen(row: JobRow) -> Watched:
    """Return the first state of a job for a stream."""
    state = (row.status, row.progress_step, row.progress_of, row.started_at, row.verdict)
    return Watched(row.id, *state)


def job(services: Services, caller: Caller, job_id: UUID) -> JobRow:
    """Return the caller's job. Raises Refusal 404."""
    with services.sessions.read() as session:
        return own_job(session, caller, job_id)


def job_and_request(services: Services, caller: Caller, job_id: UUID) -> tuple[JobRow, Any]:
    """Return the caller's job, and its spec as submitted. Raises Refusal 404."""
    with services.sessions.read() as session:
        job = own_job(session, caller, job_id)
        return job, job.spec


def own_jobs(services: Services, caller: Caller, job_ids: Collection[UUID]) -> list[JobRow]:
    """Return the caller's jobs with these ids. Raises Refusal 404 where one is not theirs."""
    with services.sessions.read() as session:
        return [own_job(session, caller, job_id) for job_id in job_ids]


def watched(
    services: Services, job_ids: Collection[UUID], callers: Collection[Caller]
) -> tuple[dict[UUID, Watched], set[Caller]]:
    """Return jobs' present states, and the callers who are still authorised."""
    with services.sessions.read() as session:
        query = select(*_WATCHED).where(JobRow.id.in_(job_ids))
        jobs_now = {row.id: Watched(*row) for row in session.execute(query)}
        return jobs_now, living(session, callers)


def jobs(
    services: Services, caller: Caller, wanted: Wanted, limit: int, cursor: str | None
) -> Page[JobRow]:
    """Return a page of the caller's jobs, newest first."""
    with services.sessions.read() as session:
        query = select(JobRow).where(JobRow.user_id == caller.id, *wanted.conditions(caller.id))
        return by_time(session, query, JobRow.created_at, JobRow.id, limit, cursor)


def chain(services: Services, caller: Caller, job_id: UUID, scale: Scale = "original") -> Chain:
    """Return a succeeded job's chain. Raises Refusal 404 or 409 job_not_finished."""
    with services.sessions.read() as session:
        return _chain(services, session, _succeeded(session, caller, job_id), scale)


def summary(
    services: Services, caller: Caller, job_id: UUID, scale: Scale = "original"
) -> tuple[JobRow, Sequence[Mapping[str, Any]]]:
    """Return the job and its summary after warm-up. Raises as `chain`.

    Jobs of old have a list, of the standardised design.
    """
    with services.sessions.read() as session:
        job = _succeeded(session, caller, job_id)
        kept = {"design": job.summary} if isinstance(job.summary, list) else job.summary
        if kept and scale in kept:
            return job, kept[scale]
        released = _chain(services, session, job, scale)
    draws = np.stack([_whole(released.draws, chain) for chain in range(released.draws.shape[0])])
    after = Released(draws[:, released.num_warmup :])
    return job, [asdict(item) for item in diagnostics.summarise(after, released.parameters)]


def explanation(services: Services, job: JobRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return sentences that explain a regression, and the columns for its predictions.

    Neither of other jobs, and no sentences of old ones. job: one of the caller's that succeeded, as
    `summary` returns it.
    """
    kind = kind_of(job.resolved)
    if not issubclass(kind, ChainJob):
        return (), ()
    with services.sessions.read() as session:
        schema = schema_of(session.get_one(DatasetRow, job.dataset_id))
    chain_job = ChainJob.read(job.resolved)
    design = make_design(chain_job.used(schema), chain_job.spec.model.formula)
    kept, verdict = job.summary, job.verdict
    if kind is DryChainJob:
        return (DRY,), design.covariates
    if kept is None or isinstance(kept, list) or verdict is None or "original" not in kept:
        return (), design.covariates  # an old job
    sentences = explained(
        design,
        chain_job.spec.model,
        [diagnostics.ParameterSummary(**row) for row in kept["original"]],
        (verdict["status"], verdict["sentence"]),
        job.epsilon,
    )
    return sentences, design.covariates


def _whole(draws: Draws, chain: int) -> NDArray[np.float64]:
    """Return all draws (draw, parameter) of one chain."""
    return np.concatenate([piece for _, piece in draws.pieces(chain)])


@dataclass(frozen=True, slots=True)
class Kept:
    """A job's stored release, with the public facts needed to read it.

    dry: whether it was of made rows.
    """

    schema: Schema
    spec: JobSpec
    content: dict[str, Any]
    dry: bool = False


def release(services: Services, caller: Caller, job_id: UUID) -> Kept:
    """Return a succeeded job's stored release. Raises as `chain`, or Refusal 409 no_release."""
    with services.sessions.read() as session:
        job_row = _succeeded(session, caller, job_id)
        _check_kept(job_row)
        row = session.get(ReleaseRow, job_id)
        if row is None:
            raise Refusal(
                409,
                "no_release",
                "This job stored no release: its chains did not begin at one, or it ran long ago.",
            )
        dataset, job = (
            session.get_one(DatasetRow, job_row.dataset_id),
            ChainJob.read(job_row.resolved),
        )
        dry = kind_of(job_row.resolved) is DryChainJob
        return Kept(job.used(schema_of(dataset)), job.spec, row.content, dry)


def result(services: Services, caller: Caller, job_id: UUID) -> TaskBlock:
    """Return a succeeded task's first block. Raises as `chain`, or 409 job_without_result."""
    with services.sessions.read() as session:
        return first_block(session, _task(session, caller, job_id))


def statistic(services: Services, caller: Caller, job_id: UUID) -> TaskBlock:
    """Return a succeeded task's first block, for an inference. Raises as `result`."""
    with services.sessions.read() as session:
        released = first_block(session, _task(session, caller, job_id))
    if not isinstance(released.spec.task, StatisticTask | TwoStagesTask):
        message = "This task released no statistic that a family of rows is read from."
        raise Refusal(409, "job_without_result", message)
    return released


def table(
    services: Services, caller: Caller, job_id: UUID, number: int
) -> Iterator[Mapping[str, Values]]:
    """Yield a synthetic table by its number from 0, some rows at a time, by column name.

    Raises as `result`, or Refusal 404.
    """
    with services.sessions.read() as session:
        row = _task(session, caller, job_id)
        job = TaskJob.read(row.resolved)
        spec = job.spec
        if not isinstance(spec.task, SyntheticTask) or number >= spec.task.tables:
            raise not_found("table")
        schema = job.used(schema_of(session.get_one(DatasetRow, row.dataset_id)))
    of_block = (row.id, row.released_attempt or 0, 1 + number)
    parts = stored_columns(services.sessions, *of_block, schema.rows)
    return (table_of(replace(schema, rows=part.shape[1]), spec, part.reshape(-1)) for part in parts)


def _task(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    """Return the caller's succeeded task."""
    job = _succeeded_job(session, caller, job_id)
    if kind_of(job.resolved).answer != "result":
        message = "This job released a chain, and no task's result."
        raise Refusal(409, "job_without_result", message)
    _check_kept(job)
    return job


def _succeeded(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    """Return the caller's succeeded job."""
    job = _succeeded_job(session, caller, job_id)
    if kind_of(job.resolved).answer != "chain":
        message = "This job is a task, which releases no chain; its result is another address."
        raise Refusal(409, "job_without_chain", message)
    return job


def _succeeded_job(session: Session, caller: Caller, job_id: UUID) -> JobRow:
    """Return the caller's job, which has succeeded. Raises Refusal 404 and 409."""
    job = own_job(session, caller, job_id)
    if job.status in ("queued", "running"):
        raise Refusal(409, "job_not_finished", "The job has not finished yet.")
    if job.status != "succeeded":
        raise Refusal(409, "job_without_chain", f"The job {job.status}; it released no chain.")
    return job


def _check_kept(job: JobRow) -> None:
    """Raise Refusal 410 where retention has deleted the draws."""
    if job.expired_at is not None:
        message = "The draws were kept for their time and are deleted; job and summary stay."
        raise Refusal(410, "expired", message)


def _chain(services: Services, session: Session, job: JobRow, scale: Scale) -> Chain:
    """Return the chain of a succeeded job."""
    _check_kept(job)
    chain_job = read(job.resolved)
    schema = chain_job.used(schema_of(session.get_one(DatasetRow, job.dataset_id)))
    shown = chain_job.shown(schema, Cost(job.epsilon, job.delta, job.mu), scale)
    of_attempt = (job.id, job.released_attempt or 0, len(shown.parameters))
    draws = kept_draws(services.sessions, session, *of_attempt, shown.converted)
    verdict = (job.verdict["status"], job.verdict["sentence"]) if job.verdict else None
    return Chain(job.id, shown.parameters, shown.num_warmup, draws, verdict, shown.attributes)


def count_jobs(session: Session) -> dict[str, int]:
    """Return the number of jobs by status."""
    counted = session.execute(select(JobRow.status, func.count()).group_by(JobRow.status))
    counts = dict.fromkeys(JOB_STATUSES, 0)
    counts.update((status, number) for status, number in counted)
    return counts
