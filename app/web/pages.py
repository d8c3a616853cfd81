"""/docs (the API, from the OpenAPI document) and /problems, for everybody; and all pages' place."""

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

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


@router.get(PLACE, response_class=HTMLResponse)
async def problems(request: Request) -> HTMLResponse:
    """Every code of a problem, and every reason for which a job can end."""
    session = await whoever(request)
    return page(request, "problems.html", session, codes=CODES, reasons=REASONS)


class Assets(StaticFiles):
    """Scripts and styles: kept by the browser, which asks each time whether they have changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return the file, or that it is as it was."""
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


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
