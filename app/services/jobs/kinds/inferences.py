"""Jobs that infer a parameter from a released statistic, when it is too slow for a request.

Such a job has no entry in any ledger and opens no rows.
"""

import math
from dataclasses import asdict, dataclass
from typing import Self
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from app.services.jobs.kinds.base import (
    Attempt,
    Blocks,
    Floats,
    Job,
    Json,
    Opened,
    Shown,
    UnrunnableError,
    Work,
)
from app.services.jobs.kinds.tasks import TaskJob
from app.services.results.chains import stored_block
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow, JobRow
from dpmcmc.base.private import Released
from dpmcmc.fit.results import attributes
from dpmcmc.inputs.schema import Schema
from dpmcmc.planner import Cost
from dpmcmc.posterior.units import Scale
from dpmcmc.queries import tasks
from dpmcmc.queries.statistics.questions import InferenceQuestion, family_of, judged_draws
from dpmcmc.queries.tasks import TaskSpec

_QUESTION = TypeAdapter(InferenceQuestion)


@dataclass(frozen=True, slots=True)
class TaskBlock:
    """A task's released block (numbers,), with the public facts needed to read it."""

    schema: Schema
    spec: TaskSpec
    block: Floats


def first_block(session: Session, job: JobRow) -> TaskBlock:
    """Return the first block that a succeeded task released."""
    block = stored_block(session, job.id, job.released_attempt or 0, 0)
    task = TaskJob.read(job.resolved)
    schema = task.used(schema_of(session.get_one(DatasetRow, job.dataset_id)))
    return TaskBlock(schema, task.spec, block)


@dataclass(frozen=True, slots=True)
class InferenceJob(Job):
    """A question about the release of job `of`. question: with its algorithm filled in."""

    kind = "inference"
    member = "inference"
    failure = "inference_failed"

    of: str
    question: InferenceQuestion

    @classmethod
    def read(cls, stored: Json) -> Self:
        """Return the job of a stored spec. Raises ValidationError."""
        question = dict(stored["inference"])
        return cls(str(question.pop("of")), _QUESTION.validate_python(question))

    def as_json(self) -> Json:
        """Return the spec as stored JSON, its chains described as a sampler's."""
        question = asdict(self.question)
        sampler = {
            "algorithm": question["algorithm"],
            "num_chains": question["chains"],
            "num_steps": question["draws"],
            "num_warmup": 0,
        }
        return {"inference": {"of": self.of, **question}, "sampler": sampler}

    def work(self, session: Session, schema: Schema) -> Work:
        """Return it ready to run. Raises UnrunnableError where the release is missing."""
        job = session.get(JobRow, UUID(self.of))
        if job is None or job.status != "succeeded" or job.expired_at is not None:
            raise UnrunnableError("release_gone")
        return _InferenceWork(first_block(session, job), self.question)

    def shown(self, schema: Schema, cost: Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain: one parameter, without warm-up."""
        question = self.question
        made_by = attributes(cost, str(question.algorithm), schema)
        name = family_of(question.family, question.options).name
        return Shown((name,), 0, lambda draws: draws, made_by)


class _InferenceWork(Work):
    """A running inference."""

    def __init__(self, given: TaskBlock, question: InferenceQuestion) -> None:
        self._given, self._question = given, question

    @property
    def seconds(self) -> float:
        """Return the expected run time in seconds."""
        task = self._given
        _, seconds = tasks.settled_question(task.schema, task.spec, task.block, self._question)
        return seconds if math.isfinite(seconds) else 1.0

    def blocks(self, opened: Opened) -> Blocks:
        """Return the draws (chain, draw, 1), in one block."""
        task = self._given
        posterior = tasks.posterior_of(task.schema, task.spec, task.block, self._question)
        yield Released(posterior.draws[..., None])

    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return the summary, equal on both scales, and the verdict."""
        judged = judged_draws(self._question, attempt.draws()[..., 0])
        summaries = [asdict(judged.summary)]
        return {"original": summaries, "design": summaries}, asdict(judged.verdict)
