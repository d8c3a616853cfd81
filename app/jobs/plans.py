"""What a job would cost and bring. Public facts only: nothing here opens a dataset's rows."""

import math
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from app import ledger
from app.jobs.access import usable_dataset
from app.jobs.errors import Fault, Refusal
from app.jobs.services import Services
from app.jobs.users import Caller
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow
from dpmcmc import planner
from dpmcmc.choice import of_full_data
from dpmcmc.errors import SpecError
from dpmcmc.privacy.events import EventError, Gaussian, Repeat, WithoutReplacement
from dpmcmc.spec import JobSpec

BASE_BYTES = 2**29  # Python, the libraries and the compiled kernels
ROW_NUMBERS = 24  # of a row: its response, and what a column needs while it is made
DRAW_COPIES = 3
LEAST_COST = 1e9  # noise multiplier of a step that costs next to nothing


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan beside the dataset's budget. remaining_after: epsilon at the dataset's delta."""

    plan: planner.Plan
    affordable: bool
    remaining_after: float


def plan(services: Services, caller: Caller, dataset_id: UUID, spec: JobSpec) -> Offer:
    """Plan a job and hold it against the budget. Spends nothing. Raises Refusal."""
    with services.sessions.read() as session:
        dataset = usable_dataset(session, caller, dataset_id)
        check_bounded(session, dataset, spec)
        made = planned(services, dataset, spec)
        return _offer(session, dataset, caller, made)


def planned(
    services: Services, dataset: DatasetRow, spec: JobSpec, *, advise: bool = True
) -> planner.Plan:
    """The plan of a job. Raises Refusal 422 with the field that is wrong."""
    try:
        made = planner.plan(schema_of(dataset), spec, advise=advise)
    except SpecError as error:
        fault = Fault(error.pointer, error.message)
        raise Refusal(422, "invalid_request", "The job cannot be planned.", [fault]) from None
    except (ValueError, OverflowError):
        fault = Fault("/privacy", "These numbers cannot be planned with.")
        raise Refusal(422, "invalid_request", "The job cannot be planned.", [fault]) from None
    draws = made.num_steps * made.num_chains * len(made.parameters)
    if draws > services.settings.max_draws:
        fault = Fault("/sampler/num_steps", "Chains x steps x parameters is above the limit.")
        raise Refusal(422, "job_too_large", "The job is too large for this service.", [fault])
    columns = len(dataset.columns)
    if memory_bytes(dataset.rows, columns, made) > services.settings.job_memory_bytes:
        fault = Fault("/dataset", "Rows x columns need more memory than a worker may take.")
        raise Refusal(422, "job_too_large", "The job is too large for this service.", [fault])
    return made


def memory_bytes(rows: int, columns: int, made: planner.Plan) -> int:
    """The most memory that a process takes which runs the job.

    Eight bytes for every value, in the dataset's columns and twice in the model's (in blocks, and
    as made or, later, in the coordinates of a released covariance); ROW_NUMBERS and two numbers a
    chain for every row; the draws, and what a summary needs; and BASE_BYTES.
    """
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
    if math.isinf(least.epsilon):
        raise unbounded()


def unbounded() -> Refusal:
    """The refusal of a job whose cost no branch of the dataset's promise bounds."""
    fault = Fault(
        "/sampler/algorithm",
        "The dataset's promise does not bound this sampler's cost: it takes a dataset whose"
        " privacy.branches has an rdp order that does. Samplers of full data need none.",
    )
    return Refusal(422, "invalid_request", "This dataset cannot pay for the job.", [fault])


def _offer(session: Session, dataset: DatasetRow, caller: Caller, made: planner.Plan) -> Offer:
    preview = ledger.preview(session, dataset.id, analyst_id=caller.id, event=made.event)
    if math.isinf(preview.epsilon):
        raise unbounded()
    return Offer(made, preview.affordable, preview.remaining_after)
