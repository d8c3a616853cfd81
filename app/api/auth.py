"""Who is asking, and whether they may."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from app.api.problems import of_status
from app.jobs import users
from app.jobs.errors import not_found
from app.jobs.services import Services
from app.jobs.users import Caller

bearer = HTTPBearer(auto_error=False, description="A key made by POST /v1/users.")
MAX_TOKEN = 1024


def get_services(request: Request) -> Services:
    """The process's services."""
    found: Services = request.app.state.services
    return found


House = Annotated[Services, Depends(get_services)]


def get_caller(
    request: Request, services: House, _: Annotated[object, Depends(bearer)] = None
) -> Caller:
    """The user whose key came with the request. Raises Refusal 401."""
    scheme, _space, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
        raise of_status(401, "A key is needed: Authorization: Bearer <key>.")
    caller = users.authenticate(services, token)
    if caller is None:
        raise of_status(401, "This key is not known.")
    return caller


def allow(*roles: str) -> Callable[[Caller], Caller]:
    """A dependency that lets these roles pass. Raises Refusal 403."""

    def check(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
        if caller.role not in roles:
            raise of_status(403, f"This needs the role {' or '.join(roles)}.")
        return caller

    return check


Anyone = Annotated[Caller, Depends(allow("admin", "analyst", "auditor"))]
Admin = Annotated[Caller, Depends(allow("admin"))]
Analyst = Annotated[Caller, Depends(allow("analyst"))]
Overseer = Annotated[Caller, Depends(allow("admin", "auditor"))]


def identifier(what: str) -> Callable[[str], UUID]:
    """A dependency that reads `{id}`. What is no UUID in the usual form names nothing: 404."""

    def read(id: str) -> UUID:
        try:
            found = UUID(id)
        except ValueError:
            raise not_found(what) from None
        if str(found) != id.lower():
            raise not_found(what)
        return found

    return read


DatasetId = Annotated[UUID, Depends(identifier("dataset"))]
JobId = Annotated[UUID, Depends(identifier("job"))]
UserId = Annotated[UUID, Depends(identifier("user"))]
KeyId = Annotated[UUID, Depends(identifier("key"))]
