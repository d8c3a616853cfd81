"""What tasks released, and what follows from it: all of it free."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from app.api.auth import Analyst, Downloading, House, JobId, Planning
from app.api.bodies import describe, read
from app.api.endpoints import IdempotencyKey, Route, in_thread
from app.api.formats import (
    BINARY,
    CSV,
    FORMATS,
    JSON,
    PARQUET,
    as_files,
    negotiate,
    table_as_csv,
    table_as_parquet,
)
from app.api.pieces import download
from app.api.problems import of_status
from app.api.questions import InferenceIn, InferenceOut
from app.api.routes.jobs import POLL_SECONDS, shown
from app.api.schemas import JobOut, TaskOut
from app.api.waiting import answered
from app.services.errors import Fault, Refusal
from app.services.jobs.kinds.inferences import InferenceJob
from app.services.jobs.submit import submit_free
from app.services.planning.calls import answered_of_task, inferred, settled
from app.services.results import fetch
from app.services.results.chains import HeldDraws
from dpmcmc.queries.statistics.questions import InferenceQuestion
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.tasks import FREE

router = APIRouter(prefix="/v1", route_class=Route)
Level = Annotated[float, Query(gt=0, lt=1, description="of the intervals of summaries")]
Of = Annotated[
    IntervalTarget,
    Query(description="population, whose random sample the rows are; rows: the noise alone"),
]
Number = Annotated[int, Path(ge=0, le=10_000, description="from 0")]
TABLES = (CSV, PARQUET)
AT_ONCE_SECONDS = 8.0  # what a request waits for
Prefer = Annotated[
    str | None,
    Header(max_length=200, description="respond-async (RFC 7240): a job, however short it is"),
]
LATER: dict[str, Any] = {
    "description": "It takes longer than a request: a job of its own.",
    "model": JobOut,
}


@router.get("/jobs/{id}/result", tags=["jobs"], response_model=TaskOut, dependencies=[Downloading])
async def result(
    caller: Analyst,
    services: House,
    planners: Planning,
    request: Request,
    job_id: JobId,
    level: Level = 0.9,
    target: Of = "population",
) -> Response:
    """What a task released, with intervals that know the noise. Free, however often it is asked."""
    table = await in_thread(fetch.result, services, caller, job_id)
    head = {"kind": table.spec.task.kind, "job": str(job_id), "note": FREE}
    asked = (table.schema, table.spec, table.block, level, target, head)
    ticket = planners.ask(str(caller.id), answered_of_task, *asked, keep=False)
    answer = await answered(request, ticket)
    if isinstance(answer, Fault):
        raise Refusal(422, "invalid_request", "The request is not valid.", [answer])
    return Response(answer, media_type=JSON)


@router.get(
    "/jobs/{id}/tables/{number}",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={200: {"content": dict.fromkeys(TABLES, BINARY)}},
    dependencies=[Downloading],
)
def table(
    caller: Analyst, services: House, job_id: JobId, number: Number, request: Request
) -> StreamingResponse:
    """One synthetic table, as CSV or Parquet. An analysis of each of them is combined by Rubin."""
    kind = negotiate(",".join(request.headers.getlist("accept")), TABLES)
    if kind is None:
        raise of_status(406, f"Tables come as {', '.join(TABLES)}.")
    parts = fetch.table(services, caller, job_id, number)
    body = table_as_csv(parts) if kind == CSV else table_as_parquet(parts)
    return download(request, caller, body, kind, {})


@router.post(
    "/jobs/{id}/inferences",
    tags=["jobs"],
    openapi_extra=describe(InferenceIn),
    response_model=InferenceOut,
    responses={**as_files(InferenceOut), 202: LATER},
    dependencies=[Downloading],
)
async def inferences(
    caller: Analyst,
    services: House,
    planners: Planning,
    request: Request,
    job_id: JobId,
    body: Annotated[InferenceIn, Depends(read(InferenceIn))],
    prefer: Prefer = None,
    key: IdempotencyKey = None,
) -> Response:
    """Draws of the one unknown number of a family, given a released statistic. Free of charge.

    Neither the rows nor the ledger are touched, so that it may be asked again with another prior,
    family or algorithm. In another format than JSON it is the draws alone, as those of a chain.
    What takes longer than some seconds, or is asked for with `Prefer: respond-async`, is a job: 202
    with its address, and then its chain and summary as of any other.
    """
    kind = negotiate(",".join(request.headers.getlist("accept")))
    if kind is None:
        raise of_status(406, f"Draws come as {', '.join(FORMATS)}.")
    statistic = await in_thread(fetch.statistic, services, caller, job_id)
    ticket = planners.ask(
        str(caller.id), settled, statistic, InferenceQuestion(**dict(body)), keep=False
    )
    asked = await answered(request, ticket)
    if isinstance(asked, Fault):
        raise Refusal(422, "invalid_request", "The request is not valid.", [asked])
    if asked.seconds > AT_ONCE_SECONDS or "respond-async" in (prefer or ""):
        long = InferenceJob(str(job_id), asked.question)
        given = (services, caller, job_id, long, asked.question.draws, key)
        job = await in_thread(submit_free, *given)
        headers = {"Location": f"/v1/jobs/{job.id}", "Retry-After": str(POLL_SECONDS)}
        return JSONResponse(shown(job).model_dump(mode="json"), 202, headers)
    head = {"job": str(job_id), "cost": {"epsilon": 0.0}, "note": FREE}
    question = (statistic, asked.question, head if kind == JSON else None)
    ticket = planners.ask(str(caller.id), inferred, *question, keep=False)
    answer = await answered(request, ticket)
    if isinstance(answer, Fault):
        raise Refusal(422, "invalid_request", "The request is not valid.", [answer])
    if kind != JSON:
        headers = {"Dpmcmc-Verdict": answer["verdict"]["status"]}
        made = FORMATS[kind](_draws_of(job_id, answer))
        return download(request, caller, made, kind, headers)
    return Response(answer, media_type=JSON, headers={"Vary": "Accept"})


def _draws_of(job_id: UUID, answer: dict[str, Any]) -> fetch.Chain:
    free: dict[str, str | float] = {
        "inference_library": "dpmcmc",
        "epsilon": 0.0,
        "algorithm": answer["algorithm"],
    }
    worth = answer["verdict"]
    draws = HeldDraws(answer["draws"][..., None])
    verdict = (worth["status"], worth["sentence"])
    return fetch.Chain(job_id, (answer["parameter"]["name"],), 0, draws, verdict, free)
