"""The form of a task: summaries, synthetic tables, a statistic, or a statistic in two stages."""

from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dpmcmc_service.web.forms import NotReadError, number, problem_of
from dpmcmc_service.web.inside import Json, RefusedError
from dpmcmc_service.web.session import Session, Signed, fields_of
from dpmcmc_service.web.shown import page

router = APIRouter(include_in_schema=False)
KINDS = {
    "summaries": "means, quantiles and counts",
    "synthetic": "synthetic tables",
    "statistic": "one statistic",
    "two_stages": "one statistic, chosen by a part of the rows",
}
FAMILIES = ("normal_mean", "normal_variance", "uniform_width", "bernoulli")


async def _told(signed: Session, form: dict[str, str]) -> Json:
    """Return what a form shows: datasets, the chosen one with its columns, and the kind."""
    datasets = [one for one in await signed.api.items("/v1/datasets") if one["status"] == "open"]
    chosen = next((one for one in datasets if one["id"] == form.get("dataset")), None)
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
    request: Request, signed: Signed, dataset: str = "", kind: str = "summaries"
) -> HTMLResponse:
    """An empty form."""
    form = {"again": str(uuid4()), "dataset": dataset, "kind": kind}
    return page(request, "task_form.html", signed, form=form, **await _told(signed, form))


@router.get("/tasks/fields", response_class=HTMLResponse)
async def fields(
    request: Request, signed: Signed, dataset: str = "", kind: str = "summaries"
) -> HTMLResponse:
    """The fields of a kind, for the columns of a dataset."""
    told = await _told(signed, {"dataset": dataset, "kind": kind})
    return page(request, "task_fields.html", signed, form={}, **told)


@router.post("/tasks/plan", response_class=HTMLResponse)
async def plan(request: Request, signed: Signed) -> HTMLResponse:
    """What the task of a form would cost, or what it lacks. Spends nothing."""
    told: Json = {}
    try:
        told["plan"] = await signed.api.json(
            "POST", "/v1/plans", json=body_of(await fields_of(request))
        )
    except (NotReadError, RefusedError) as error:
        told["problem"] = problem_of(error)
    return page(request, "task_plan.html", signed, **told)


@router.post("/tasks", response_model=None)
async def submit(request: Request, signed: Signed) -> Response:
    """Submit the task of a form once, however often it is sent."""
    form = await fields_of(request)
    try:
        key = {"Idempotency-Key": form.get("again", "")}
        job = await signed.api.json("POST", "/v1/jobs", json=body_of(form), headers=key)
    except (NotReadError, RefusedError) as error:
        told = await _told(signed, form) | {"problem": problem_of(error)}
        fresh = form | {"again": str(uuid4())}
        return page(request, "task_form.html", signed, 422, form=fresh, **told)
    return RedirectResponse(f"/jobs/{job['id']}", status_code=303)


def body_of(form: dict[str, str]) -> Json:
    """Return the body of a task from its form. Raises NotReadError on what is no number."""
    kind = form.get("kind", "")
    if kind not in KINDS:
        raise NotReadError("/task/kind", f"must be one of {', '.join(KINDS)}")
    made = {
        "summaries": _summaries,
        "synthetic": _synthetic,
        "statistic": _statistic,
        "two_stages": _stages,
    }[kind](form)
    privacy = {name: number(form, name, f"/privacy/{name}") for name in ("epsilon", "delta")}
    return {
        "dataset": form.get("dataset", ""),
        "task": {"kind": kind} | made,
        "privacy": {name: value for name, value in privacy.items() if value is not None},
    }


def _named(form: dict[str, str], prefix: str) -> list[str]:
    """Return what the form's fields with this prefix and something in them are of."""
    return [key[len(prefix) :] for key in form if key.startswith(prefix) and form[key].strip()]


def _numbers(form: dict[str, str], name: str, pointer: str) -> list[float]:
    """Return numbers between commas. Raises NotReadError."""
    found = []
    for at, part in enumerate(form.get(name, "").split(",")):
        if part.strip():
            found.append(number({name: part}, name, f"{pointer}/{at}") or 0.0)
    return found


def _whole(form: dict[str, str], name: str, pointer: str) -> int | None:
    value = number(form, name, pointer)
    if value is not None and not value.is_integer():
        raise NotReadError(pointer, "must be a whole number")
    return None if value is None else int(value)


def _tables(form: dict[str, str], name: str) -> list[list[str]]:
    """Return columns between commas, a table on each line."""
    lines = (line.split(",") for line in form.get(name, "").splitlines())
    named = ([one.strip() for one in line if one.strip()] for line in lines)
    return [one for one in named if one]


def _summaries(form: dict[str, str]) -> Json:
    asked: list[Json] = [{"kind": "mean", "column": one} for one in _named(form, "mean.")]
    for one in _named(form, "quantiles."):
        at = _numbers(form, f"quantiles.{one}", "/task/statistics/at")
        asked.append({"kind": "quantiles", "column": one, "at": at})
    counted = [[one] for one in _named(form, "counts.")] + _tables(form, "tables")
    asked += [{"kind": "counts", "columns": columns} for columns in counted]
    return {"statistics": asked}


def _synthetic(form: dict[str, str]) -> Json:
    found: Json = {}
    columns = _named(form, "column.")
    if columns:
        found["columns"] = columns
    tables = _whole(form, "num_tables", "/task/tables")
    if tables is not None:
        found["tables"] = tables
    marginals = _tables(form, "marginals")
    return found | ({"marginals": marginals} if marginals else {})


def _statistic(form: dict[str, str]) -> Json:
    found: Json = {
        name: form[name] for name in ("column", "statistic", "form", "noise") if form.get(name)
    }
    power = number(form, "a", "/task/a")
    return found | ({} if power is None else {"a": power})


def _stages(form: dict[str, str]) -> Json:
    found: Json = {
        name: form[name] for name in ("column", "statistic", "noise", "family") if form.get(name)
    }
    sd = number(form, "sd", "/task/options/sd")
    found |= {} if sd is None else {"options": {"sd": sd}}
    first = _whole(form, "first_rows", "/task/first_rows")
    found |= {} if first is None else {"first_rows": first}
    for name in ("thetas", "powers"):
        found[name] = _numbers(form, name, f"/task/{name}")
    return found
