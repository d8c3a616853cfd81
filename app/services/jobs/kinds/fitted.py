"""Finished regressions that a later job reads: their models and some of their draws.

All of it was released. A released value belongs to the analyst whose job released it: another's job
is not even named.
"""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.errors import Refusal, invalid
from app.services.jobs.kinds.base import UnrunnableError
from app.services.jobs.kinds.chains import ChainJob
from app.services.jobs.kinds.dry import DryChainJob
from app.services.results.chains import some_draws
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow, JobRow, ReleaseRow
from dpmcmc.families import parameters_of
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.queries.checks.cells import MOST_DRAWS
from dpmcmc.queries.tasks.predictive_check import FittedModel, PredictiveCheckTask

POINTER = "/task/job"


def model_of(
    session: Session, caller: Caller, dataset_id: UUID, task: PredictiveCheckTask
) -> ModelSpec:
    """Return the model of the regression that a task names. Raises Refusal 422."""
    if task.model is not None:
        raise invalid("/task/model", "is that of the job: leave it out")
    job = _named(session, caller, task.job)
    if job.dataset_id != dataset_id:
        raise invalid(POINTER, "is of another dataset: name a job of this one")
    if job.status in ("queued", "running"):
        raise invalid(POINTER, "has not finished yet: wait for it")
    if job.status != "succeeded":
        raise invalid(POINTER, f"{job.status}: name a job that has succeeded")
    if DryChainJob.holds(job.resolved):
        raise invalid(POINTER, "is a dry run, whose rows were made: run it on the data first")
    if not ChainJob.holds(job.resolved):
        raise invalid(POINTER, "is no regression: name a job that has a model")
    if job.expired_at is not None:
        raise invalid(POINTER, "has no draws any more, after its time: run it again")
    return ChainJob.read(job.resolved).spec.model


def _named(session: Session, caller: Caller, name: str) -> JobRow:
    """Return the caller's job of this id. Raises Refusal 422."""
    unknown: Refusal = invalid(POINTER, "is no job of yours")
    try:
        job_id = UUID(name)
    except ValueError:
        raise unknown from None
    job = session.scalar(select(JobRow).where(JobRow.id == job_id, JobRow.user_id == caller.id))
    if job is None:
        raise unknown
    return job


def fitted_of(session: Session, task: PredictiveCheckTask) -> FittedModel:
    """Return what a check uses of a fit. Raises UnrunnableError where it was deleted."""
    job, kept = session.get(JobRow, UUID(task.job)), session.get(ReleaseRow, UUID(task.job))
    if job is None or job.status != "succeeded" or job.expired_at is not None:
        raise UnrunnableError("release_gone")
    regression = ChainJob.read(job.resolved)
    schema = regression.used(schema_of(session.get_one(DatasetRow, job.dataset_id)))
    parameters = len(parameters_of(schema, regression.spec.model))
    skipped = regression.spec.sampler.num_warmup or 0
    of_attempt = (job.id, job.released_attempt or 0, parameters)
    try:
        draws = some_draws(session, *of_attempt, skipped, MOST_DRAWS)
    except LookupError:
        raise UnrunnableError("release_gone") from None
    moments = None
    if kept is not None:
        moments = StoredRelease.read(schema, regression.spec, kept.content).moments
    reliable = job.verdict is not None and job.verdict["status"] == "reliable"
    return FittedModel(draws, moments, reliable)
