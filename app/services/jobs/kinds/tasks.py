"""Jobs that release summaries, synthetic tables or statistics."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.errors import Fault
from app.services.jobs.kinds.base import (
    BASE_BYTES,
    ROW_NUMBERS,
    Attempt,
    Blocks,
    Json,
    Opened,
    PaidJob,
    Work,
)
from app.services.jobs.kinds.fitted import fitted_of, model_of
from dpmcmc.inputs.schema import Column, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.inputs.streamed import PIECE_ROWS
from dpmcmc.queries.summaries.statistics import Counts
from dpmcmc.queries.tasks import (
    TaskPlan,
    TaskSpec,
    holds_rows,
    plan_task,
    run_task,
    seconds_of,
    shortfall,
    verdict_of,
)
from dpmcmc.queries.tasks.predictive_check import FittedModel, PredictiveCheckTask
from dpmcmc.queries.tasks.summaries import SummariesTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask

_SPEC = TypeAdapter(TaskSpec)
NUMBER_BYTES, ESTIMATE_BYTES = 24, 160  # of JSON: a number; an estimate without its name
BIN_BYTES = 1000  # and a bin of a check, with its part of the words


@dataclass(frozen=True, slots=True)
class TaskJob(PaidJob):
    """A task and its budget."""

    kind = "task"
    member = "task"
    answer = "result"
    too_many = Fault("/task", "It would release too many numbers.")
    too_wide = Fault("/task", "Rows x columns need more memory than a worker may take.")
    unbounded = Fault(
        "/task/noise",
        "The dataset's promise does not bound the cost of this noise: it takes a dataset whose"
        " privacy.branches has a failure share, and a job whose delta is no more than that share of"
        " the dataset's. That of gaussian and laplace needs no such share.",
    )

    spec: TaskSpec

    @classmethod
    def read(cls, stored: Json) -> Self:
        """Return the task of a stored spec. Raises ValidationError."""
        return cls(_SPEC.validate_python(stored))

    def hashed(self) -> Json:
        """Return the spec as hashed for idempotency, as earlier versions wrote it."""
        body = self.as_json()
        if body["privacy"]["max_rows"] is None:
            del body["privacy"]["max_rows"]
        return body

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> tuple[ModelSpec, ...]:
        """Return the model of the regression that a check names. Raises Refusal."""
        task = self.spec.task
        if not isinstance(task, PredictiveCheckTask):
            return ()
        return (model_of(session, caller, dataset_id, task),)

    @classmethod
    def title(cls, stored: Json) -> str:
        """Return the kind of the task."""
        return str(stored["task"]["kind"])

    def plan(self, schema: Schema, facts: Sequence[Any], *, advise: bool) -> TaskPlan:
        """Return its plan. Raises SpecError."""
        spec = self.spec
        if isinstance(spec.task, PredictiveCheckTask) and facts:
            spec = replace(spec, task=replace(spec.task, model=facts[0]))
        return plan_task(schema, spec)

    def settled(self, plan: TaskPlan) -> Self:
        """Return the task with all options filled in by a plan."""
        return type(self)(plan.spec)

    def numbers(self, plan: TaskPlan) -> int:
        """Return how many numbers all blocks hold together."""
        return plan.numbers

    def memory_bytes(self, schema: Schema, plan: TaskPlan) -> int:
        """Return the peak memory of a process that runs it.

        Eight bytes for every value of the dataset, ROW_NUMBERS for every row, and what is released.
        Where rows are counted in pieces, for two of these.
        """
        held = schema.rows if holds_rows(plan.spec.task) else min(schema.rows, 2 * PIECE_ROWS)
        numbers = held * (len(schema.columns) + ROW_NUMBERS) + plan.numbers
        return BASE_BYTES + 8 * numbers + plan.memory

    def answer_bytes(self, schema: Schema, plan: TaskPlan) -> int:
        """Return about the most bytes that its result takes as JSON."""
        task = self.spec.task
        if isinstance(task, SyntheticTask):
            return 0  # some counts; each table is a file, which is written a piece at a time
        if isinstance(task, PredictiveCheckTask):
            return BIN_BYTES * task.bins
        if not isinstance(task, SummariesTask):
            return NUMBER_BYTES * plan.numbers
        names = {column.name: _longest(column) for column in schema.columns}
        counted = [
            statistic.columns for statistic in task.statistics if isinstance(statistic, Counts)
        ]
        longest = max((sum(names[name] for name in columns) for columns in counted), default=0)
        return (ESTIMATE_BYTES + longest) * plan.numbers

    def shortfall(self, schema: Schema, plan: TaskPlan) -> tuple[str, float | None]:
        """Return the expected effect of noise on tables, and an epsilon that would suffice."""
        return shortfall(schema, plan.spec) or ("", None)

    def work(self, session: Session, schema: Schema) -> Work:
        """Return the task ready to run."""
        task = self.spec.task
        fitted = fitted_of(session, task) if isinstance(task, PredictiveCheckTask) else None
        return _TaskWork(schema, self.spec, fitted)


def _longest(column: Column) -> int:
    """Return the largest size in bytes of a column's name with one value, as JSON."""
    values = () if isinstance(column, NumberColumn) else column.categories
    longest = max((len(json.dumps(value)) for value in values), default=NUMBER_BYTES)
    return len(json.dumps(column.name)) + longest


class _TaskWork(Work):
    """A running task. fitted: of a check of a fit."""

    def __init__(self, schema: Schema, spec: TaskSpec, fitted: FittedModel | None) -> None:
        self._schema, self._spec, self._fitted = schema, spec, fitted

    @property
    def seconds(self) -> float:
        """Return the expected run time of the task in seconds."""
        return seconds_of(self._schema, self._spec)

    def blocks(self, opened: Opened) -> Blocks:
        """Return the blocks that the task releases."""
        return run_task(self._schema, self._spec, *opened(), fitted=self._fitted)

    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return no summary, and the verdict on the first block."""
        return {}, asdict(verdict_of(self._schema, self._spec, attempt.first()))
