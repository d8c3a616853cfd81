"""Users and their keys."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from app.api.auth import Admin, Anyone, House, KeyId, UserId
from app.api.bodies import describe, read, read_any
from app.api.endpoints import IdempotencyKey, Route
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.schemas import (
    ActOut,
    KeyIn,
    KeyOut,
    Listing,
    MeOut,
    MePatch,
    NewKey,
    NewUser,
    OneKey,
    UserIn,
    UserItem,
    UserOut,
    UserPatch,
)
from app.services import idempotency
from app.services.accounts import keys
from app.services.accounts import users as people
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.storage.rows import UserRow

router = APIRouter(prefix="/v1", tags=["users"], route_class=Route)


def _public(user: UserRow) -> dict[str, Any]:
    """What every answer tells of a user."""
    return {name: getattr(user, name) for name in UserOut.model_fields}


@router.post("/users", status_code=201, openapi_extra=describe(UserIn))
def create_user(
    caller: Admin,
    services: House,
    response: Response,
    body: Annotated[UserIn, Depends(read(UserIn))],
    key: IdempotencyKey = None,
) -> NewUser:
    """Make a user. The answer is the key's only showing.

    With an Idempotency-Key the same request gets the same answer for a day.
    """
    ends = () if body.expires_at is None else (body.expires_at,)
    once = idempotency.once(key, "user", body.name, body.role, *ends)
    user, first, token = people.create(
        services, caller, body.name, body.role, once, body.expires_at
    )
    response.headers["Location"] = f"/v1/users/{user.id}"
    return NewUser(
        **_public(user),
        key=token,
        key_id=first.id,
    )


@router.get("/users")
def users(
    _: Admin, services: House, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Listing[UserItem]:
    """All users with their keys' ids, newest first."""
    page, keys = people.users(services, limit, cursor)
    items = [
        UserItem(
            **_public(user),
            keys=[KeyOut.model_validate(key) for key in keys[user.id]],
        )
        for user in page.items
    ]
    return Listing(items=items, next_cursor=page.next_cursor)


@router.get("/users/me")
def me(caller: Anyone, services: House) -> MeOut:
    """You, your keys with who made them, and what others did that concerns you."""
    return _described(people.me(services, caller))


@router.patch("/users/me", openapi_extra=describe(MePatch))
def amend_me(
    caller: Anyone, services: House, body: Annotated[MePatch, Depends(read(MePatch))]
) -> MeOut:
    """Say where you want mail about access requests, where the service sends any."""
    return _described(people.give_email(services, caller, body.email))


def _described(described: people.Person) -> MeOut:
    return MeOut(
        **_public(described.row),
        keys=[KeyOut.model_validate(key) for key in described.keys],
        acts=[
            ActOut(
                seq=act.seq,
                at=act.at,
                action=act.action,
                actor=act.actor_id,
                subject=act.subject_id,
                details=act.details,
            )
            for act in described.acts
        ],
        email=described.row.email,
    )


@router.get("/users/{id}")
def user(_: Admin, services: House, user_id: UserId) -> UserItem:
    """One user, with the keys that were made."""
    row, made = people.user(services, user_id)
    return UserItem(**_public(row), keys=[KeyOut.model_validate(key) for key in made])


@router.patch("/users/{id}", openapi_extra=describe(UserPatch))
def amend(
    caller: Admin,
    services: House,
    user_id: UserId,
    body: Annotated[UserPatch, Depends(read(UserPatch))],
) -> UserOut:
    """Disable a user, whose keys, streams and jobs end at once, or enable the user again."""
    return UserOut(**_public(people.disable(services, caller, user_id, body.disabled, body.reason)))


@router.post("/users/me/keys", status_code=201, openapi_extra=describe(KeyIn, required=False))
def add_own_key(
    caller: Anyone,
    services: House,
    response: Response,
    body: Annotated[KeyIn | None, Depends(read_any(KeyIn))],
    key: IdempotencyKey = None,
) -> NewKey:
    """A further key for yourself, shown once. It ends no later than the one you use.

    With an Idempotency-Key the same request gets the same answer for a day.
    """
    return _new_key(services, caller, response, caller.id, body, key)


@router.delete("/users/me/keys", status_code=204, response_class=Response)
def revoke_own_keys(caller: Anyone, services: House) -> None:
    """Revoke all your keys but the one that you use, at once."""
    keys.revoke_all(services, caller, caller.id)


@router.post("/users/{id}/keys", status_code=201, openapi_extra=describe(KeyIn, required=False))
def add_key(
    caller: Admin,
    services: House,
    response: Response,
    user_id: UserId,
    body: Annotated[KeyIn | None, Depends(read_any(KeyIn))],
    key: IdempotencyKey = None,
) -> NewKey:
    """A further key for a user, shown once; the user sees who made it.

    With an Idempotency-Key the same request gets the same answer for a day.
    """
    return _new_key(services, caller, response, user_id, body, key)


def _new_key(
    services: Services,
    caller: Caller,
    response: Response,
    user_id: UUID,
    body: KeyIn | None,
    key: str | None,
) -> NewKey:
    wanted = body or KeyIn()
    once = idempotency.once(key, "key", user_id, wanted.label, wanted.expires_at)
    made, token = keys.add(services, caller, user_id, wanted.label, wanted.expires_at, once)
    response.headers["Location"] = f"/v1/keys/{made.id}"
    return NewKey(id=made.id, user=user_id, key=token, label=made.label, expires_at=made.expires_at)


@router.delete("/users/{id}/keys", status_code=204, response_class=Response)
def revoke_keys(caller: Admin, services: House, user_id: UserId) -> None:
    """Revoke all keys of a user at once, but the one that you use."""
    keys.revoke_all(services, caller, user_id)


@router.get("/keys/{id}")
def key(caller: Anyone, services: House, key_id: KeyId) -> OneKey:
    """A key without its secret: an own one, or as an admin any."""
    return OneKey.model_validate(keys.key(services, caller, key_id))


@router.delete("/keys/{id}", status_code=204, response_class=Response)
def revoke(caller: Anyone, services: House, key_id: KeyId) -> None:
    """Revoke a key at once: an own one, or as an admin any. Twice is no error."""
    keys.revoke(services, caller, key_id)
