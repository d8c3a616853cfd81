"""Which of several things a word means: by name, by id, or by how an id begins."""

import difflib
from collections.abc import Iterable
from typing import Any
from uuid import UUID

Json = dict[str, Any]
SHORT = 8  # digits of an id that tables show


class UnclearError(LookupError):
    """A word that means none of the things that there are, or several. It says what would do."""


def is_id(word: str) -> bool:
    """Whether a word is a whole id."""
    try:
        return str(UUID(word)) == word.lower()
    except ValueError:
        return False


def meant(kind: str, word: str, known: list[Json], *, shortened: bool = False) -> str:
    """The id of the one that is meant. A name comes before the beginning of an id.

    kind: what they are, for the error. shortened: whether a word may be how an id begins. Raises
    UnclearError where none fits, or several.
    """
    found = [one for one in known if one.get("name") == word]
    if not found and shortened and word:
        found = [one for one in known if one["id"].startswith(word.lower())]
    if len(found) == 1:
        return str(found[0]["id"])
    if found:
        ids = ", ".join(one["id"] for one in found)
        told = f"{len(found)} {kind}s are called {word!r}. Give the id of one of them: {ids}"
        raise UnclearError(told)
    raise UnclearError(f"there is no {kind} {word!r} that you may see.{_hint(kind, word, known)}")


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
