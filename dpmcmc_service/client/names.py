"""Datasets, users and jobs by the names that people use: ids are asked of nobody."""

import difflib
from collections.abc import Iterable
from typing import Any, Protocol
from uuid import UUID

from dpmcmc_service.client.terminal import complain

Json = dict[str, Any]
SHORT = 8  # digits of an id that tables show


class Listed(Protocol):
    """A client, as far as it lists what there is."""

    def datasets(self) -> Iterable[Json]:
        """Yield the datasets."""

    def users(self) -> Iterable[Json]:
        """Yield the users."""

    def jobs(self) -> Iterable[Json]:
        """Yield the jobs."""


def is_id(word: str) -> bool:
    """Whether a word is a whole id."""
    try:
        return str(UUID(word)) == word.lower()
    except ValueError:
        return False


def dataset(client: Listed, word: str) -> str:
    """The id of a dataset, given its name, its id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("dataset", word, list(client.datasets()))


def user(client: Listed, word: str) -> str:
    """The id of a user, given a name, an id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("user", word, list(client.users()))


def job(client: Listed, word: str) -> str:
    """The id of a job, given its id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("job", word, list(client.jobs()))


def _only(kind: str, word: str, known: list[Json]) -> str:
    """The id of the one that is meant. A name comes before the beginning of an id."""
    named = [one for one in known if one.get("name") == word]
    found = named or [one for one in known if word and one["id"].startswith(word.lower())]
    if len(found) == 1:
        return str(found[0]["id"])
    if found:
        ids = ", ".join(one["id"] for one in found)
        complain(f"{len(found)} {kind}s are called {word!r}. Give the id of one of them: {ids}")
    complain(f"there is no {kind} {word!r} that you may see.{_hint(kind, word, known)}")


def _hint(kind: str, word: str, known: list[Json]) -> str:
    names = [str(one.get("name") or one["id"][:SHORT]) for one in known]
    near = like(word, names)
    if near:
        return f" Did you mean {near}?"
    return f" There is {', '.join(names[:10])}." if names else f" There is no {kind} at all."


def like(word: str, names: Iterable[str]) -> str:
    """The names that a word is like, in whatever case; nothing where there is none."""
    plain = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), plain, n=3)
    return " or ".join(plain[name] for name in near)
