"""Whitenings that an analyst's own jobs have paid for: who may use which again.

A released value belongs to the analyst whose job released it: another's job is not even named.
"""

from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.jobs.caller import Caller
from app.jobs.specs import resolved_spec
from app.storage.rows import JobRow, ReleaseRow
from dpmcmc.design import make_design
from dpmcmc.errors import SpecError
from dpmcmc.releases import NoisyQuadraticOptions
from dpmcmc.releases.whitening import Whitening
from dpmcmc.reuse import Earlier
from dpmcmc.schema import Schema
from dpmcmc.spec import JobSpec
from dpmcmc.stored import StoredRelease

MOST = 100  # jobs that are looked through, newest first


class GoneError(Exception):
    """What a job was to use again is not there any more."""


def earlier(session: Session, caller: Caller, dataset_id: UUID) -> tuple[Earlier, ...]:
    """The caller's succeeded jobs on a dataset that paid for a whitening, newest first.

    One that failed or was cancelled has shown nothing: a payment has one release.
    """
    stored = exists().where(ReleaseRow.job_id == JobRow.id)
    query = select(JobRow).where(
        JobRow.user_id == caller.id,
        JobRow.dataset_id == dataset_id,
        JobRow.status == "succeeded",
        stored,
    )
    newest = query.order_by(JobRow.created_at.desc(), JobRow.id).limit(MOST)
    jobs = [(str(job.id), resolved_spec(job)) for job in session.scalars(newest)]
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
