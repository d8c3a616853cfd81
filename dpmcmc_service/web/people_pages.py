"""Users, their keys, and the audit trail: for admins, and the trail for auditors as well."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dpmcmc_service.web.forms import problem_of
from dpmcmc_service.web.inside import Id, RefusedError
from dpmcmc_service.web.session import Session, Signed, fields_of, signed_in
from dpmcmc_service.web.shown import page

router = APIRouter(include_in_schema=False)
ENTRIES = 100  # of the audit trail on a page


@router.get("/users", response_class=HTMLResponse)
async def users(request: Request, signed: Signed) -> HTMLResponse:
    """All users with their keys."""
    return await _users(request, signed)


async def _users(
    request: Request, signed: Session, status: int = 200, **told: object
) -> HTMLResponse:
    found = await signed.api.items("/v1/users")
    return page(request, "users.html", signed, status, users=found, **told)


@router.post("/users", response_class=HTMLResponse)
async def create(request: Request, signed: Signed) -> HTMLResponse:
    """Make a user, and show the key, which is told this once."""
    form = await fields_of(request)
    wanted = {"name": form.get("name", ""), "role": form.get("role", "")}
    try:
        made = await signed.api.json("POST", "/v1/users", json=wanted)
    except RefusedError as refused:
        return await _users(request, signed, 422, problem=problem_of(refused))
    return await _users(request, signed, 201, made=made)


@router.post("/users/{id}/{state}")
async def disable(signed: Signed, id: Id, state: str) -> Response:
    """Close a user's account, or open it again."""
    if state not in ("disable", "enable"):
        raise RefusedError(404, {"detail": "This address names nothing."})
    await signed.api.send("PATCH", f"/v1/users/{id}", json={"disabled": state == "disable"})
    return RedirectResponse("/users", status_code=303)


@router.get("/me", response_class=HTMLResponse)
async def me(request: Request, signed: Signed) -> HTMLResponse:
    """The reader's own keys, and what others did that concerns the reader."""
    return page(request, "me.html", signed)


@router.post("/keys/{id}/revoke")
async def revoke(signed: Annotated[Session, Depends(signed_in)], id: Id) -> RedirectResponse:
    """Revoke a key of one's own."""
    await signed.api.send("DELETE", f"/v1/keys/{id}")
    return RedirectResponse("/me", status_code=303)


@router.get("/audit", response_class=HTMLResponse)
async def audit(request: Request, signed: Signed, cursor: str = "") -> HTMLResponse:
    """Every administrative act."""
    found = await signed.api.get("/v1/audit", limit=ENTRIES, cursor=cursor)
    return page(request, "audit.html", signed, entries=found["items"], next=found["next_cursor"])


@router.post("/audit/verify", response_class=HTMLResponse)
async def verify(request: Request, signed: Signed) -> HTMLResponse:
    """Recompute the trail's chain, and say what was found."""
    found = await signed.api.json("POST", "/v1/audit/verify")
    return page(request, "verified.html", signed, found=found)
