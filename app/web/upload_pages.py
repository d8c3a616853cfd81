"""Uploading a dataset: the browser's request goes to the API as it comes, not kept on its way."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from app.web.forms import problem_of
from app.web.inside import RefusedError
from app.web.session import Signed, SignedByHeader
from app.web.shown import page

router = APIRouter(include_in_schema=False)


@router.get("/datasets/new", response_class=HTMLResponse)
async def form(request: Request, signed: Signed) -> HTMLResponse:
    """The form, for admins."""
    if signed.role != "admin":
        raise RefusedError(403, {"detail": "Only admins upload datasets."})
    return page(request, "upload.html", signed)


@router.post("/datasets/inspect")
async def look(request: Request, signed: SignedByHeader) -> JSONResponse:
    """Hand the beginning of a file to the API, for the script that fills the form."""
    kind = request.headers.get("content-type", "")
    try:
        answer = await signed.api.json(
            "POST", "/v1/datasets/inspect", content=request.stream(), headers={"Content-Type": kind}
        )
    except RefusedError as error:
        return JSONResponse(problem_of(error), 422)
    return JSONResponse(answer)


@router.post("/datasets/new", response_class=HTMLResponse)
async def upload(request: Request, signed: SignedByHeader) -> HTMLResponse:
    """Hand the file and its metadata to the API, and say what became of them."""
    kind = request.headers.get("content-type", "")
    try:
        made = await signed.api.json(
            "POST", "/v1/datasets", content=request.stream(), headers={"Content-Type": kind}
        )
    except RefusedError as error:
        return page(request, "uploaded.html", signed, problem=problem_of(error))
    answer = page(request, "uploaded.html", signed, made=made)
    if not made.get("warnings"):
        answer.headers["HX-Redirect"] = f"/datasets/{made['id']}"
    return answer
