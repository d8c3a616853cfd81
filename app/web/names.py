"""What the identifiers of a page are called, as far as its reader may know."""

from collections.abc import Mapping
from typing import Any

from app.web.session import Session


async def of_users(signed: Session) -> dict[str, str]:
    """Return the names of users by their identifiers.

    Admins list users. Auditors may not; the trail, which is theirs to read, says whom each entry
    `user.create` made. The first admin, whom nobody made, has no such entry.
    """
    names = {signed.user["id"]: signed.user["name"]}
    if signed.role == "admin":
        names |= {user["id"]: user["name"] for user in await signed.api.items("/v1/users")}
    elif signed.role == "auditor":
        made = await signed.api.items("/v1/audit", action="user.create")
        names |= {entry["subject"]: entry["details"]["name"] for entry in made}
    return names


def named(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON with names in place of the identifiers that have one."""
    if isinstance(value, dict):
        return {names.get(key, key): named(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [named(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
