"""The form of a job, made from what is registered, with a plan that follows what is typed."""

import asyncio
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web import forms
from app.web.forms import NotReadError, problem_of
from app.web.inside import Json, RefusedError, identifier
from app.web.session import Session, Signed, fields_of
from app.web.shown import left, page

router = APIRouter(include_in_schema=False)


PRICES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the most that a comparison asks for
MOST = 4.0  # epsilon: a larger one promises little


async def _listed(signed: Session, what: str) -> list[Json]:
    """Return what is registered, as the API lists it."""
    listed: list[Json] = (await signed.api.get(f"/v1/{what}"))["items"]
    return listed


async def _registered(signed: Session, what: str) -> Json:
    """Return schemas of the options of what is registered, by name."""
    return {entry["name"]: entry["options"] for entry in await _listed(signed, what)}


async def _form(
    request: Request, signed: Session, form: dict[str, str], status: int = 200, **values: object
) -> HTMLResponse:
    datasets, models, samplers = await asyncio.gather(
        signed.api.items("/v1/datasets"),
        _listed(signed, "models"),
        _listed(signed, "samplers"),
    )
    options_of = {entry["name"]: entry["options"] for entry in (*models, *samplers)}
    usable = [dataset for dataset in datasets if dataset["status"] == "open"]
    chosen = next((dataset for dataset in usable if dataset["id"] == form.get("dataset")), None)
    algorithm, family = form.get("algorithm", ""), form.get("family", "")
    return page(
        request,
        "job_form.html",
        signed,
        status,
        form={"again": str(uuid4())} | form,
        datasets=usable,
        dataset=chosen or (usable[0] if usable else None),
        models=models,
        samplers=samplers,
        options=forms.fields(options_of[algorithm]) if algorithm in options_of else [],
        model_options=forms.model_fields(options_of[family]) if family in options_of else [],
        **values,
    )


@router.get("/jobs/new", response_class=HTMLResponse)
async def new(
    request: Request,
    signed: Signed,
    dataset: str = "",
    like: str = "",
    epsilon: str = "",
    planner: bool = False,
) -> HTMLResponse:
    """An empty form, or one filled like an earlier job, with what its verdict says would help."""
    form = {"dataset": dataset} if dataset else {}
    if like:
        earlier = await signed.api.get(f"/v1/jobs/{await identifier(like)}")
        if "model" in earlier["spec"]:
            form |= forms.filled(earlier, planner=planner)
            form |= {"epsilon": epsilon[:20]} if epsilon else {}
    return await _form(request, signed, form)


@router.get("/jobs/options", response_class=HTMLResponse)
async def options(
    request: Request, signed: Signed, algorithm: str = "", family: str = ""
) -> HTMLResponse:
    """The fields of an algorithm's or of a family's options."""
    if family:
        models = await _registered(signed, "models")
        fields = forms.model_fields(models[family]) if family in models else []
    else:
        samplers = await _registered(signed, "samplers")
        fields = forms.fields(samplers[algorithm]) if algorithm in samplers else []
    return page(request, "job_options.html", signed, options=fields, form={})


@router.get("/jobs/columns", response_class=HTMLResponse)
async def columns(request: Request, signed: Signed, dataset: str) -> HTMLResponse:
    """The columns of a dataset, and the delta of its budget."""
    chosen = await signed.api.get(f"/v1/datasets/{await identifier(dataset)}")
    return page(request, "job_columns.html", signed, dataset=chosen, form={})


async def body_of(signed: Session, form: dict[str, str]) -> Json:
    """Return the body of the job of a form. Raises NotReadError and RefusedError."""
    id = await identifier(form.get("dataset", ""))
    dataset, models, samplers = await asyncio.gather(
        signed.api.get(f"/v1/datasets/{id}"),
        _registered(signed, "models"),
        _registered(signed, "samplers"),
    )
    return forms.job(form, dataset, models, samplers)


@router.post("/jobs/plan", response_class=HTMLResponse)
async def plan(request: Request, signed: Signed) -> HTMLResponse:
    """What the job of a form would cost and bring, or what it lacks. Spends nothing."""
    values: Json = {}
    try:
        body = await body_of(signed, await fields_of(request))
        body.pop("accept_low_quality", None)
        values["plan"] = await signed.api.json("POST", "/v1/plans", json=body)
        values["family"] = body["model"].get("family")
        if values["plan"]["affordable"]:
            values["like_this"] = await _like(signed, body["dataset"], values["plan"]["epsilon"])
        else:
            values["fits"] = await _left(signed, body["dataset"])
    except (NotReadError, RefusedError) as error:
        values["problem"] = problem_of(error)
    return page(request, "plan.html", signed, **values)


async def _like(signed: Session, dataset: str, epsilon: float) -> int:
    """Return how many jobs of this epsilon still fit, of the reader's own part if that is less."""
    if epsilon <= 0.0:
        return 0
    budget = await signed.api.get(f"/v1/datasets/{dataset}/budget", job_epsilon=repr(epsilon))
    return int(min(own["jobs_left"] for own in (budget, *budget.get("allotments", {}).values())))


async def _left(signed: Session, dataset: str) -> float:
    """Return the largest epsilon of one job that the reader may still ask of a dataset."""
    budget = await signed.api.get(f"/v1/datasets/{dataset}/budget")
    caps = budget.get("allotments", {}).values()
    return float(min(own["remaining"]["epsilon"] for own in (budget, *caps)))


@router.post("/jobs/prices", response_class=HTMLResponse)
async def prices(request: Request, signed: Signed) -> HTMLResponse:
    """What the job of a form would bring at several epsilons. Nothing where it has no plan."""
    form = await fields_of(request)
    found: list[Json] = []
    chosen = 0
    try:
        body = await body_of(signed, form)
        most = min(MOST, await _left(signed, body["dataset"]))
        asked = [left(share * most) for share in PRICES] if most > 0.0 else []
        plans = await asyncio.gather(*(_priced(signed, body, epsilon) for epsilon in asked))
        found = [
            {
                "epsilon": epsilon,
                "width": plan["expected_width"],
                "usable": plan["usable"],
                "left": plan["remaining_after"]["epsilon"],
            }
            for epsilon, plan in zip(asked, plans, strict=True)
        ]
        wanted = float(form["epsilon"])
        chosen = min(range(len(asked)), key=lambda k: abs(float(asked[k]) - wanted), default=0)
    except (NotReadError, RefusedError, KeyError, ValueError):
        found = []  # the plan says what is wrong
    return page(request, "job_prices.html", signed, prices=found, chosen=chosen)


async def _priced(signed: Session, body: Json, epsilon: str) -> Json:
    privacy = body["privacy"] | {"epsilon": float(epsilon)}
    plan: Json = await signed.api.json("POST", "/v1/plans", json=body | {"privacy": privacy})
    return plan


@router.post("/jobs", response_model=None)
async def submit(request: Request, signed: Signed) -> Response:
    """Submit the job of a form once, however often it is sent."""
    form = await fields_of(request)
    try:
        body = await body_of(signed, form)
        job = await signed.api.json(
            "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": form.get("again", "")}
        )
    except (NotReadError, RefusedError) as error:
        fresh = form | {"again": str(uuid4())}
        return await _form(request, signed, fresh, 422, problem=problem_of(error))
    return RedirectResponse(f"/jobs/{job['id']}", status_code=303)
