"""Users and their keys."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app.api.auth import Admin, House, KeyId, UserId
from app.api.bodies import describe, read
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.schemas import KeyOut, Listing, NewKey, NewUser, UserIn, UserItem
from app.jobs import users as people

router = APIRouter(prefix="/v1", tags=["users"])


@router.post("/users", status_code=201, openapi_extra=describe(UserIn))
def create(_: Admin, services: House, body: Annotated[UserIn, Depends(read(UserIn))]) -> NewUser:
    """Make a user. The answer is the key's only showing."""
    user, key, token = people.create(services, body.name, body.role)
    return NewUser(
        id=user.id,
        name=user.name,
        role=user.role,  # type: ignore[arg-type]
        created_at=user.created_at,
        key=token,
        key_id=key.id,
    )


@router.get("/users")
def users(
    _: Admin, services: House, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Listing[UserItem]:
    """All users with their keys' ids, newest first."""
    page, keys = people.users(services, limit, cursor)
    items = [
        UserItem(
            id=user.id,
            name=user.name,
            role=user.role,  # type: ignore[arg-type]
            created_at=user.created_at,
            keys=[KeyOut.model_validate(key) for key in keys[user.id]],
        )
        for user in page.items
    ]
    return Listing(items=items, next_cursor=page.next_cursor)


@router.post("/users/{id}/keys", status_code=201)
def add_key(_: Admin, services: House, user_id: UserId) -> NewKey:
    """A further key for a user, shown once."""
    key, token = people.add_key(services, user_id)
    return NewKey(id=key.id, user=user_id, key=token)


@router.delete("/keys/{id}", status_code=204, response_class=Response)
def revoke(_: Admin, services: House, key_id: KeyId) -> None:
    """Revoke a key at once."""
    people.revoke(services, key_id)
