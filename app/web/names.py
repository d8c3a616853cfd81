"""What the identifiers of a page are called, as far as its reader may know."""

from collections.abc import Mapping
from typing import Any

from app.web.session import Session


async def of_users(signed: Session) -> dict[str, str]:
    """Return the names of users by their identifiers.

    Admins list users. Auditors may not; the trail, which is theirs to read, says whom each entry
    `user.create` made. The first admin, whom nobody made, has no such entry.
    """
    found = {signed.user["id"]: signed.user["name"]}
    if signed.role == "admin":
        found |= {one["id"]: one["name"] for one in await signed.api.items("/v1/users")}
    elif signed.role == "auditor":
        made = await signed.api.items("/v1/audit", action="user.create")
        found |= {one["subject"]: one["details"]["name"] for one in made}
    return found


def named(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON with names in place of the identifiers that have one."""
    if isinstance(value, dict):
        return {names.get(key, key): named(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [named(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value
