"""Plans, jobs and their chains."""

from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api.auth import Analyst, Downloading, House, JobId, Planning, Worker
from app.api.bodies import describe, read, read_either
from app.api.endpoints import IdempotencyKey, Route, in_thread
from app.api.formats import FORMATS, JSON, as_files, negotiate
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.pieces import download
from app.api.problems import of_status
from app.api.questions import PosteriorIn, PosteriorOut, PriorIn
from app.api.reasons import REASONS
from app.api.schemas import (
    ROW_PROTECTED,
    ChainOut,
    CostOut,
    Epsilon,
    ErrorOut,
    JobIn,
    JobOut,
    JobPatch,
    Listing,
    PlanOut,
    ProgressOut,
    ProtectsOut,
    SummaryOut,
    TaskIn,
    VerdictOut,
)
from app.api.waiting import answered
from app.services.budgets.promises import warnings
from app.services.errors import Fault, Refusal
from app.services.jobs import cancel as cancelling
from app.services.jobs import submit as submitting
from app.services.jobs.kinds import kind_of
from app.services.jobs.kinds.dry import DRY, DryChainJob
from app.services.jobs.labels import Label, rename
from app.services.jobs.wanted import Wanted
from app.services.planning import plans
from app.services.planning.calls import shortfall, worked_out
from app.services.results import fetch
from app.services.results.chains import HeldDraws
from app.services.results.posteriors import FREE, EffectAsked, Question, free_answer
from app.storage.rows import FINAL_STATUSES, JobRow
from dpmcmc.base.names import DRY_RUN
from dpmcmc.planner import Plan
from dpmcmc.posterior.free.priors import CoefficientPrior
from dpmcmc.posterior.units import Scale

router = APIRouter(prefix="/v1", route_class=Route)
Body = Annotated[JobIn | TaskIn, Depends(read_either(JobIn, TaskIn, "task"))]
Patch = Annotated[JobPatch, Depends(read(JobPatch))]
POLL_SECONDS = 1
ScaleOf = Annotated[
    Scale,
    Query(
        description="original: coefficients per unit of a column, the intercept where all terms "
        "are 0. design: those of columns centred and scaled by their declared bounds."
    ),
]

OfStatus = Annotated[
    Literal["queued", "running", "succeeded", "failed", "cancelled"] | None,
    Query(description="only jobs of this status"),
]
OfDataset = Annotated[UUID | None, Query(description="only jobs on this dataset")]
WITHOUT_NUL = r"^[^\x00]*$"  # which no database takes
OfFormula = Annotated[
    str | None,
    Query(
        max_length=200,
        pattern=WITHOUT_NUL,
        description="only jobs whose formula holds this text",
    ),
]
OfText = Annotated[
    str | None,
    Query(
        max_length=200,
        pattern=WITHOUT_NUL,
        description="only jobs that have this text in their name, note, formula, columns, kind or "
        "algorithm, or in the name of their dataset; large and small letters are the same",
    ),
]


def protected(job: JobRow) -> ProtectsOut:
    """Whom a job's epsilon protects."""
    return ProtectsOut.model_validate(job.protects) if job.protects else ROW_PROTECTED


def shown(job: JobRow, submitted: Any = None) -> JobOut:
    """A job as the contract shows it. submitted: its spec as it was asked for."""
    code, kind = job.error_code, kind_of(job.resolved)
    cost = CostOut(epsilon=job.epsilon, delta=job.delta, mu=job.mu)
    whole = cost
    if job.reserved_epsilon is not None:
        whole = CostOut(epsilon=job.reserved_epsilon, delta=job.delta, mu=job.reserved_mu)
    return JobOut(
        id=job.id,
        name=job.name,
        note=job.note,
        status=job.status,  # type: ignore[arg-type]
        dataset=job.dataset_id,
        protects=protected(job),
        cost=cost,
        reserved=whole,
        progress=ProgressOut(step=job.progress_step, of=job.progress_of),
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        expired_at=job.expired_at,
        error=ErrorOut(code=code, detail=REASONS.get(code, "The job failed.")) if code else None,
        algorithm=kind.title(job.resolved),
        reasons=job.reasons or [],
        verdict=VerdictOut.model_validate(job.verdict) if job.verdict else None,
        spec=job.resolved,
        submitted=submitted,
        kind=kind.kind,  # type: ignore[arg-type]
        dry_run=kind is DryChainJob,
    )


@router.post("/plans", tags=["jobs"], openapi_extra=describe(JobIn, TaskIn))
async def plan(
    caller: Analyst, services: House, planners: Planning, request: Request, body: Body
) -> PlanOut:
    """What a job would cost and bring, from public facts only. Spends nothing."""
    asked = body.job()
    schema, facts = await in_thread(plans.asked, services, caller, body.dataset, asked)
    ticket = planners.ask(str(caller.id), worked_out, schema, asked, True, facts, quick=asked.quick)
    made = plans.checked(services, schema, asked, await answered(request, ticket))
    offer = await in_thread(plans.offer, services, caller, body.dataset, asked, made)
    return PlanOut(
        algorithm=made.algorithm,
        num_chains=made.num_chains,
        num_warmup=made.num_warmup,
        expected_ess=made.expected_ess,
        expected_width=made.expected_width,
        parameters=list(made.parameters),
        epsilon=made.cost.epsilon,
        delta=made.cost.delta,
        mu=made.cost.mu,
        noise_multiplier=made.noise_multiplier,
        num_steps=made.num_steps,
        usable=made.usable,
        rounds=list(made.rounds) if isinstance(made, Plan) else [],
        remaining_after=Epsilon(epsilon=offer.remaining_after),
        affordable=offer.affordable,
        warnings=[*warnings(made.cost.epsilon), *made.warnings, *offer.found],
        reasons=list(made.reasons),
        protects=ProtectsOut(unit=schema.unit, max_rows=schema.unit_rows),
    )


@router.post("/jobs", tags=["jobs"], status_code=202, openapi_extra=describe(JobIn, TaskIn))
async def submit(
    caller: Analyst,
    services: House,
    planners: Planning,
    request: Request,
    body: Body,
    response: Response,
    key: IdempotencyKey = None,
) -> JobOut:
    """Reserve the cost and queue the job."""
    asked = body.job()
    accepted = body.accept_low_quality
    given = (services, caller, body.dataset, asked, Label(body.name, body.note), key, accepted)
    job = await in_thread(submitting.begin, *given)
    if isinstance(job, tuple):  # no lock is held and no transaction open while it is planned
        work = (str(caller.id), worked_out, schema := job[0], asked, False, job[1])
        ticket = planners.ask(*work, quick=asked.quick)
        made = plans.checked(services, schema, asked, await answered(request, ticket))
        plans.refuse_few_rows(schema, made)
        if not made.usable and not accepted:
            ticket = planners.ask(str(caller.id), shortfall, schema, asked, made)
            raise plans.low_quality(*await answered(request, ticket))
        job = await in_thread(submitting.submit, *given, made)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = str(POLL_SECONDS)
    return shown(job)


@router.get("/jobs", tags=["jobs"])
def jobs(
    caller: Analyst,
    services: House,
    status: OfStatus = None,
    dataset: OfDataset = None,
    formula: OfFormula = None,
    text: OfText = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Listing[JobOut]:
    """Your jobs, newest first."""
    wanted = Wanted(status, dataset, formula, text)
    page = fetch.jobs(services, caller, wanted, limit, cursor)
    return Listing(items=[shown(job) for job in page.items], next_cursor=page.next_cursor)


@router.get("/jobs/{id}", tags=["jobs"])
def job(caller: Analyst, services: House, job_id: JobId, response: Response) -> JobOut:
    """One of your jobs."""
    row, submitted = fetch.job_and_request(services, caller, job_id)
    if row.status not in FINAL_STATUSES:
        response.headers["Retry-After"] = str(POLL_SECONDS)
    return shown(row, submitted)


@router.patch("/jobs/{id}", tags=["jobs"], openapi_extra=describe(JobPatch))
def change(caller: Analyst, services: House, job_id: JobId, body: Patch) -> JobOut:
    """Change the name or the note of one of your jobs, whatever became of it."""
    return shown(rename(services, caller, job_id, body.model_dump(exclude_unset=True)))


@router.post("/jobs/{id}/cancel", tags=["jobs"])
def cancel(caller: Worker, services: House, job_id: JobId) -> JobOut:
    """Cancel an own job, or as an admin any.

    A queued one gives its reservation back, a running one stops and stays paid.
    """
    return shown(cancelling.cancel(services, caller, job_id))


@router.get(
    "/jobs/{id}/chain",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses=as_files(ChainOut),
    dependencies=[Downloading],
)
def chain(
    caller: Analyst,
    services: House,
    job_id: JobId,
    request: Request,
    scale: ScaleOf = "original",
) -> StreamingResponse:
    """The released draws, warm-up included, in the format that Accept names.

    Dpmcmc-Verdict says whether they may be believed; JSON, Parquet and netCDF hold it as well.
    Dpmcmc-Protects says whom their epsilon protects, percent-encoded where a name needs it.
    """
    kind = negotiate(",".join(request.headers.getlist("accept")))
    if kind is None:
        raise of_status(406, f"The chain comes as {', '.join(FORMATS)}.")
    released = fetch.chain(services, caller, job_id, scale)
    protects = quote(str(released.attributes["protects"]), safe=" (),")
    headers = {"Dpmcmc-Protects": protects}
    if released.verdict is not None:
        headers["Dpmcmc-Verdict"] = released.verdict[0]
    return download(request, caller, FORMATS[kind](released), kind, headers)


@router.get("/jobs/{id}/summary", tags=["jobs"])
def summary(
    caller: Analyst, services: House, job_id: JobId, scale: ScaleOf = "original"
) -> SummaryOut:
    """Moments, quantiles and diagnostics of the released chain after warm-up."""
    job, parameters = fetch.summary(services, caller, job_id, scale)
    sampler = job.resolved["sampler"]
    sentences, covariates = fetch.explanation(services, job)
    return SummaryOut.model_validate(
        {
            "job": job.id,
            "scale": scale,
            "chains": sampler["num_chains"],
            "draws": sampler["num_steps"] - sampler["num_warmup"],
            "num_warmup": sampler["num_warmup"],
            "parameters": parameters,
            "verdict": job.verdict,
            "protects": protected(job),
            "explanation": sentences,
            "covariates": covariates,
            "dry_run": kind_of(job.resolved) is DryChainJob,
        }
    )


def _prior(prior: PriorIn | str) -> CoefficientPrior | str:
    return prior if isinstance(prior, str) else CoefficientPrior(**dict(prior))


def _question(body: PosteriorIn, scale: Scale) -> Question:
    """What the planners' processes are asked."""
    return Question(
        prior=(
            {name: _prior(prior) for name, prior in body.prior.items()}
            if isinstance(body.prior, dict)
            else _prior(body.prior)
        ),
        num_draws=body.num_draws,
        given=body.given,
        contrasts=body.contrasts,
        comparisons=[(pair.given, pair.against) for pair in body.comparisons],
        effects=[EffectAsked(**dict(effect)) for effect in body.effects],
        null=body.null,
        models=body.models,
        curves=[(curve.covariate, curve.given, curve.points) for curve in body.curves],
        scale=scale,
    )


@router.post(
    "/jobs/{id}/posteriors",
    tags=["jobs"],
    openapi_extra=describe(PosteriorIn),
    response_model=PosteriorOut,
    responses=as_files(PosteriorOut),
    dependencies=[Downloading],
)
async def posteriors(
    caller: Analyst,
    services: House,
    planners: Planning,
    request: Request,
    job_id: JobId,
    body: Annotated[PosteriorIn, Depends(read(PosteriorIn))],
    scale: ScaleOf = "original",
) -> Response:
    """Draws under another prior, predictions, contrasts, effects and Bayes factors, free of charge.

    From what the job's release left behind: neither the rows nor the ledger are touched. In another
    format than JSON it is the draws alone, as those of a chain.
    """
    kind = negotiate(",".join(request.headers.getlist("accept")))
    if kind is None:
        raise of_status(406, f"Draws come as {', '.join(FORMATS)}.")
    kept = await in_thread(fetch.release, services, caller, job_id)
    head = {"job": str(job_id), "cost": {"epsilon": 0.0}, "note": FREE, "scale": scale}
    asked = (kept, _question(body, scale), head if kind == JSON else None)
    answer = await answered(request, planners.ask(str(caller.id), free_answer, *asked, keep=False))
    if isinstance(answer, Fault):
        raise Refusal(422, "invalid_request", "The request is not valid.", [answer])
    if kind == JSON:
        return Response(answer, media_type=JSON, headers={"Vary": "Accept"})
    free: dict[str, str | float] = {"inference_library": "dpmcmc", "epsilon": 0.0}
    free |= {DRY_RUN: DRY} if kept.dry else {}
    draws = HeldDraws(answer.draws[None])
    chain = fetch.Chain(job_id, answer.parameters, 0, draws, attributes=free)
    return download(request, caller, FORMATS[kind](chain), kind, {})
