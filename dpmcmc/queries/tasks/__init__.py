"""Jobs that release something else than a posterior. Each kind is one file and one line here.

A task is planned from public facts, paid for as one event, and run once on the rows. What it
releases are blocks of numbers; everything that is told of them is computed from these blocks, as
often as wanted, and free.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private, Released
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.planner import BasePlan
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.promises import check_delta
from dpmcmc.queries.statistics.inference import Posterior
from dpmcmc.queries.statistics.mechanisms import Released as ReleasedStatistic
from dpmcmc.queries.statistics.questions import Question, answer, settled
from dpmcmc.queries.statistics.questions import seconds_of as seconds_of_question
from dpmcmc.queries.summaries.intervals import Target
from dpmcmc.queries.synthetic.drawn import Values
from dpmcmc.queries.tasks import statistic, summaries, synthetic, two_stages
from dpmcmc.queries.tasks.base import Floats, Planned
from dpmcmc.queries.tasks.statistic import PlannedStatistic, StatisticTask
from dpmcmc.queries.tasks.summaries import SummariesTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from dpmcmc.queries.tasks.two_stages import PlannedStages, TwoStagesTask

Task = SummariesTask | SyntheticTask | StatisticTask | TwoStagesTask
TASKS: dict[type[Task], Callable[[Schema, Any, PrivacySpec], Planned]] = {
    SummariesTask: summaries.planned,
    SyntheticTask: synthetic.planned,
    StatisticTask: statistic.planned,
    TwoStagesTask: two_stages.planned,
}
FREE = "computed from what the job released: nothing is charged, and no row is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task and what it may cost. privacy: a statistic takes an epsilon."""

    task: Task
    privacy: PrivacySpec


@dataclass(frozen=True, slots=True)
class TaskPlan(BasePlan):
    """A task as it would be run, from public facts alone.

    num_steps: blocks that it releases. numbers: how many all of them hold. reasons: the noise, in
    words. memory: bytes that it takes beyond those of the rows and the numbers.
    """

    spec: TaskSpec
    numbers: int
    memory: int

    @property
    def algorithm(self) -> str:
        """The kind of the task."""
        return self.spec.task.kind


def plan_task(schema: Schema, spec: TaskSpec) -> TaskPlan:
    """Return what a task releases and costs. Reads no row. Raises SpecError."""
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset has no rows")
    made = _planned(schema, spec)
    check_delta("/privacy/delta", made.paid.cost.delta, schema.rows)
    return TaskPlan(
        spec=spec,
        event=made.paid.event,
        cost=made.paid.cost,
        noise_multiplier=made.paid.noise_multiplier,
        num_steps=made.blocks,
        num_chains=1,
        num_warmup=0,
        expected_ess=None,
        expected_width=None,
        usable=True,
        warnings=(),
        reasons=(made.noise,),
        parameters=(),
        numbers=made.numbers,
        memory=made.memory,
    )


def run_task(
    schema: Schema,
    spec: TaskSpec,
    rows: Private[Table],
    permit: Permit,
    random: RandomSource | None = None,
) -> Iterator[Released[Floats]]:
    """Yield the blocks (1, 1, numbers) that a task releases, as many as its plan says.

    Privacy: plan_task(schema, spec).event, paid for by the permit, all of it in the first block;
    what follows is made of that. random: for tests only. Raises PermitError before the rows are
    opened, SpecError on the request; never on the rows.
    """
    for block in _planned(schema, spec).release(rows, permit, random or SystemRandom()):
        yield Released(np.asarray(block, np.float64)[None, None])


def told_of(
    schema: Schema,
    spec: TaskSpec,
    first: Floats,
    level: float = 0.9,
    target: Target = "population",
) -> dict[str, Any]:
    """Return what the first block says, as JSON holds it. Free.

    level, target: of the intervals of summaries. Raises SpecError on another level.
    """
    return _planned(schema, spec).told(first, level, target)


def verdict_of(schema: Schema, spec: TaskSpec, first: Floats) -> Verdict:
    """Return whether what was released may be believed, by its first block."""
    return _planned(schema, spec).verdict(first)


def seconds_of(schema: Schema, spec: TaskSpec) -> float:
    """Return about how long a task runs, from public facts, above 0. Raises SpecError."""
    return _planned(schema, spec).seconds


def table_of(schema: Schema, spec: TaskSpec, block: Floats) -> Mapping[str, Values]:
    """Return a synthetic table, name -> (rows,), from its block. Free. Raises SpecError."""
    if not isinstance(spec.task, SyntheticTask):
        raise SpecError("/task/kind", "only synthetic tables are tables")
    return synthetic.table_of(schema, spec.task, block)


def posterior_of(schema: Schema, spec: TaskSpec, first: Floats, asked: Question) -> Posterior:
    """Return draws of a family's number given what the first block holds. Free. Raises SpecError
    on the question, and where the task released no statistic."""
    return answer(_statistics(schema, spec, first), asked)


def settled_question(
    schema: Schema, spec: TaskSpec, first: Floats, asked: Question
) -> tuple[Question, float]:
    """Return the question with its algorithm named, and about how many seconds the answer takes.

    Raises as posterior_of does.
    """
    released = _statistics(schema, spec, first)
    named = settled(released, asked)
    return named, seconds_of_question(released, named)


def _statistics(schema: Schema, spec: TaskSpec, first: Floats) -> tuple[ReleasedStatistic, ...]:
    made = _planned(schema, spec)
    if not isinstance(made, PlannedStatistic | PlannedStages):
        raise SpecError("/task/kind", "must be statistic or two_stages: nothing else has a family")
    return made.released(first)


def _planned(schema: Schema, spec: TaskSpec) -> Planned:
    """Return the plan of the kind that a task is. Raises SpecError at the task's fields."""
    try:
        return TASKS[type(spec.task)](schema, spec.task, spec.privacy)
    except SpecError as error:
        own = error.pointer.startswith(("/privacy", "/dataset", "/task"))
        raise SpecError(error.pointer if own else f"/task{error.pointer}", error.message) from None
