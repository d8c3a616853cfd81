"""Server-sent events: what becomes of a job, or of several."""

import math
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from app.api.auth import Analyst, House, JobId, StreamPlaces, Watch
from app.api.endpoints import Route, in_thread
from app.api.schemas import JobEvent, VerdictOut
from app.api.sse import EventStream, event
from app.services.results import fetch
from app.services.results.fetch import Watched
from app.storage.rows import FINAL_STATUSES

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=Route)
EVENTS = """Server-sent events. `event: status` has data `{"status": ...}` (StatusEvent), `event: \
progress` has data `{"step": ..., "of": ...}` (ProgressOut). Comments (`: still here`) keep the \
connection open. The stream ends after a final status, which has the verdict on a result, with the \
key, or with the service."""
MOST_JOBS, PROGRESS_SECONDS = 100, 1.0
Followed = Annotated[
    list[UUID], Query(min_length=1, max_length=MOST_JOBS, description="your jobs to follow")
]
OF_SEVERAL = """Server-sent events. `event: job` has as data one of the jobs as it is (JobEvent): \
first every job that was named, then whichever has changed. Comments (`: still here`) keep the \
connection open. The stream ends when all jobs have ended, with the key, or with the service."""
# without a type: some readers hold it against each event, others against the whole text
TEXT = {"description": "events as text, each as x-item-schema says"}
JOB_EVENTS = {
    "schema": TEXT,
    "x-item-schema": {
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"const": "job"},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/JobEvent"},
            },
        },
    },
}
EVENT_STREAM = {
    "schema": TEXT,
    "x-item-schema": {
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"type": "string", "enum": ["status", "progress"]},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/StatusEvent"},
                        {"$ref": "#/components/schemas/ProgressOut"},
                    ]
                },
            },
        },
    },
}


@router.get(
    "/jobs/events",
    response_class=StreamingResponse,
    responses={200: {"description": OF_SEVERAL, "content": {"text/event-stream": JOB_EVENTS}}},
)
async def events_of_several(
    caller: Analyst, services: House, watch: Watch, places: StreamPlaces, job: Followed
) -> StreamingResponse:
    """Server-sent events of several of your jobs, in one stream, until all of them have ended."""
    jobs = list(dict.fromkeys(job))
    first = await in_thread(fetch.own_jobs, services, caller, jobs)
    places.take(caller.id)
    stream = job_events(watch.follow(caller, *map(fetch.seen, first)), len(jobs))
    return EventStream(stream, lambda: places.leave(caller.id))


async def job_events(seen: AsyncIterator[Watched | None], number: int) -> AsyncIterator[bytes]:
    """What jobs are now, first and whenever one changes, until so many have ended.

    Progress alone is told once in PROGRESS_SECONDS: many jobs may run at once.
    """
    ended: set[UUID] = set()
    sent: dict[UUID, tuple[str, float]] = {}
    async for job in seen:
        if job is None:
            yield b": still here\n\n"
            continue
        status, at = sent.get(job.id, ("", -math.inf))
        if job.status == status and time.monotonic() < at + PROGRESS_SECONDS:
            continue
        sent[job.id] = job.status, time.monotonic()
        yield event("job", JobEvent.model_validate(job).model_dump(mode="json"))
        if job.status in FINAL_STATUSES:
            ended.add(job.id)
        if len(ended) == number:
            return


@router.get(
    "/jobs/{id}/events",
    response_class=StreamingResponse,
    responses={200: {"description": EVENTS, "content": {"text/event-stream": EVENT_STREAM}}},
)
async def events(
    caller: Analyst, services: House, watch: Watch, places: StreamPlaces, job_id: JobId
) -> StreamingResponse:
    """Server-sent events: `status` and `progress`, until the job has ended.

    The last one, where the job succeeded, holds the verdict on its result.
    """
    first = await in_thread(fetch.job, services, caller, job_id)
    places.take(caller.id)
    stream = told_events(watch.follow(caller, fetch.seen(first)))
    return EventStream(stream, lambda: places.leave(caller.id))


async def told_events(seen: AsyncIterator[Watched | None]) -> AsyncIterator[bytes]:
    """A job's events, told once each."""
    status: str | None = None
    progress: tuple[int, int] | None = None
    async for job in seen:
        if job is None:
            yield b": still here\n\n"
            continue
        final = job.status in FINAL_STATUSES
        if final and status == "queued" and job.started:  # it ran between two looks
            yield event("status", {"status": "running"})
        if job.status != status and not final:
            yield event("status", {"status": job.status})
        if (job.step, job.of) != progress:
            yield event("progress", {"step": job.step, "of": job.of})
        if final:
            ended: dict[str, Any] = {"status": job.status}
            if job.verdict:
                ended["verdict"] = VerdictOut.model_validate(job.verdict).model_dump()
            yield event("status", ended)
            return
        status, progress = job.status, (job.step, job.of)
