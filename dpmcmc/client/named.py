"""Find the id of a dataset, a user or a job by its name, its id, or the first digits of its id."""

import difflib
from collections.abc import Iterable
from typing import Any
from uuid import UUID

Json = dict[str, Any]
SHORT = 8  # digits of an id that tables show


class UnclearError(LookupError):
    """A name that fits nothing, or several. The message says which names there are."""


def is_id(text: str) -> bool:
    """Whether a text is a complete id."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def id_of(kind: str, name: str, items: list[Json], *, shortened: bool = False) -> str:
    """The id of the only item with this name; a name goes before the first digits of an id.

    kind: dataset, user or job, for the error. shortened: whether the first digits of an id suffice.
    Raises UnclearError where no item fits, or several do.
    """
    matches = [item for item in items if item.get("name") == name]
    if not matches and shortened and name:
        matches = [item for item in items if item["id"].startswith(name.lower())]
    if len(matches) == 1:
        return str(matches[0]["id"])
    if matches:
        ids = ", ".join(item["id"] for item in matches)
        message = f"{len(matches)} {kind}s are called {name!r}. Give the id of one of them: {ids}"
        raise UnclearError(message)
    raise UnclearError(f"there is no {kind} {name!r} that you may see.{_hint(kind, name, items)}")


def _hint(kind: str, name: str, items: list[Json]) -> str:
    names = [str(item.get("name") or item["id"][:SHORT]) for item in items]
    near = like(name, names)
    if near:
        return f" Did you mean {near}?"
    return f" There is {', '.join(names[:10])}." if names else f" There is no {kind} at all."


def like(name: str, names: Iterable[str]) -> str:
    """Up to three similar names in any case, joined by "or"; an empty text where there is none."""
    by_folded_name = {candidate.casefold(): candidate for candidate in names}
    near = difflib.get_close_matches(name.casefold(), by_folded_name, n=3)
    return " or ".join(by_folded_name[candidate] for candidate in near)
