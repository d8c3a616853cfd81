"""/docs (the API, from the OpenAPI document) and /problems, for everybody; and all pages' place."""

import gzip
from functools import cache
from os import PathLike, stat_result
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.datastructures import Headers
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.api.codes import CODES, PLACE
from app.api.reasons import REASONS
from app.web import (
    access_pages,
    compare_pages,
    dataset_pages,
    front_pages,
    inference_pages,
    job_form_pages,
    job_pages,
    people_pages,
    reference,
    request_pages,
    task_pages,
    upload_pages,
)
from app.web.inside import RefusedError
from app.web.session import whoever
from app.web.shown import HERE, page

router = APIRouter(include_in_schema=False)


@router.get("/docs", response_class=HTMLResponse)
async def documentation(request: Request) -> HTMLResponse:
    """Every operation of the API, from its own document: for everybody, no foreign host."""
    document = request.app.openapi()
    return page(
        request,
        "docs.html",
        await whoever(request),
        info=document["info"],
        sections=reference.sections(document),
        schemas=reference.schemas(document),
    )


@router.get("/docs/{id}", response_class=HTMLResponse)
async def operation(request: Request, id: str) -> HTMLResponse:
    """One operation of the API: its parameters, examples and answers, and a form that tries it."""
    found = reference.of_id(request.app.openapi(), id)
    if found is None:
        raise RefusedError(404, {"detail": "There is no such operation."})
    return page(request, "docs_operation.html", await whoever(request), operation=found)


@router.get("/help", response_class=HTMLResponse)
async def help(request: Request) -> HTMLResponse:
    """What the words of the pages mean, and what each role does: for everybody."""
    return page(request, "help.html", await whoever(request))


@router.get(PLACE, response_class=HTMLResponse)
async def problems(request: Request) -> HTMLResponse:
    """Every code of a problem, and every reason for which a job can end."""
    session = await whoever(request)
    return page(request, "problems.html", session, codes=CODES, reasons=REASONS)


class Assets(StaticFiles):
    """Scripts and styles: kept by the browser, which asks each time whether they have changed.

    They go out in gzip. Pages do not: what is secret in one, next to what was typed, would show in
    the length of its compressed text.
    """

    def file_response(
        self,
        full_path: str | PathLike[str],
        stat_result: stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Return the file, or that it is as it was."""
        answer = super().file_response(full_path, stat_result, scope, status_code)
        accepted = Headers(scope=scope).get("accept-encoding", "")
        if isinstance(answer, FileResponse) and "gzip" in accepted and _is_text(answer):
            kept = {"ETag": f"W/{answer.headers['etag']}", "Content-Encoding": "gzip"}
            body = _packed(str(full_path), stat_result.st_mtime_ns)
            answer = Response(body, status_code, kept, answer.media_type)
        answer.headers["Cache-Control"] = "no-cache"
        answer.headers["Vary"] = "Accept-Encoding"
        return answer


def _is_text(answer: FileResponse) -> bool:
    return (answer.media_type or "").startswith(("text/", "application/javascript", "image/svg"))


@cache
def _packed(path: str, _changed: int) -> bytes:
    return gzip.compress(Path(path).read_bytes(), mtime=0)


ROUTERS = (
    front_pages.router,
    upload_pages.router,
    dataset_pages.router,
    access_pages.router,
    job_form_pages.router,
    job_pages.router,
    compare_pages.router,
    inference_pages.router,
    task_pages.router,
    people_pages.router,
    request_pages.router,
    router,
)


def mount(app: FastAPI) -> None:
    """Add the pages and their assets. The app is made with docs_url=None and redoc_url=None."""
    for router in ROUTERS:
        app.include_router(router)
    front_pages.install(app)
    app.mount("/static", Assets(directory=HERE / "static"), name="static")
