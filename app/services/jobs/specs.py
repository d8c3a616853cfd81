"""A job's spec, between the database's JSON and the core's dataclasses."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row

from app.storage.rows import JobRow
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.queries.statistics.questions import Question
from dpmcmc.queries.tasks import TaskSpec
from dpmcmc.samplers.algorithms import OPTIONS

_SPEC, _SAMPLER = TypeAdapter(JobSpec), TypeAdapter(OPTIONS)
_TASK, _QUESTION = TypeAdapter(TaskSpec), TypeAdapter(Question)


@dataclass(frozen=True, slots=True)
class InferenceSpec:
    """A job that reads what the job `of` released, and costs nothing. question: settled."""

    of: str
    question: Question


def is_inference(job: JobRow | Row[Any, Any]) -> bool:
    """Whether a job reads released values alone."""
    return "inference" in job.resolved


def inference_spec(job: JobRow | Row[Any, Any]) -> InferenceSpec:
    """What an inference asks."""
    told = dict(job.resolved["inference"])
    of = str(told.pop("of"))
    return InferenceSpec(of, _QUESTION.validate_python(told))


def is_task(job: JobRow | Row[Any, Any]) -> bool:
    """Whether a job releases something else than a posterior."""
    return "task" in job.resolved


def title_of(job: JobRow | Row[Any, Any]) -> str:
    """The algorithm of a job, or the kind of its task."""
    return str(
        job.resolved["task"]["kind"] if is_task(job) else job.resolved["sampler"]["algorithm"]
    )


def task_spec(job: JobRow | Row[Any, Any]) -> TaskSpec:
    """The task that a job was paid for."""
    return _TASK.validate_python(job.resolved)


def resolved_spec(job: JobRow | Row[Any, Any]) -> JobSpec:
    """The spec that a job was paid for. job: a row that has it as `resolved`."""
    told = {name: value for name, value in job.resolved.items() if name != "sampler"}
    sampler = _SAMPLER.validate_python(job.resolved["sampler"])
    return replace(_SPEC.validate_python(told), sampler=sampler)


class OutdatedError(Exception):
    """A job was made by another version, and what it asks for is not known to this one."""


def runnable_spec(job: JobRow) -> JobSpec | TaskSpec | InferenceSpec:
    """The spec that a job waits to be run by. Raises OutdatedError.

    Reading leaves out what it does not know: the run would then not be what was reserved.
    """
    try:
        spec = _read(job)
    except ValidationError:
        raise OutdatedError from None
    if _lost(job.resolved, json.loads(json.dumps(as_json(spec)))):
        raise OutdatedError
    return spec


def _read(job: JobRow) -> JobSpec | TaskSpec | InferenceSpec:
    if is_inference(job):
        return inference_spec(job)
    return task_spec(job) if is_task(job) else resolved_spec(job)


def _lost(told: Any, read: Any) -> bool:
    """Whether something that was stored, and is not null, was not read."""
    if isinstance(told, dict) and isinstance(read, dict):
        return any(
            value is not None and (key not in read or _lost(value, read[key]))
            for key, value in told.items()
        )
    return bool(told != read)


def as_json(spec: JobSpec | TaskSpec | InferenceSpec) -> dict[str, Any]:
    """A spec as plain JSON-able values. The chains of an inference are told as a sampler's."""
    if not isinstance(spec, InferenceSpec):
        return asdict(spec)
    asked = asdict(spec.question)
    sampler = {
        "algorithm": asked["algorithm"],
        "num_chains": asked["chains"],
        "num_steps": asked["draws"],
        "num_warmup": 0,
    }
    return {"inference": {"of": spec.of, **asked}, "sampler": sampler}


def body_hash(
    dataset_id: UUID, spec: JobSpec | TaskSpec | InferenceSpec, accept_low_quality: bool = False
) -> str:
    """SHA-256 of the canonical JSON of what was asked for, less what was left at its default."""
    body = {"dataset": str(dataset_id), **as_json(spec)}
    if isinstance(spec, JobSpec):
        _as_before(body)
    if accept_low_quality:
        body["accept_low_quality"] = True
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _as_before(body: dict[str, Any]) -> None:
    """Leave out what is at its default and once was no option, and name what was called so."""
    if body["model"]["options"]["dispersion"] is None:
        del body["model"]["options"]["dispersion"]
    if body["sampler"].get("whitening", "") is None:  # as before there was such an option
        del body["sampler"]["whitening"]
    if body["sampler"].get("start", "") is None:  # as what it took the place of was called
        body["sampler"]["warm_start"] = body["sampler"].pop("start")
