"""Access requests: analysts ask for a dataset or for budget, admins grant or refuse."""

import asyncio
import json
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web import names
from app.web.dataset_pages import Asked, follows_of
from app.web.forms import NotReadError, number, problem_of, reason_of
from app.web.inside import Id, Json, RefusedError, identifier
from app.web.job_form_pages import body_of
from app.web.session import Session, Signed, fields_of
from app.web.shown import page

router = APIRouter(include_in_schema=False)


@router.get("/requests", response_class=HTMLResponse)
async def requests(request: Request, signed: Signed, dataset: str = "") -> HTMLResponse:
    """The reader's requests with a form for another one; all of them for admins and auditors."""
    return await _show(request, signed, {"dataset": dataset})


async def _show(
    request: Request, signed: Session, form: Json, status: int = 200, **more: object
) -> HTMLResponse:
    listed, datasets, budgets = await asyncio.gather(
        signed.api.items("/v1/access-requests"),
        signed.api.items("/v1/datasets"),
        signed.api.items("/v1/budget", job_epsilon=1),
    )
    values: Json = {"datasets": {item["id"]: item for item in datasets}}
    values["budgets"] = {item["dataset"]: item for item in budgets}
    if signed.role != "analyst":
        values["users"] = await names.of_users(signed)
    form = {"again": str(uuid4()), **form}
    return page(
        request, "requests.html", signed, status, listed=listed, form=form, **values, **more
    )


@router.post("/requests/new", response_class=HTMLResponse)
async def new(request: Request, signed: Signed) -> HTMLResponse:
    """A request for the budget that the job of a form needs."""
    form = await fields_of(request)
    try:
        job = await body_of(signed, form)
    except (NotReadError, RefusedError) as error:
        return await _show(request, signed, {}, 422, problem=problem_of(error))
    dataset = job.pop("dataset")
    asked = {"dataset": dataset, "epsilon": form.get("epsilon", ""), "job": json.dumps(job)}
    return await _show(request, signed, asked, model=job["model"])


@router.post("/requests", response_model=None)
async def create(request: Request, signed: Signed) -> Response:
    """Ask once, however often the form is sent."""
    form = await fields_of(request)
    try:
        wanted: Json = {"reason": form.get("reason", "").strip()}
        if form.get("dataset"):
            wanted["dataset"] = form["dataset"]
        else:
            wanted["dataset_name"] = form.get("dataset_name", "").strip()
        wanted["epsilon"] = number(form, "epsilon", "/epsilon")
        if form.get("job") and form.get("dataset"):
            wanted["job"] = _job(form["job"])
        once = {"Idempotency-Key": form.get("again", "")}
        await signed.api.send("POST", "/v1/access-requests", json=wanted, headers=once)
    except (NotReadError, RefusedError) as error:
        shown = form | {"again": str(uuid4())}
        return await _show(request, signed, shown, 422, problem=problem_of(error))
    return RedirectResponse("/requests", status_code=303)


async def _asked(signed: Session, id: str, decided: Json, form: dict[str, str]) -> Asked | None:
    """What a raised budget would do, before it is raised. None where that was shown, or is not.

    The reason that it asks for becomes the answer.
    """
    if decided["epsilon"] is None:
        return None
    reason = reason_of(form)
    if reason is not None:
        decided["answer"] = reason
        return None
    request = await signed.api.get(f"/v1/access-requests/{id}")
    dataset = request["dataset"] or form.get("dataset", "")
    raised = {"privacy": {"epsilon": decided["epsilon"]}}
    follows = await follows_of(signed, await identifier(dataset), raised)
    kept = ("status", "dataset", "allotment", "epsilon", "answer")
    fields = {name: form[name] for name in kept if form.get(name)}
    return Asked(f"/requests/{id}", follows, fields) if follows else None


def _job(written: str) -> Json:
    try:
        job: Json = json.loads(written)
    except ValueError:
        raise NotReadError("/job", "must be JSON") from None
    return job


@router.post("/requests/{id}", response_model=None)
async def answer(request: Request, signed: Signed, id: Id) -> Response:
    """Grant or refuse a request, or withdraw an own one."""
    form = await fields_of(request)
    try:
        decided: Json = {"status": form.get("status", "")}
        if form.get("answer", "").strip():
            decided["answer"] = form["answer"].strip()
        if decided["status"] == "granted":
            if form.get("dataset"):
                decided["dataset"] = form["dataset"]
            for name in ("allotment", "epsilon"):
                decided[name] = number(form, name, f"/{name}")
            asked = await _asked(signed, id, decided, form)
            if asked is not None:
                return await _show(request, signed, {}, asked=asked)
        await signed.api.send("PATCH", f"/v1/access-requests/{id}", json=decided)
    except (NotReadError, RefusedError) as error:
        return await _show(request, signed, {}, 422, problem=problem_of(error), failed=id)
    return RedirectResponse("/requests", status_code=303)
