"""Uploading a dataset: the browser's request goes to the API as it comes, not kept on its way."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from app.web.forms import problem_of
from app.web.inside import Id, RefusedError
from app.web.session import Session, Signed, SignedByHeader
from app.web.shown import page

router = APIRouter(include_in_schema=False)


@router.get("/datasets/new", response_class=HTMLResponse)
async def form(request: Request, signed: Signed) -> HTMLResponse:
    """The form, for admins."""
    if signed.role != "admin":
        raise RefusedError(403, {"detail": "Only admins upload datasets."})
    listed, sources, users = await asyncio.gather(
        signed.api.items("/v1/datasets"),
        signed.api.get("/v1/sources"),
        signed.api.items("/v1/users"),
    )
    analysts = [user for user in users if user["role"] == "analyst" and not user["disabled_at"]]
    known = {"datasets": listed, "sources": sources["items"], "analysts": analysts}
    return page(request, "upload.html", signed, **known)


@router.post("/datasets/inspect")
async def look(request: Request, signed: SignedByHeader) -> JSONResponse:
    """Hand the beginning of a file to the API, for the script that fills the form."""
    return await _handed_on(request, signed, "/v1/datasets/inspect")


@router.post("/datasets/schema")
async def declared(request: Request, signed: SignedByHeader) -> JSONResponse:
    """Hand a schema file to the API, for the script that fills the form."""
    return await _handed_on(request, signed, "/v1/datasets/schema")


async def _handed_on(request: Request, signed: Session, path: str) -> JSONResponse:
    """What the API answers to a form, or what is wrong with it in words."""
    headers = {"Content-Type": request.headers.get("content-type", "")}
    try:
        answer = await signed.api.json("POST", path, content=request.stream(), headers=headers)
    except RefusedError as error:
        return JSONResponse(problem_of(error), 422)
    return JSONResponse(answer)


@router.post("/datasets/snapshots")
async def snapshot(signed: SignedByHeader) -> Response:
    """Hand a snapshot's description to the API, whose events say how far it is."""
    return signed.api.events("/v1/datasets/snapshots")


@router.post("/datasets/{id}/refresh")
async def refresh(signed: SignedByHeader, id: Id) -> Response:
    """Take the snapshot of a dataset again, as its next version."""
    return signed.api.events(f"/v1/datasets/{id}/refresh")


@router.get("/datasets/{id}/schema")
async def schema(signed: Signed, id: Id) -> Response:
    """A dataset's public facts as a file, of which an upload takes the columns."""
    headers = {"Content-Disposition": f'attachment; filename="schema-{id[:8]}.json"'}
    return signed.api.file(f"/v1/datasets/{id}", "application/json", headers)


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
