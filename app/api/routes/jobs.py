"""Plans, jobs and what they release."""

import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from app.api.auth import Analyst, House, JobId
from app.api.bodies import describe, read
from app.api.formats import FORMATS, JSON, negotiate
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.problems import of_status
from app.api.schemas import (
    ChainOut,
    CostOut,
    Epsilon,
    ErrorOut,
    JobIn,
    JobOut,
    Listing,
    PlanOut,
    ProgressOut,
    SummaryOut,
)
from app.api.sse import event, follow
from app.jobs import cancel as cancelling
from app.jobs import fetch, plans
from app.jobs import submit as submitting
from app.jobs.services import Services
from app.jobs.users import Caller
from app.storage.rows import FINAL_STATUSES, JobRow
from dpmcmc.spec import JobSpec

router = APIRouter(prefix="/v1")
Body = Annotated[JobIn, Depends(read(JobIn))]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$"),
]
REASONS = {
    "sampler_failed": "The sampler stopped with an error. The debit stays.",
    "worker_lost": "Every worker that ran this job was lost. The debit stays.",
    "store_unavailable": "The dataset's stored rows could not be reached. The debit stays.",
    "time_limit_exceeded": "The job ran longer than this service allows. The debit stays.",
    "dataset_destroyed": "The dataset's rows were destroyed before the job ran.",
    "reservation_expired": "No worker was free before the reservation expired.",
}
POLL_SECONDS = 1


def spec_of(body: JobIn) -> JobSpec:
    """The job without its dataset."""
    return JobSpec(model=body.model, sampler=body.sampler, privacy=body.privacy)


def shown(job: JobRow) -> JobOut:
    """A job as the contract shows it."""
    code = job.error_code
    return JobOut(
        id=job.id,
        status=job.status,  # type: ignore[arg-type]
        dataset=job.dataset_id,
        cost=CostOut(epsilon=job.epsilon, delta=job.delta, mu=job.mu),
        progress=ProgressOut(step=job.progress_step, of=job.progress_of),
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        error=ErrorOut(code=code, detail=REASONS.get(code, "The job failed.")) if code else None,
        algorithm=job.resolved["sampler"]["algorithm"],
        reasons=job.reasons or [],
        spec=job.resolved,
    )


@router.post("/plans", tags=["jobs"], openapi_extra=describe(JobIn))
def plan(caller: Analyst, services: House, body: Body) -> PlanOut:
    """What a job would cost and bring, from public facts only. Spends nothing."""
    offer = plans.plan(services, caller, body.dataset, spec_of(body))
    made = offer.plan
    return PlanOut(
        algorithm=made.spec.sampler.algorithm,
        epsilon=made.cost.epsilon,
        delta=made.cost.delta,
        mu=made.cost.mu,
        noise_multiplier=made.noise_multiplier,
        num_steps=made.num_steps,
        num_chains=made.num_chains,
        num_warmup=made.num_warmup,
        expected_ess=made.expected_ess,
        parameters=list(made.parameters),
        remaining_after=Epsilon(epsilon=offer.remaining_after),
        affordable=offer.affordable,
        warnings=list(made.warnings),
        reasons=list(made.reasons),
    )


@router.post("/jobs", tags=["jobs"], status_code=202, openapi_extra=describe(JobIn))
def submit(
    caller: Analyst, services: House, body: Body, response: Response, key: Key = None
) -> JobOut:
    """Reserve the cost and queue the job."""
    job = submitting.submit(services, caller, body.dataset, spec_of(body), key)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = str(POLL_SECONDS)
    return shown(job)


@router.get("/jobs", tags=["jobs"])
def jobs(
    caller: Analyst, services: House, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Listing[JobOut]:
    """Your jobs, newest first."""
    page = fetch.jobs(services, caller, limit, cursor)
    return Listing(items=[shown(job) for job in page.items], next_cursor=page.next_cursor)


@router.get("/jobs/{id}", tags=["jobs"])
def job(caller: Analyst, services: House, job_id: JobId, response: Response) -> JobOut:
    """One of your jobs."""
    found = fetch.job(services, caller, job_id)
    if found.status not in FINAL_STATUSES:
        response.headers["Retry-After"] = str(POLL_SECONDS)
    return shown(found)


@router.get(
    "/jobs/{id}/events",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    caller: Analyst, services: House, job_id: JobId, request: Request
) -> StreamingResponse:
    """Server-sent events: `status` and `progress`, until the job has ended."""
    first = await run_in_threadpool(fetch.job, services, caller, job_id)
    stream = _events(services, caller, first, request.app.state.stopping)
    return StreamingResponse(stream, media_type="text/event-stream")


async def _events(
    services: Services, caller: Caller, first: JobRow, stopping: threading.Event
) -> AsyncIterator[bytes]:
    """A job's events, told once each."""
    status: str | None = None
    progress: tuple[int, int] | None = None

    async def look() -> JobRow:
        return await run_in_threadpool(fetch.job, services, caller, first.id)

    async for found in follow(first, look, stopping):
        if found is None:
            yield b": still here\n\n"
            continue
        final = found.status in FINAL_STATUSES
        now = (found.progress_step, found.progress_of)
        if final and status == "queued" and found.started_at:  # it ran between two looks
            yield event("status", {"status": "running"})
        if found.status != status and not final:
            yield event("status", {"status": found.status})
        if now != progress:
            yield event("progress", {"step": now[0], "of": now[1]})
        if final:
            yield event("status", {"status": found.status})
            return
        status, progress = found.status, now


@router.post("/jobs/{id}/cancel", tags=["jobs"])
def cancel(caller: Analyst, services: House, job_id: JobId) -> JobOut:
    """Cancel: a queued job gives its reservation back, a running one stops and stays paid."""
    return shown(cancelling.cancel(services, caller, job_id))


def _formats() -> dict[int | str, dict[str, Any]]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    others = {kind: binary for kind in FORMATS if kind != JSON}
    return {200: {"model": ChainOut, "content": others}}


@router.get(
    "/jobs/{id}/chain",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses=_formats(),
)
def chain(caller: Analyst, services: House, job_id: JobId, request: Request) -> StreamingResponse:
    """The released draws, warm-up included, in the format that Accept names."""
    kind = negotiate(",".join(request.headers.getlist("accept")))
    if kind is None:
        raise of_status(406, f"The chain comes as {', '.join(FORMATS)}.")
    released = fetch.chain(services, caller, job_id)
    body = FORMATS[kind](released)
    return StreamingResponse(body, media_type=kind, headers={"Vary": "Accept"})


@router.get("/jobs/{id}/summary", tags=["jobs"])
def summary(caller: Analyst, services: House, job_id: JobId) -> SummaryOut:
    """Moments, quantiles and diagnostics of the released chain after warm-up."""
    found, parameters = fetch.summary(services, caller, job_id)
    sampler = found.resolved["sampler"]
    return SummaryOut.model_validate(
        {
            "job": found.id,
            "chains": sampler["num_chains"],
            "draws": sampler["num_steps"] - sampler["num_warmup"],
            "num_warmup": sampler["num_warmup"],
            "parameters": parameters,
        }
    )
