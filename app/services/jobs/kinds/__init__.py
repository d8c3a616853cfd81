"""The registry of job kinds: one file and one line each."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from app.services.jobs.kinds.base import Job, UnrunnableError
from app.services.jobs.kinds.chains import ChainJob
from app.services.jobs.kinds.dry import DryChainJob
from app.services.jobs.kinds.inferences import InferenceJob
from app.services.jobs.kinds.tasks import TaskJob
from app.services.jobs.labels import Label

NO_LABEL = Label()
KINDS: tuple[type[Job], ...] = (DryChainJob, ChainJob, TaskJob, InferenceJob)


def kind_of(stored: Mapping[str, Any]) -> type[Job]:
    """Return the kind of a stored spec. Raises LookupError."""
    for kind in KINDS:
        if kind.holds(stored):
            return kind
    raise LookupError("no kind of job has such a spec")


def read(stored: dict[str, Any]) -> Job:
    """Return the job of a stored spec."""
    return kind_of(stored).read(stored)


def runnable(stored: dict[str, Any]) -> Job:
    """Return the job of a stored spec that is to be run. Raises UnrunnableError.

    Reading leaves out what it does not know: the run would then not be what was reserved.
    """
    try:
        job = read(stored)
    except (ValidationError, LookupError):
        raise UnrunnableError("job_outdated") from None
    if _lost(stored, json.loads(json.dumps(job.as_json()))):
        raise UnrunnableError("job_outdated")
    return job


def _lost(stored: Any, read_back: Any) -> bool:
    """Return whether a stored member that is not null was lost when read back."""
    if isinstance(stored, dict) and isinstance(read_back, dict):
        return any(
            value is not None and (key not in read_back or _lost(value, read_back[key]))
            for key, value in stored.items()
        )
    return bool(stored != read_back)


def body_hash(
    dataset_id: UUID, job: Job, label: Label = NO_LABEL, accept_low_quality: bool = False
) -> str:
    """Return the SHA-256 of a request's canonical JSON, without default values."""
    body = {"dataset": str(dataset_id), **job.hashed(), **label.as_json()}
    if accept_low_quality:
        body["accept_low_quality"] = True
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
