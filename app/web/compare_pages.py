"""Jobs side by side: settings, verdicts, and the parameters that they have."""

import asyncio
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from app.web import figures
from app.web.inside import Json, identifier
from app.web.session import Signed
from app.web.shown import page

router = APIRouter(include_in_schema=False)
LACKING = {
    "task": "is a task, which has no posterior",
    "inference": "is an inference, which has no coefficients",
}
COMPARED = 4  # jobs at once: as many as there are colours and markers
MAX_DRAWN = 40  # parameters of the figure unless all are asked for


@router.get("/compare", response_class=HTMLResponse)
async def compare(request: Request, signed: Signed, all: bool = False) -> HTMLResponse:
    """Jobs side by side, and their intervals in one figure."""
    ids = [await identifier(id) for id in dict.fromkeys(request.query_params.getlist("job"))]
    jobs, known = await asyncio.gather(
        asyncio.gather(*(signed.api.get(f"/v1/jobs/{id}") for id in ids[:COMPARED])),
        signed.api.items("/v1/datasets"),
    )
    lacking = {job["id"]: lack(job) for job in jobs}
    done = [job for job in jobs if not lacking[job["id"]]]
    summaries = await asyncio.gather(
        *(signed.api.get(f"/v1/jobs/{job['id']}/summary") for job in done)
    )
    by_job = [
        {parameter["name"]: parameter for parameter in summary["parameters"]}
        for summary in summaries
    ]
    names = list(dict.fromkeys(name for parameters in by_job for name in parameters))
    drawn = names if all else names[:MAX_DRAWN]
    return page(
        request,
        "compare.html",
        signed,
        jobs=done,
        by_job=by_job,
        names=names,
        forest=figures.compared(drawn, by_job),
        hidden=len(names) - len(drawn),
        whole=f"/compare?{urlencode([('job', id) for id in ids] + [('all', 'true')])}",
        alike=len({(job["dataset"], job["spec"]["model"]["family"]) for job in done}) < 2,
        datasets={dataset["id"]: dataset["name"] for dataset in known},
        left_out={id: reason for id, reason in lacking.items() if reason},
        no_room=len(ids[COMPARED:]),
    )


def lack(job: Json) -> str:
    """Return why a job has no posterior to be compared, in words; empty where it has one."""
    if job["kind"] in LACKING:
        return LACKING[job["kind"]]
    if job["status"] in ("queued", "running"):
        return f"is {job['status']}: load this page again when it has ended"
    if job["status"] != "succeeded":
        return "was cancelled" if job["status"] == "cancelled" else "failed"
    return "has no draws any more: their time was over" if job["expired_at"] else ""
