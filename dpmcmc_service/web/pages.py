"""/docs (the API, from the OpenAPI document) and /problems, for everybody; and all pages' place."""

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from dpmcmc_service.api.codes import CODES, PLACE
from dpmcmc_service.api.reasons import REASONS
from dpmcmc_service.web import (
    access_pages,
    dataset_pages,
    front_pages,
    inference_pages,
    job_pages,
    people_pages,
    task_pages,
    upload_pages,
)
from dpmcmc_service.web.shown import HEADERS, HERE, templates

METHODS = ("get", "post", "put", "patch", "delete")

router = APIRouter(include_in_schema=False)


@router.get("/docs", response_class=HTMLResponse)
def documentation(request: Request) -> HTMLResponse:
    """Every operation of the API, rendered here: no script and no foreign host."""
    document = request.app.openapi()
    operations = [
        {"method": method.upper(), "path": path, **item[method]}
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
    return templates.TemplateResponse(
        request,
        "docs.html",
        {"info": document["info"], "operations": operations, "schemas": schemas_of(document)},
        headers=HEADERS,
    )


@router.get(PLACE, response_class=HTMLResponse)
def problems(request: Request) -> HTMLResponse:
    """Every code of a problem, and every reason for which a job can end."""
    told = {"codes": CODES, "reasons": REASONS}
    return templates.TemplateResponse(request, "problems.html", told, headers=HEADERS)


def schemas_of(document: dict[str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """The named schemas of an OpenAPI document."""
    return document.get("components", {}).get("schemas", {})


def mount(app: FastAPI) -> None:
    """Add the pages and their assets. The app is made with docs_url=None and redoc_url=None."""
    for module in (
        front_pages,
        upload_pages,
        dataset_pages,
        access_pages,
        job_pages,
        inference_pages,
        task_pages,
        people_pages,
    ):
        app.include_router(module.router)
    app.include_router(router)
    front_pages.install(app)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
