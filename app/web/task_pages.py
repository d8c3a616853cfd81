"""The form of a task: summaries, synthetic tables, a statistic, or a statistic in two stages."""

from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web.forms import NotReadError, problem_of
from app.web.inside import Json, RefusedError, identifier
from app.web.session import Session, Signed, fields_of
from app.web.shown import page
from app.web.task_forms import KINDS, body_of, filled

router = APIRouter(include_in_schema=False)
FAMILIES = ("normal_mean", "normal_variance", "uniform_width", "bernoulli")


async def _told(signed: Session, form: dict[str, str]) -> Json:
    """Return what a form shows: datasets, the chosen one with its columns, and the kind."""
    datasets = [
        dataset for dataset in await signed.api.items("/v1/datasets") if dataset["status"] == "open"
    ]
    chosen = next((dataset for dataset in datasets if dataset["id"] == form.get("dataset")), None)
    kind = form.get("kind", "")
    return {
        "datasets": datasets,
        "dataset": chosen or (datasets[0] if datasets else None),
        "kind": kind if kind in KINDS else "summaries",
        "kinds": KINDS,
        "families": FAMILIES,
    }


@router.get("/tasks/new", response_class=HTMLResponse)
async def new(
    request: Request,
    signed: Signed,
    dataset: str = "",
    kind: str = "summaries",
    like: str = "",
    epsilon: str = "",
) -> HTMLResponse:
    """An empty form, or one filled like an earlier task; epsilon: what its verdict says helps."""
    form = {"again": str(uuid4()), "dataset": dataset, "kind": kind}
    values: Json = {}
    if like:
        earlier = await signed.api.get(f"/v1/jobs/{await identifier(like)}")
        if earlier["kind"] == "task" and earlier["spec"]["task"]["kind"] in KINDS:
            form |= filled(earlier)
            form |= {"epsilon": epsilon[:20]} if epsilon else {}
            values["planned"] = True
    values |= await _told(signed, form)
    return page(request, "task_form.html", signed, form=form, **values)


@router.get("/tasks/fields", response_class=HTMLResponse)
async def fields(
    request: Request, signed: Signed, dataset: str = "", kind: str = "summaries"
) -> HTMLResponse:
    """The fields of a kind, for the columns of a dataset."""
    values = await _told(signed, {"dataset": dataset, "kind": kind})
    return page(request, "task_fields.html", signed, form={}, **values)


@router.post("/tasks/plan", response_class=HTMLResponse)
async def plan(request: Request, signed: Signed) -> HTMLResponse:
    """What the task of a form would cost, or what it lacks. Spends nothing."""
    values: Json = {}
    try:
        values["plan"] = await signed.api.json(
            "POST", "/v1/plans", json=body_of(await fields_of(request))
        )
    except (NotReadError, RefusedError) as error:
        values["problem"] = problem_of(error)
    return page(request, "task_plan.html", signed, **values)


@router.post("/tasks", response_model=None)
async def submit(request: Request, signed: Signed) -> Response:
    """Submit the task of a form once, however often it is sent."""
    form = await fields_of(request)
    try:
        key = {"Idempotency-Key": form.get("again", "")}
        job = await signed.api.json("POST", "/v1/jobs", json=body_of(form), headers=key)
    except (NotReadError, RefusedError) as error:
        values = await _told(signed, form) | {"problem": problem_of(error)}
        fresh = form | {"again": str(uuid4())}
        return page(request, "task_form.html", signed, 422, form=fresh, **values)
    return RedirectResponse(f"/jobs/{job['id']}", status_code=303)
