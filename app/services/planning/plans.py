"""Plans of jobs with their cost, from public facts. No dataset is opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app import ledger
from app.services.accounts.access import usable_dataset
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.errors import Fault, Refusal
from app.services.jobs.kinds.base import PaidJob
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow, JobRow
from dpmcmc.base.errors import SpecError, low_quality_remedy
from dpmcmc.inputs.schema import Schema
from dpmcmc.planner import BasePlan, check_rows
from dpmcmc.privacy.events import EventError

MOST_EARLIER = 50  # jobs whose results a plan looks at
LAST = (
    "After this job no job with Gaussian noise fits any more, and regressions have no other."
    " Ask for less, or for gaussian noise, which takes less of what such jobs share."
)

# what the verdicts of an analyst's last jobs say of columns
_NOTES = (
    select(JobRow.verdict["notes"])
    .where(
        JobRow.dataset_id == bindparam("dataset"),
        JobRow.user_id == bindparam("analyst"),
        JobRow.status == "succeeded",
    )
    .order_by(JobRow.finished_at.desc())
    .limit(MOST_EARLIER)
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan with the dataset's budget. remaining_after: epsilon at the dataset's delta.

    found: what the caller's earlier releases on the dataset found of the bounds of its columns, and
    whether pure noise would use up what Gaussian noise needs.
    """

    plan: BasePlan
    affordable: bool
    remaining_after: float
    found: tuple[str, ...]


def asked(
    services: Services, caller: Caller, dataset_id: UUID, job: PaidJob
) -> tuple[Schema, Sequence[Any]]:
    """Return the facts for planning: schema, and the caller's reusable releases."""
    with services.sessions.read() as session:
        dataset = usable_dataset(session, caller, dataset_id)
        check_bounded(session, dataset, job)
        try:
            used = job.used(schema_of(dataset))
        except SpecError as error:
            faults = [Fault(error.pointer, error.message)]
            raise Refusal(422, "invalid_request", "The job cannot be planned.", faults) from None
        return used, job.facts(session, caller, dataset_id)


def public_facts(services: Services, caller: Caller, dataset_id: UUID) -> Schema:
    """Return the public schema of a dataset that the caller may use. Raises Refusal."""
    with services.sessions.read() as session:
        return schema_of(usable_dataset(session, caller, dataset_id))


def checked(services: Services, schema: Schema, job: PaidJob, plan: BasePlan | Fault) -> BasePlan:
    """Return the plan if the job is within limits. Raises Refusal 422."""
    if isinstance(plan, Fault):
        raise Refusal(422, "invalid_request", "The job cannot be planned.", [plan])
    using = services.settings
    most, needed = using.max_result_bytes, job.answer_bytes(schema, plan)
    if needed > most:
        message = (
            f"Its answer would take {needed / 2**20:,.0f} MiB, and at most {most / 2**20:,.0f} MiB"
            " are sent: ask for fewer or coarser counts, or a batch in place of each row."
        )
        raise _too_large(Fault(job.too_many.pointer, message))
    if job.numbers(plan) > using.max_draws:
        raise _too_large(job.too_many)
    if job.memory_bytes(schema, plan) > using.job_memory_bytes:
        raise _too_large(job.too_wide)
    return plan


def refuse_few_rows(schema: Schema, plan: BasePlan) -> None:
    """Refuse a job whose draws are not trustworthy for so few rows. Raises Refusal 422."""
    try:
        check_rows(schema, plan)
    except SpecError as error:
        faults = [Fault(error.pointer, error.message)]
        raise Refusal(422, "invalid_request", "The job cannot be run.", faults) from None


def _too_large(fault: Fault) -> Refusal:
    """Return the refusal of a job that is too large."""
    return Refusal(422, "job_too_large", "The job is too large for this service.", [fault])


def low_quality(expected: str, epsilon: float | None) -> Refusal:
    """Return the refusal of an unusable plan. epsilon: one that would suffice."""
    remedy = low_quality_remedy(epsilon)
    return Refusal(
        422,
        "low_quality_plan",
        f"{expected} {remedy} Nothing was charged; accept_low_quality takes the job as it is.",
        [Fault("/privacy/epsilon", remedy)],
        {"usable_at": {"epsilon": epsilon}},
    )


def offer(
    services: Services, caller: Caller, dataset_id: UUID, job: PaidJob, plan: BasePlan
) -> Offer:
    """Return a plan with its effect on the budget. Free. Raises Refusal 422.

    The caller was let in by `asked`, a moment ago.
    """
    with services.sessions.read() as session:
        preview = ledger.preview(session, dataset_id, analyst_id=caller.id, event=plan.event)
        earlier = _found_earlier(session, caller, dataset_id, job.columns(plan))
    if not preview.bounded:
        raise unbounded(job)
    if preview.affordable and not preview.remaining_after and plan.cost.delta == 0.0:
        earlier += (LAST,)
    return Offer(plan, preview.affordable, preview.remaining_after, earlier)


def _found_earlier(
    session: Session, caller: Caller, dataset_id: UUID, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return notes that earlier releases gave on these columns. Free."""
    if not columns:
        return ()
    of_caller = {"dataset": dataset_id, "analyst": caller.id}
    notes: dict[str, str] = {}
    for every in session.scalars(_NOTES, of_caller):
        for note in every or ():
            if note["column"] in columns:
                notes.setdefault(note["column"], f"an earlier release found: {note['sentence']}")
    return tuple(notes.values())


def check_bounded(session: Session, dataset: DatasetRow, job: PaidJob) -> None:
    """Refuse, before planning, a job whose cost no branch of the filter bounds.

    What costs least of its kind is priced: a branch that has no bound for it has none for any.
    Raises Refusal.
    """
    event = job.least_event(dataset.rows)
    if event is None:
        return
    try:
        least = ledger.preview(session, dataset.id, event=event)
    except EventError:  # of other neighbours: the planner says so
        return
    if not least.bounded:
        raise unbounded(job)


def unbounded(job: PaidJob) -> Refusal:
    """Return the refusal of a job whose cost no branch of the filter bounds."""
    message = "This dataset cannot pay for the job."
    return Refusal(422, "invalid_request", message, [job.unbounded])
