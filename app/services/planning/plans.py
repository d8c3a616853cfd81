"""What a job would cost and bring. Public facts only: nothing here opens a dataset's rows."""

import json
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app import ledger
from app.services.accounts.access import usable_dataset
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.errors import Fault, Refusal
from app.services.jobs import whitenings
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow, JobRow
from dpmcmc import planner
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Column, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner.resolve import RELIABLE_ESS
from dpmcmc.planner.select import of_full_data
from dpmcmc.privacy.events import EventError, Gaussian, Repeat, WithoutReplacement
from dpmcmc.queries.summaries.statistics import Counts
from dpmcmc.queries.tasks import TaskPlan, TaskSpec
from dpmcmc.queries.tasks.summaries import SummariesTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from dpmcmc.releases import RELEASES
from dpmcmc.releases.reuse import Earlier

Made = planner.Plan | TaskPlan
BASE_BYTES = 2**29  # Python, the libraries and the compiled kernels
ROW_NUMBERS = 24  # of a row: its response, and what a column needs while it is made
DRAW_COPIES = 3
MOST_EARLIER = 50  # jobs whose results a plan looks at
LAST = (
    "After this job no job with Gaussian noise fits any more, and regressions have no other."
    " Ask for less, or for gaussian noise, which takes less of what such jobs share."
)
NUMBER_BYTES, ESTIMATE_BYTES = 24, 160  # of JSON: a number; an estimate without its name
LEAST_COST = 1e9  # noise multiplier of a step that costs next to nothing

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
    """A plan beside the dataset's budget. remaining_after: epsilon at the dataset's delta.

    found: what the caller's earlier releases on the dataset found of the bounds of its columns, and
    whether pure noise would use up what Gaussian noise needs.
    """

    plan: planner.Plan | TaskPlan
    affordable: bool
    remaining_after: float
    found: tuple[str, ...]


def asked(
    services: Services, caller: Caller, dataset_id: UUID, spec: JobSpec | TaskSpec
) -> tuple[Schema, tuple[Earlier, ...]]:
    """The facts that a job is planned from: public ones, and the caller's own. Raises Refusal."""
    with services.sessions.read() as session:
        dataset = usable_dataset(session, caller, dataset_id)
        if isinstance(spec, JobSpec):
            check_bounded(session, dataset, spec)
        return schema_of(dataset), whitenings.earlier(session, caller, dataset_id)


def public_facts(services: Services, caller: Caller, dataset_id: UUID) -> Schema:
    """The columns and the number of rows of a dataset that the caller may use. Raises Refusal."""
    with services.sessions.read() as session:
        return schema_of(usable_dataset(session, caller, dataset_id))


def checked(services: Services, schema: Schema, made: Made | Fault) -> Made:
    """The plan, if this service takes such a job. Raises Refusal 422."""
    if isinstance(made, Fault):
        raise Refusal(422, "invalid_request", "The job cannot be planned.", [made])
    if isinstance(made, TaskPlan):
        draws, fault = made.numbers, Fault("/task", "It would release too many numbers.")
    else:
        draws = made.num_steps * made.num_chains * len(made.parameters)
        fault = Fault("/sampler/num_steps", "Chains x steps x parameters is above the limit.")
    if isinstance(made, TaskPlan):
        check_answer(services, schema, made)
    if draws > services.settings.max_draws:
        raise Refusal(422, "job_too_large", "The job is too large for this service.", [fault])
    needed = memory_bytes(schema.rows, len(schema.columns), made)
    if needed > services.settings.job_memory_bytes:
        where = "/task" if isinstance(made, TaskPlan) else "/dataset"
        fault = Fault(where, "Rows x columns need more memory than a worker may take.")
        raise Refusal(422, "job_too_large", "The job is too large for this service.", [fault])
    return made


def check_answer(services: Services, schema: Schema, made: TaskPlan) -> None:
    """Refuse a task whose answer is more than this service sends at once. Raises Refusal 422."""
    most, needed = services.settings.max_result_bytes, answer_bytes(schema, made)
    if needed > most:
        told = (
            f"Its answer would take {needed / 2**20:,.0f} MiB, and at most {most / 2**20:,.0f} MiB"
            " are sent: ask for fewer or coarser counts, or a batch in place of each row."
        )
        fault = Fault("/task", told)
        raise Refusal(422, "job_too_large", "The job is too large for this service.", [fault])


def answer_bytes(schema: Schema, made: TaskPlan) -> int:
    """About the most bytes that a task's answer takes as JSON."""
    task = made.spec.task
    if isinstance(task, SyntheticTask):
        return 0  # some counts; each table is a file, which is written a piece at a time
    if not isinstance(task, SummariesTask):
        return NUMBER_BYTES * made.numbers
    names = {column.name: _longest(column) for column in schema.columns}
    counted = [one.columns for one in task.statistics if isinstance(one, Counts)]
    longest = max((sum(names[name] for name in columns) for columns in counted), default=0)
    return (ESTIMATE_BYTES + longest) * made.numbers


def _longest(column: Column) -> int:
    """The most bytes that a column and one of its values take in a name, as JSON."""
    values = () if isinstance(column, NumberColumn) else column.categories
    longest = max((len(json.dumps(value)) for value in values), default=NUMBER_BYTES)
    return len(json.dumps(column.name)) + longest


def low_quality(made: planner.Plan, epsilon: float | None) -> Refusal:
    """The refusal of a plan that is expected to be useless. epsilon: one that would do."""
    release = made.spec.sampler.algorithm in RELEASES
    width = "" if made.expected_width is None else f", {made.expected_width:.3g} times as wide"
    ess = made.expected_ess
    draws = "Nobody knows how many" if ess is None else f"Expected are {ess:.3g}"
    expected = (
        f"The rows are expected not to stand out of the noise{width}."
        if release
        else f"{draws} effective draws; {RELIABLE_ESS:g} are wanted."
    )
    remedy = (
        "No epsilon up to 1000 is known to mend that: leave the algorithm and its steps open."
        if epsilon is None
        else f"At epsilon {epsilon:.3g} it would do."
    )
    return Refusal(
        422,
        "low_quality_plan",
        f"{expected} {remedy} Nothing was charged; accept_low_quality takes the job as it is.",
        [Fault("/privacy/epsilon", remedy)],
        {"usable_at": {"epsilon": epsilon}},
    )


def offer(
    services: Services, caller: Caller, dataset_id: UUID, schema: Schema, made: Made
) -> Offer:
    """A plan held against the budget. Spends nothing. Raises Refusal 422.

    The caller was let in by `asked`, a moment ago.
    """
    with services.sessions.read() as session:
        preview = ledger.preview(session, dataset_id, analyst_id=caller.id, event=made.event)
        found: tuple[str, ...] = ()
        if isinstance(made, planner.Plan):
            found = _found_earlier(session, caller, dataset_id, schema, made)
    if not preview.bounded:
        raise unbounded(task=isinstance(made, TaskPlan))
    if preview.affordable and not preview.remaining_after and made.cost.delta == 0.0:
        found += (LAST,)
    return Offer(made, preview.affordable, preview.remaining_after, found)


def _found_earlier(
    session: Session, caller: Caller, dataset_id: UUID, schema: Schema, made: planner.Plan
) -> tuple[str, ...]:
    """What earlier releases found: released values and public facts. It spends nothing."""
    of_caller = {"dataset": dataset_id, "analyst": caller.id}
    told = [note for notes in session.scalars(_NOTES, of_caller) for note in notes or ()]
    if not told:
        return ()
    covariates = make_design(schema, made.spec.model.formula).covariates
    notes: dict[str, str] = {}
    for note in told:
        if note["column"] in covariates:
            notes.setdefault(note["column"], f"an earlier release found: {note['sentence']}")
    return tuple(notes.values())


def memory_bytes(rows: int, columns: int, made: Made) -> int:
    """The most memory that a process takes which runs the job.

    Eight bytes for every value, in the dataset's columns and twice in the model's (in blocks, and
    as made or, later, in the coordinates of a released covariance); ROW_NUMBERS and two numbers a
    chain for every row; the draws, and what a summary needs; and BASE_BYTES.
    """
    if isinstance(made, TaskPlan):
        return BASE_BYTES + 8 * (rows * (columns + ROW_NUMBERS) + made.numbers) + made.memory
    parameters, chains = len(made.parameters), made.num_chains
    numbers = rows * (columns + 2 * parameters + 2 * chains + ROW_NUMBERS)
    draws = made.num_steps * chains * parameters
    return BASE_BYTES + 8 * (numbers + DRAW_COPIES * draws)


def check_bounded(session: Session, dataset: DatasetRow, spec: JobSpec) -> None:
    """Refuse what no branch of the promise bounds before it is planned, which may take seconds.

    One step that costs next to nothing is priced: a branch that has no bound for it has none for
    any. Raises Refusal.
    """
    if of_full_data(spec.sampler):
        return
    step = Repeat(WithoutReplacement(Gaussian(LEAST_COST), 2, max(2, dataset.rows)), 1)
    try:
        least = ledger.preview(session, dataset.id, event=step)
    except EventError:  # of other neighbours: the planner says so
        return
    if not least.bounded:
        raise unbounded()


def unbounded(*, task: bool = False) -> Refusal:
    """The refusal of a job whose cost no branch of the dataset's promise bounds."""
    if task:
        told = (
            "The dataset's promise does not bound the cost of this noise: it takes a dataset whose"
            " privacy.branches has a failure share. That of gaussian and laplace needs none."
        )
        fault = Fault("/task/noise", told)
        return Refusal(422, "invalid_request", "This dataset cannot pay for the job.", [fault])
    fault = Fault(
        "/sampler/algorithm",
        "The dataset's promise does not bound this sampler's cost: it takes a dataset whose"
        " privacy.branches has an rdp order that does. Samplers of full data need none.",
    )
    return Refusal(422, "invalid_request", "This dataset cannot pay for the job.", [fault])
