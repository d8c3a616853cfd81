"""A job's spec, between the database's JSON and the core's dataclasses."""

import hashlib
import json
from dataclasses import asdict
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from app.storage.rows import JobRow
from dpmcmc.spec import JobSpec

_SPEC = TypeAdapter(JobSpec)


def resolved_spec(job: JobRow) -> JobSpec:
    """The spec that a job was paid for."""
    return _SPEC.validate_python(job.resolved)


def as_json(spec: JobSpec) -> dict[str, Any]:
    """A spec as plain JSON-able values."""
    return asdict(spec)


def body_hash(dataset_id: UUID, spec: JobSpec, accept_low_quality: bool = False) -> str:
    """SHA-256 of the canonical JSON of what was asked for, less what was left at its default."""
    body = {"dataset": str(dataset_id), **as_json(spec)}
    if body["sampler"].get("whitening", "") is None:  # as before there was such an option
        del body["sampler"]["whitening"]
    if body["sampler"].get("start", "") is None:  # as what it took the place of was called
        body["sampler"]["warm_start"] = body["sampler"].pop("start")
    if accept_low_quality:
        body["accept_low_quality"] = True
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
