"""What the identifiers of a page are called, as far as its reader may know."""

import re
from collections.abc import Mapping
from typing import Any

from app.web.session import Session

PARTS = {"privacy": "", "allotments": "cap of "}  # of a dataset's change, before what it names
INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):[\d.]+\+00:00")  # as the API writes it

FIRST = "admin"  # what the service calls the first admin


async def of_users(signed: Session) -> dict[str, str]:
    """Return the names of users by their identifiers.

    Admins list users. Auditors may not; the trail, which is theirs to read, says whom each entry
    `user.create` made. The first admin was made by nobody: the first key is that user's.
    """
    names = {signed.user["id"]: signed.user["name"]}
    if signed.role == "admin":
        names |= {user["id"]: user["name"] for user in await signed.api.items("/v1/users")}
    elif signed.role == "auditor":
        made = await signed.api.items("/v1/audit", action="user.create")
        names |= {entry["subject"]: entry["details"]["name"] for entry in made}
        keys = await signed.api.get("/v1/audit", action="key.create", limit=1)
        names |= {key["user"]: FIRST for key in keys["items"] if key["actor"] is None}
    return names


def told(details: Mapping[str, Any]) -> list[str]:
    """Return what an entry of the trail says, in words: of a change from what to what."""
    before, changes = details.get("before") or {}, details.get("changes") or {}
    said = []
    for name, new in changes.items():
        old = before.get(name)
        if isinstance(new, dict):
            was = old if isinstance(old, dict) else {}
            of = PARTS.get(name, f"{name} ")
            said += [f"{of}{key} from {_plain(was.get(key))} to {_plain(new[key])}" for key in new]
        elif name == "grants":
            said.append(f"granted to {'every analyst' if new is None else _plain(new)}")
        else:
            said.append(f"{name} from {_plain(old)} to {_plain(new)}")
    rest = {name: value for name, value in details.items() if name not in ("before", "changes")}
    return said + [f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in rest.items()]


def _plain(value: Any) -> str:
    """One value as it is read: no JSON where a word does."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "nobody"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return INSTANT.sub(r"\1 \2 UTC", str(value))


def named(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON with names in place of the identifiers that have one."""
    if isinstance(value, dict):
        return {names.get(key, key): named(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [named(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
