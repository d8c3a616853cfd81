"""Jobs: the list, the form with its plan, and what a job released."""

import asyncio
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app.web import figures, forms
from app.web.forms import NotReadError, problem_of
from app.web.inside import Id, Json, RefusedError
from app.web.session import Session, Signed, fields_of
from app.web.shown import page, term
from app.web.task_forms import check_of

router = APIRouter(include_in_schema=False)
STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")
LIVE = ("queued", "running")
LISTED = 50
FILES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "nc": "application/x-netcdf",
    "json": "application/json",
}


@router.get("/jobs", response_class=HTMLResponse)
async def jobs(
    request: Request,
    signed: Signed,
    status: str = "",
    dataset: str = "",
    text: str = "",
    cursor: str = "",
) -> HTMLResponse:
    """The reader's jobs, newest first; the table alone where it is drawn again."""
    asked = {"status": status, "dataset": dataset, "text": text}
    listed, known = await asyncio.gather(
        signed.api.get("/v1/jobs", limit=LISTED, cursor=cursor, **asked),
        signed.api.items("/v1/datasets"),
    )
    part = request.headers.get("hx-target") == "jobs"
    return page(
        request,
        "job_table.html" if part else "jobs.html",
        signed,
        jobs=listed["items"],
        next=listed["next_cursor"],
        live=[job["id"] for job in listed["items"] if job["status"] in LIVE],
        datasets={dataset["id"]: dataset["name"] for dataset in known},
        asked=asked,
        cursor=cursor,
        comparable=(*LIVE, "succeeded"),
        statuses=STATUSES,
    )


async def _job(signed: Session, id: str) -> Json:
    """Return what all of a job's pages show."""
    job = await signed.api.get(f"/v1/jobs/{id}")
    dataset = await signed.api.get(f"/v1/datasets/{job['dataset']}")
    return {"job": job, "dataset": dataset, "live": job["status"] in LIVE}


@router.get("/jobs/events")
async def events_of_several(request: Request, signed: Signed) -> Response:
    """What becomes of the jobs of a list, as the API tells it."""
    return signed.api.stream("/v1/jobs/events", request.url.query)


@router.get("/jobs/{id}/events")
async def events(signed: Signed, id: Id) -> Response:
    """What becomes of a job, as the API tells it."""
    return signed.api.stream(f"/v1/jobs/{id}/events")


@router.get("/jobs/{id}/cell", response_class=HTMLResponse)
async def cell(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """A job's status as a list shows it."""
    return page(request, "job_cell.html", signed, job=await signed.api.get(f"/v1/jobs/{id}"))


@router.get("/jobs/{id}", response_class=HTMLResponse)
async def job(
    request: Request,
    signed: Signed,
    id: Id,
    scale: str = "original",
    all: bool = False,
    target: str = "population",
) -> HTMLResponse:
    """One job: its state while it runs, its verdict, numbers and figures once it has ended."""
    values = await _job(signed, id)
    if values["job"]["status"] == "succeeded" and not values["job"]["expired_at"]:
        if values["job"]["kind"] == "task":
            values["result"] = await signed.api.get(f"/v1/jobs/{id}/result", target=target)
            if values["result"]["kind"] == "predictive_check":
                values["bins"] = figures.bins(values["result"]["bins"])
        else:
            columns = values["dataset"]["columns"]
            values |= await _results(signed, values["job"], columns, scale, all)
    values["again"] = str(uuid4())
    return page(request, "job.html", signed, scale=scale, all=all, target=target, **values)


async def _results(signed: Session, job: Json, columns: list[Json], scale: str, all: bool) -> Json:
    summary, design = await asyncio.gather(
        *(
            signed.api.get(f"/v1/jobs/{job['id']}/summary", scale=units)
            for units in (scale, "design")
        )
    )
    values: Json = {"summary": summary, "forest": figures.forest(design["parameters"])}
    smooths = {parameter["name"] for parameter in summary["parameters"]}
    values["smooths"] = [
        column["name"] for column in columns if f"sd(s({term(column)}))" in smooths
    ]
    length = (summary["draws"] + summary["num_warmup"]) * summary["chains"]
    if length * len(summary["parameters"]) > figures.MAX_CELLS:
        return values
    names, draws = await _draws(signed, job["id"], scale)
    count = len(names) if all else figures.MAX_DRAWN
    drawn = await run_in_threadpool(figures.of, names[:count], draws, summary["num_warmup"])
    return values | drawn | {"names": names, "hidden": max(0, len(names) - count)}


async def _draws(signed: Session, id: str, scale: str) -> tuple[list[str], figures.Floats]:
    """Return the names of parameters, and draws: (chain, draw, parameter), warm-up included."""
    accept = {"Accept": FILES["parquet"]}
    answer = await signed.api.send(
        "GET", f"/v1/jobs/{id}/chain", params={"scale": scale}, headers=accept
    )
    return await run_in_threadpool(figures.read, answer.content)


@router.get("/jobs/{id}/pair", response_class=HTMLResponse)
async def pair(
    request: Request, signed: Signed, id: Id, x: str = "", y: str = "", scale: str = "original"
) -> HTMLResponse:
    """The draws of two parameters that were chosen."""
    summary = await signed.api.get(f"/v1/jobs/{id}/summary", scale=scale)
    names, draws = await _draws(signed, id, scale)
    if x not in names or y not in names:
        raise RefusedError(404, {"detail": f"The parameters are {', '.join(names)}."})
    kept = draws[:, summary["num_warmup"] :]
    two = figures.pair(x, y, *(kept[:, :, names.index(name)].ravel() for name in (x, y)))
    return page(request, "job_pair.html", signed, pair=two)


@router.get("/jobs/{id}/curve", response_class=HTMLResponse)
async def curve(request: Request, signed: Signed, id: Id, covariate: str = "") -> HTMLResponse:
    """The mean response along a covariate, from what was released: free."""
    values: Json = {}
    try:
        known = await _job(signed, id)
        asked = {"curves": [{"covariate": covariate}]}
        found = await signed.api.json("POST", f"/v1/jobs/{id}/posteriors", json=asked)
        response = known["job"]["spec"]["model"]["formula"].partition("~")[0].strip()
        columns = {column["name"]: column for column in known["dataset"]["columns"]}
        (drawn,) = found["curves"]
        values["curves"] = figures.curves(drawn, response, columns[covariate].get("lower"))
    except RefusedError as error:
        values["problem"] = problem_of(error)
    return page(request, "job_curve.html", signed, **values)


@router.get("/jobs/{id}/state", response_class=HTMLResponse)
async def state(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """How far a job is."""
    return page(request, "job_state.html", signed, **await _job(signed, id))


@router.post("/jobs/{id}/posterior", response_class=HTMLResponse)
async def posterior(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """The posterior under another prior, and a prediction, from what was released: free."""
    values: Json = {}
    try:
        values_of_job = await _job(signed, id)
        body = forms.question(await fields_of(request), values_of_job["dataset"]["columns"])
        values["found"] = await signed.api.json("POST", f"/v1/jobs/{id}/posteriors", json=body)
    except (NotReadError, RefusedError) as error:
        values["problem"] = problem_of(error)
    return page(request, "posterior.html", signed, **values)


@router.post("/jobs/{id}/check", response_class=HTMLResponse)
async def check(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """What a check of a regression against the rows would cost; or it is submitted, once."""
    form = await fields_of(request)
    values: Json = {}
    try:
        job = await signed.api.get(f"/v1/jobs/{id}")
        body = check_of(job, form)
        if not form.get("pay"):
            values["plan"] = await signed.api.json("POST", "/v1/plans", json=body)
            return page(request, "task_plan.html", signed, **values)
        once = {"Idempotency-Key": form.get("again", "")}
        made = await signed.api.json("POST", "/v1/jobs", json=body, headers=once)
    except (NotReadError, RefusedError) as error:
        values["problem"] = problem_of(error)
        return page(request, "task_plan.html", signed, **values)
    return HTMLResponse(headers={"HX-Redirect": f"/jobs/{made['id']}"})


@router.post("/jobs/{id}/label", response_model=None)
async def label(request: Request, signed: Signed, id: Id) -> Response:
    """Change what a job is called, and what is noted on it."""
    given = forms.labels(await fields_of(request))
    changes = {member: given.get(member) for member in forms.LABELS}
    await signed.api.json("PATCH", f"/v1/jobs/{id}", json=changes)
    return RedirectResponse(f"/jobs/{id}", status_code=303)


@router.post("/jobs/{id}/cancel")
async def cancel(signed: Signed, id: Id) -> RedirectResponse:
    """Cancel a job."""
    await signed.api.send("POST", f"/v1/jobs/{id}/cancel")
    return RedirectResponse(f"/jobs/{id}", status_code=303)


@router.get("/jobs/{id}/chain.{kind}")
async def file(signed: Signed, id: Id, kind: str) -> Response:
    """The released draws as a file."""
    if kind not in FILES:
        raise RefusedError(404, {"detail": f"Chains come as {', '.join(FILES)}."})
    return await _saved(signed, f"/v1/jobs/{id}/chain", f"job-{id[:8]}.{kind}", kind)


@router.get("/jobs/{id}/table-{number}.{kind}")
async def table_file(signed: Signed, id: Id, number: int, kind: str) -> Response:
    """A synthetic table as a file."""
    if kind not in ("csv", "parquet"):
        raise RefusedError(404, {"detail": "Tables come as csv and parquet."})
    name = f"job-{id[:8]}-table-{number}.{kind}"
    return await _saved(signed, f"/v1/jobs/{id}/tables/{number}", name, kind)


@router.get("/jobs/{id}/result.json")
async def result_file(signed: Signed, id: Id) -> Response:
    """What a task released, as a file."""
    return await _saved(signed, f"/v1/jobs/{id}/result", f"job-{id[:8]}-result.json", "json")


async def _saved(signed: Session, path: str, name: str, kind: str) -> Response:
    """What the API answers, handed on as it comes; a page where it says no."""
    attached = f'attachment; filename="{name}"'
    return signed.api.file(path, FILES[kind], {"Content-Disposition": attached})
