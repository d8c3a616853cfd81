"""GET / (the dashboard), /docs (the API, from the OpenAPI document), /problems. No page holds data:
the dashboard's script asks the REST service with the key that its reader pasted.
"""

from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from starlette.staticfiles import StaticFiles

from app.api.codes import CODES, PLACE
from app.api.reasons import REASONS

HERE = Path(__file__).parent
# data: is for the icons inside Pico's style sheet; scripts, styles and requests stay at home
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
METHODS = ("get", "post", "put", "patch", "delete")

templates = Jinja2Templates(directory=HERE / "templates")
router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def dashboard(request: Request) -> HTMLResponse:
    """The dashboard's document."""
    return templates.TemplateResponse(request, "dashboard.html", headers=HEADERS)


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
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
