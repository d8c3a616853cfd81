"""Whitenings that an analyst's own jobs have paid for: who may use which again.

A released value belongs to the analyst whose job released it: another's job is not even named.
"""

from uuid import UUID

from sqlalchemy import bindparam, exists, func, select
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.jobs.specs import resolved_spec
from app.storage.rows import JobRow, ReleaseRow
from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import FRESH, NoisyQuadraticOptions
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.releases.reuse import Earlier
from dpmcmc.releases.whitening import Whitening

MOST = 100  # jobs that are looked through, newest first
_NEWEST = (
    select(JobRow.id, JobRow.created_at, JobRow.resolved)
    .where(
        JobRow.user_id == bindparam("analyst"),
        JobRow.dataset_id == bindparam("dataset"),
        JobRow.status == "succeeded",
        exists().where(ReleaseRow.job_id == JobRow.id),
    )
    .order_by(JobRow.created_at.desc(), JobRow.id)
    .limit(MOST)
    .subquery()
)
# most jobs use a whitening again: the database leaves them out, and only the specs
# of those that paid for one are read
_PAYERS = (
    select(_NEWEST.c.id, _NEWEST.c.resolved)
    .where(
        _NEWEST.c.resolved["sampler", "algorithm"].as_string() == NoisyQuadraticOptions().algorithm,
        func.coalesce(_NEWEST.c.resolved["sampler", "whitening"].as_string(), FRESH) == FRESH,
    )
    .order_by(_NEWEST.c.created_at.desc(), _NEWEST.c.id)
)


class GoneError(Exception):
    """What a job was to use again is not there any more."""


def earlier(session: Session, caller: Caller, dataset_id: UUID) -> tuple[Earlier, ...]:
    """The caller's succeeded jobs on a dataset that paid for a whitening, newest first.

    One that failed or was cancelled has shown nothing: a payment has one release.
    """
    of_caller = {"analyst": caller.id, "dataset": dataset_id}
    jobs = [(str(job.id), resolved_spec(job)) for job in session.execute(_PAYERS, of_caller)]
    return tuple(
        Earlier(name, spec.model.formula, spec.privacy.noise_multiplier or 0.0)
        for name, spec in jobs
        if isinstance(spec.sampler, NoisyQuadraticOptions) and not spec.sampler.paid
    )


def used_again(session: Session, schema: Schema, spec: JobSpec) -> Whitening | None:
    """The whitening that a resolved job names, for its columns. Raises GoneError."""
    options = spec.sampler
    if not isinstance(options, NoisyQuadraticOptions) or not options.paid:
        return None
    name = UUID(options.whitening)
    job, kept = session.get(JobRow, name), session.get(ReleaseRow, name)
    if job is None or kept is None:
        raise GoneError
    release = StoredRelease.read(schema, resolved_spec(job), kept.content)
    try:
        return release.whitening(make_design(schema, spec.model.formula))
    except SpecError as error:
        raise GoneError from error
