"""What analysts ask admins for: a dataset, or more budget on one."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response

from app.api.auth import Analyst, Anyone, House, RequestId, Worker
from app.api.bodies import describe, parse, read
from app.api.endpoints import IdempotencyKey, Route
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.problems import of_status
from app.api.schemas import (
    AccessRequestIn,
    AccessRequestOut,
    AccessRequestPatch,
    JobIn,
    Listing,
)
from app.services import idempotency
from app.services.accounts import requests as use
from app.services.errors import Fault, Refusal

router = APIRouter(prefix="/v1", tags=["users"], route_class=Route)
Status = Annotated[
    Literal["open", "granted", "refused", "withdrawn"] | None,
    Query(description="only requests that are so"),
]
DECIDERS = {"granted": "admin", "refused": "admin", "withdrawn": "analyst"}


@router.post("/access-requests", status_code=201, openapi_extra=describe(AccessRequestIn))
def create(
    caller: Analyst,
    services: House,
    response: Response,
    body: Annotated[AccessRequestIn, Depends(read(AccessRequestIn))],
    key: IdempotencyKey = None,
) -> AccessRequestOut:
    """Ask for a dataset, or for more budget on one, and say why. Nothing is booked.

    A dataset that you may not see is asked for by its name, which is not looked up.
    """
    wanted = use.Wanted(body.dataset, body.dataset_name, body.epsilon, body.reason, _job(body))
    once = idempotency.once(key, "access request", body.model_dump(mode="json"))
    row = use.create(services, caller, wanted, once)
    response.headers["Location"] = f"/v1/access-requests/{row.id}"
    return AccessRequestOut.model_validate(row)


def _job(body: AccessRequestIn) -> dict[str, Any] | None:
    """The job of a request, valid as it stands. Raises Refusal 422."""
    if body.job is None:
        return None
    job = {name: value for name, value in body.job.items() if name != "dataset"}
    try:
        parse(JobIn, json.dumps({"dataset": str(body.dataset), **job}).encode())
    except Refusal as refusal:
        refusal.errors = [Fault(f"/job{fault.pointer}", fault.message) for fault in refusal.errors]
        raise
    return job


@router.get("/access-requests")
def requests(
    caller: Anyone,
    services: House,
    status: Status = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Listing[AccessRequestOut]:
    """Your requests; all of them for admins and auditors. Newest first."""
    page = use.requests(services, caller, limit, cursor, status)
    items = [AccessRequestOut.model_validate(row) for row in page.items]
    return Listing(items=items, next_cursor=page.next_cursor)


@router.get("/access-requests/{id}")
def request(caller: Anyone, services: House, request_id: RequestId) -> AccessRequestOut:
    """One request: an own one, or for admins and auditors any."""
    return AccessRequestOut.model_validate(use.request(services, caller, request_id))


@router.patch("/access-requests/{id}", openapi_extra=describe(AccessRequestPatch))
def decide(
    caller: Worker,
    services: House,
    request_id: RequestId,
    body: Annotated[AccessRequestPatch, Depends(read(AccessRequestPatch))],
) -> AccessRequestOut:
    """Grant or refuse a request as an admin, or withdraw an own one.

    A grant opens the dataset to the analyst and changes cap and budget with it, all or nothing:
    each is an entry of the ledger. The same answer again changes nothing.
    """
    role = DECIDERS[body.status]
    if caller.role != role:
        raise of_status(403, f"A request is {body.status} by the role {role}.")
    if body.status == "granted":
        given = use.Grant(body.dataset, body.allotment, body.epsilon)
        row = use.grant(services, caller, request_id, given, body.answer)
    else:
        row = use.close(services, caller, request_id, body.status, body.answer)
    return AccessRequestOut.model_validate(row)
