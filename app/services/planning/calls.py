"""Functions that run in planner processes, on public facts only."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import Fault
from app.services.jobs.kinds.base import PaidJob
from app.services.jobs.kinds.inferences import TaskBlock
from dpmcmc import planner
from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import BasePlan
from dpmcmc.queries.statistics.choice import choose_statistic
from dpmcmc.queries.statistics.questions import InferenceQuestion, population_of
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.tasks import TaskSpec, answer_of, posterior_of, settled_question


@dataclass(frozen=True, slots=True)
class Settled:
    """A question with its algorithm, and the expected seconds of the answer."""

    question: InferenceQuestion
    seconds: float


def worked_out(
    schema: Schema, job: PaidJob, advise: bool, facts: Sequence[Any] = ()
) -> BasePlan | Fault:
    """Return the plan of a job, or its fault. Runs in a planner process."""
    try:
        return job.plan(schema, facts, advise=advise)
    except SpecError as error:
        return Fault(error.pointer, error.message)
    except (ValueError, ArithmeticError):
        return Fault("/privacy", "These numbers cannot be planned with.")


def shortfall(schema: Schema, job: PaidJob, plan: BasePlan) -> tuple[str, float | None]:
    """Return why a plan is unusable, and an epsilon that would suffice."""
    return job.shortfall(schema, plan)


def answered_of_task(
    schema: Schema,
    spec: TaskSpec,
    first: NDArray[np.float64],
    level: float,
    target: IntervalTarget,
    head: dict[str, Any],
) -> bytes | Fault:
    """Return the JSON answer of a task's first block after `head`, or the question's fault.

    Runs in a planner process, and is JSON already: there may be a number for each row.
    """
    try:
        answer = head | answer_of(schema, spec, first, level, target)
    except SpecError as error:
        return Fault(error.pointer, error.message)
    return json.dumps(answer, allow_nan=False).encode()


def settled(given: TaskBlock, asked: InferenceQuestion) -> Settled | Fault:
    """Return a question with its algorithm filled in, or its fault."""
    try:
        return Settled(*settled_question(given.schema, given.spec, given.block, asked))
    except SpecError as error:
        return Fault(error.pointer, error.message)


def inferred(
    statistic: TaskBlock, asked: InferenceQuestion, head: dict[str, Any] | None
) -> bytes | dict[str, Any] | Fault:
    """Return the JSON of posterior draws after `head`, or the question's fault.

    Without a head the same members, the draws (chain, draw) as numbers. Runs in a planner process.
    """
    try:
        posterior = posterior_of(statistic.schema, statistic.spec, statistic.block, asked)
    except SpecError as error:
        return Fault(error.pointer, error.message)
    answer = {
        "algorithm": posterior.algorithm,
        "parameter": asdict(posterior.summary),
        "draws": posterior.draws,
        "verdict": asdict(posterior.verdict),
    }
    if head is None:
        return answer
    return json.dumps(head | answer | {"draws": posterior.draws.tolist()}, allow_nan=False).encode()


def chosen(
    schema: Schema, family: str, options: Mapping[str, float], asked: Mapping[str, Any]
) -> dict[str, Any] | Fault:
    """Return the most informative power of a column's values, or the question's fault.

    family, options: the population. asked: the other arguments of `choose_statistic`. Runs in a
    planner process.
    """
    try:
        choice = choose_statistic(schema, population=population_of(family, options), **asked)
    except SpecError as error:
        pointer = error.pointer.replace("/privacy/", "/").replace("/privacy", "/epsilon")
        return Fault(pointer, error.message)
    powers = [
        {
            "power": power,
            "score": _finite(choice.scores[power]),
            "information": [_finite(value) for value in information],
        }
        for power, information in choice.information.items()
    ]
    return {"power": choice.power, "powers": powers}


def _finite(value: float) -> float | None:
    """Return a finite value; None where it is infinite."""
    return value if math.isfinite(value) else None


def load_planner() -> None:
    """Plan an example job, so that the planner's libraries are loaded."""
    columns = (
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        BinaryColumn(name="y", categories=("0", "1")),
    )
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula="y ~ x"),
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    planner.plan(Schema(columns=columns, rows=1000), spec)
