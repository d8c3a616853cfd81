"""Tasks: jobs that release something else than a posterior. Each kind is one file and one line.

A task is planned from public facts, charged as one event, and run once on the rows. It releases
blocks of numbers; every answer is computed from these blocks, any number of times, at no cost.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private, Released
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import BasePlan
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.promises import check_delta
from dpmcmc.queries.statistics.inference import ThetaPosterior
from dpmcmc.queries.statistics.mechanisms import ReleasedStatistic
from dpmcmc.queries.statistics.questions import InferenceQuestion, answer, settled
from dpmcmc.queries.statistics.questions import seconds_of as seconds_of_question
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.synthetic.drawn import Values
from dpmcmc.queries.tasks import predictive_check, statistic, summaries, synthetic, two_stages
from dpmcmc.queries.tasks.base import Floats, Planned
from dpmcmc.queries.tasks.predictive_check import FittedModel, PlannedCheck, PredictiveCheckTask
from dpmcmc.queries.tasks.statistic import PlannedStatistic, StatisticTask
from dpmcmc.queries.tasks.summaries import SummariesTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from dpmcmc.queries.tasks.two_stages import PlannedStages, TwoStagesTask

Task = SummariesTask | SyntheticTask | StatisticTask | TwoStagesTask | PredictiveCheckTask
TASKS: dict[type[Task], Callable[[Schema, Any, PrivacySpec], Planned]] = {
    SummariesTask: summaries.planned,
    SyntheticTask: synthetic.planned,
    StatisticTask: statistic.planned,
    TwoStagesTask: two_stages.planned,
    PredictiveCheckTask: predictive_check.planned,
}
MANY_ROWS = 2**24
HOLDS_ROWS = "all rows of the column are held in memory while it runs"
FREE = "computed from what the job released: nothing is charged, and no row is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task and its cost. privacy: with an epsilon, for a statistic."""

    task: Task
    privacy: PrivacySpec


@dataclass(frozen=True, slots=True)
class TaskPlan(BasePlan):
    """The plan of a task, from public facts alone.

    num_steps: number of released blocks. numbers: in all blocks together. reasons: a sentence on
    the noise. memory: bytes in addition to rows and numbers.
    """

    spec: TaskSpec
    numbers: int
    memory: int

    @property
    def algorithm(self) -> str:
        """The kind of the task."""
        return self.spec.task.kind


def plan_task(schema: Schema, spec: TaskSpec) -> TaskPlan:
    """Return the plan of a task with its cost. Reads no row. Raises SpecError."""
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset has no rows")
    planned = _planned(schema, spec)
    short = _shortfall(planned)
    check_delta("/privacy/delta", planned.paid.cost.delta, schema.units, schema.unit)
    many = schema.rows > MANY_ROWS
    return TaskPlan(
        spec=spec,
        event=planned.paid.event,
        cost=planned.paid.cost,
        noise_multiplier=planned.paid.noise_multiplier,
        num_steps=planned.blocks,
        num_chains=1,
        num_warmup=0,
        expected_ess=None,
        expected_width=None,
        usable=short is None,
        warnings=() if short is None else (short[0],),
        reasons=(planned.noise, *([HOLDS_ROWS] if many and holds_rows(spec.task) else [])),
        parameters=(),
        numbers=planned.numbers,
        memory=planned.memory,
    )


def holds_rows(task: Task) -> bool:
    """Return whether a task has all values of a column in memory at once, however many they are."""
    one_by_one = isinstance(task, StatisticTask) and task.form != "batch"
    return one_by_one or isinstance(task, TwoStagesTask)


def shortfall(schema: Schema, spec: TaskSpec) -> tuple[str, float | None] | None:
    """Return why a plan is not usable and an epsilon at which it would be; None where it is.

    Synthetic tables alone promise to be like the rows. Of the other tasks the result says what
    noise hides.
    """
    return _shortfall(_planned(schema, spec))


def _shortfall(planned: Planned) -> tuple[str, float | None] | None:
    """Return the shortfall of a planned task, or None."""
    if not isinstance(planned, synthetic.PlannedTables) or planned.plan.usable:
        return None
    return planned.plan.shortfall()


def run_task(
    schema: Schema,
    spec: TaskSpec,
    rows: Private[AnyRows],
    permit: Permit,
    random: RandomSource | None = None,
    fitted: FittedModel | None = None,
) -> Iterator[Released[Floats]]:
    """Yield the released blocks (1, 1, numbers), as many as the plan has.

    Privacy: plan_task(schema, spec).event, paid for by the permit, all of it in the first block;
    the other blocks are post-processing of it. random: for tests only. fitted: of a check of a fit.
    Raises PermitError before the rows are opened, SpecError on the request; never depending on the
    rows.
    """
    planned = _planned(schema, spec)
    if isinstance(planned, PlannedCheck):
        planned = replace(planned, fitted=fitted)
    for block in planned.release(rows, permit, random or SystemRandom()):
        yield Released(np.asarray(block, np.float64)[None, None])


def answer_of(
    schema: Schema,
    spec: TaskSpec,
    first: Floats,
    level: float = 0.9,
    target: IntervalTarget = "population",
) -> dict[str, Any]:
    """Return the answer of a task from its first block, as JSON values; costs nothing.

    level, target: of the intervals of summaries. Raises SpecError on another level.
    """
    return _planned(schema, spec).answer(first, level, target)


def verdict_of(schema: Schema, spec: TaskSpec, first: Floats) -> Verdict:
    """Return the verdict on a task's release, from its first block."""
    return _planned(schema, spec).verdict(first)


def seconds_of(schema: Schema, spec: TaskSpec) -> float:
    """Return the expected run time of a task in seconds, from public facts. Raises SpecError."""
    return _planned(schema, spec).seconds


def table_of(schema: Schema, spec: TaskSpec, block: Floats) -> Mapping[str, Values]:
    """Return a synthetic table, name -> (rows,), from its block. Free. Raises SpecError."""
    if not isinstance(spec.task, SyntheticTask):
        raise SpecError("/task/kind", "only synthetic tables are tables")
    return synthetic.table_of(schema, spec.task, block)


def posterior_of(
    schema: Schema, spec: TaskSpec, first: Floats, question: InferenceQuestion
) -> ThetaPosterior:
    """Return posterior draws of a family's parameter given a task's first block; costs nothing.

    Raises SpecError on the request, and where the task released no statistic.
    """
    return answer(_statistics(schema, spec, first), question)


def settled_question(
    schema: Schema, spec: TaskSpec, first: Floats, question: InferenceQuestion
) -> tuple[InferenceQuestion, float]:
    """Return the request with an algorithm, and its expected run time in seconds.

    Raises as posterior_of does.
    """
    released = _statistics(schema, spec, first)
    named = settled(released, question)
    return named, seconds_of_question(released, named)


def _statistics(schema: Schema, spec: TaskSpec, first: Floats) -> tuple[ReleasedStatistic, ...]:
    """Return the statistics that a task released, for an inference."""
    planned = _planned(schema, spec)
    if not isinstance(planned, PlannedStatistic | PlannedStages):
        raise SpecError("/task/kind", "must be statistic or two_stages: nothing else has a family")
    return planned.released(first)


def _planned(schema: Schema, spec: TaskSpec) -> Planned:
    """Return the planned task. Raises SpecError with pointers to the task's fields."""
    try:
        schema = spec.privacy.schema(schema)
        return TASKS[type(spec.task)](schema, spec.task, spec.privacy)
    except SpecError as error:
        complete = error.pointer.startswith(("/privacy", "/dataset", "/task"))
        raise SpecError(
            error.pointer if complete else f"/task{error.pointer}", error.message
        ) from None
