"""Users, their keys, and the audit trail: for admins, and the trail for auditors as well."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web import names
from app.web.forms import NotReadError, problem_of, reason_of
from app.web.inside import Id, Json, RefusedError
from app.web.session import Session, Signed, fields_of, signed_in
from app.web.shown import page

router = APIRouter(include_in_schema=False)
ENTRIES = 50  # of the audit trail on a page
ACTS = (  # that the trail records; a test compares them with the sources
    "audit.verify",
    "dataset.amend",
    "dataset.create",
    "dataset.destroy",
    "dataset.put_back",
    "dataset.rows_seen_before",
    "dataset.set_aside",
    "job.cancel",
    "key.create",
    "key.revoke",
    "ledger.verify",
    "master_key.rotate",
    "request.create",
    "request.grant",
    "request.refuse",
    "request.withdraw",
    "restore.accept",
    "user.create",
    "user.disable",
    "user.email",
    "user.enable",
    "user.role",
)


@router.get("/users", response_class=HTMLResponse)
async def users(request: Request, signed: Signed) -> HTMLResponse:
    """All users with their keys."""
    return await _users(request, signed)


async def _users(
    request: Request, signed: Session, status: int = 200, **values: object
) -> HTMLResponse:
    users = await signed.api.items("/v1/users")
    return page(request, "users.html", signed, status, users=users, **values)


@router.post("/users", response_class=HTMLResponse)
async def create(request: Request, signed: Signed) -> HTMLResponse:
    """Make a user, and show the key, which is told this once."""
    form = await fields_of(request)
    wanted = {"name": form.get("name", ""), "role": form.get("role", "")} | _end(form)
    try:
        made = await signed.api.json("POST", "/v1/users", json=wanted)
    except RefusedError as refused:
        return await _users(request, signed, 422, problem=problem_of(refused))
    return await _users(request, signed, 201, made=made)


@router.get("/users/{id}", response_class=HTMLResponse)
async def user(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """One user's keys."""
    return await _user(request, signed, id)


async def _user(
    request: Request, signed: Session, id: str, status: int = 200, **values: object
) -> HTMLResponse:
    users = [user for user in await signed.api.items("/v1/users") if user["id"] == id]
    if not users:
        raise RefusedError(404, {"detail": "There is no such user."})
    return page(request, "user.html", signed, status, user=users[0], **values)


@router.post("/users/{id}/keys", response_class=HTMLResponse)
async def add_key(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """Make a further key for a user, and show it this once."""
    try:
        made = await _made(signed, f"/v1/users/{id}/keys", await fields_of(request))
    except RefusedError as refused:
        return await _user(request, signed, id, 422, problem=problem_of(refused))
    return await _user(request, signed, id, 201, made=made)


async def _made(signed: Session, path: str, form: dict[str, str]) -> Json:
    """Make a key as a form says; one that ends does so with the end of the day that was chosen."""
    wanted = {"label": form["label"]} if form.get("label") else {}
    return await signed.api.json("POST", path, json=wanted | _end(form))


def _end(form: dict[str, str]) -> Json:
    """When a new key of a form ends: with the end of the day that was chosen."""
    day = form.get("expires_on")
    return {"expires_at": f"{day}T23:59:59Z"} if day else {}


@router.post("/users/{id}/{state}", response_model=None)
async def disable(request: Request, signed: Signed, id: Id, state: str) -> Response:
    """Close a user's account, for a reason, or open it again."""
    if state not in ("disable", "enable"):
        raise RefusedError(404, {"detail": "This address names nothing."})
    wanted: Json = {"disabled": state == "disable"}
    try:
        if wanted["disabled"]:
            wanted["reason"] = reason_of({"reason": "", **await fields_of(request)})
        await signed.api.send("PATCH", f"/v1/users/{id}", json=wanted)
    except (NotReadError, RefusedError) as error:
        return await _user(request, signed, id, 422, refused=problem_of(error))
    return RedirectResponse("/users", status_code=303)


@router.get("/me", response_class=HTMLResponse)
async def me(request: Request, signed: Signed) -> HTMLResponse:
    """The reader's own keys, and what others did that concerns the reader."""
    return page(request, "me.html", signed)


@router.post("/me/keys", response_class=HTMLResponse)
async def add_own_key(request: Request, signed: Signed) -> HTMLResponse:
    """Make a further key for the reader, and show it this once."""
    values: Json = {}
    try:
        values["made"] = await _made(signed, "/v1/users/me/keys", await fields_of(request))
        signed.user["keys"] = (await signed.api.get("/v1/users/me"))["keys"]
    except RefusedError as refused:
        return page(request, "me.html", signed, 422, problem=problem_of(refused))
    return page(request, "me.html", signed, 201, **values)


@router.post("/me/email", response_model=None)
async def give_email(request: Request, signed: Signed) -> Response:
    """Say where the reader wants mail about access requests."""
    email = (await fields_of(request)).get("email", "").strip() or None
    try:
        await signed.api.send("PATCH", "/v1/users/me", json={"email": email})
    except RefusedError as refused:
        return page(request, "me.html", signed, 422, problem=problem_of(refused))
    return RedirectResponse("/me", status_code=303)


@router.post("/keys/{id}/revoke")
async def revoke(signed: Annotated[Session, Depends(signed_in)], id: Id) -> RedirectResponse:
    """Revoke a key: an own one, or as an admin any."""
    owner = ""
    if signed.role == "admin" and id not in {key["id"] for key in signed.user["keys"]}:
        users = await signed.api.items("/v1/users")
        owner = next((u["id"] for u in users if id in {k["id"] for k in u["keys"]}), "")
    await signed.api.send("DELETE", f"/v1/keys/{id}")
    return RedirectResponse(f"/users/{owner}" if owner else "/me", status_code=303)


@router.get("/audit", response_class=HTMLResponse)
async def audit(
    request: Request, signed: Signed, cursor: str = "", action: str = ""
) -> HTMLResponse:
    """Every administrative act, or those of one kind."""
    asked = {"action": action} if action else {}
    entries, datasets, people = await asyncio.gather(
        signed.api.get("/v1/audit", limit=ENTRIES, cursor=cursor, **asked),
        signed.api.items("/v1/datasets"),
        names.of_users(signed),
    )
    return page(
        request,
        "audit.html",
        signed,
        entries=entries["items"],
        next=entries["next_cursor"],
        cursor=cursor,
        action=action,
        acts=ACTS,
        names={dataset["id"]: dataset["name"] for dataset in datasets} | people,
    )


@router.post("/audit/verify", response_class=HTMLResponse)
async def verify(request: Request, signed: Signed) -> HTMLResponse:
    """Recompute the trail's chain, and say what was found."""
    verification = await signed.api.json("POST", "/v1/audit/verify")
    return page(request, "verified.html", signed, found=verification)
