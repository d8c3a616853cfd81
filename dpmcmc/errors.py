"""Errors that a caller can act on. No message is ever a function of private rows."""

import difflib
import unicodedata
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" where a known name is like this one, else nothing."""
    names = list(known)
    alike = [one for one in names if _composed(str(one)) == _composed(str(name))]
    if alike:
        return f"; {alike[0]!r} looks alike and has other characters: it is {alike[0]!a}"
    found = difflib.get_close_matches(str(name), names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _composed(name: str) -> str:
    """Return a name as another keyboard or file system may write it."""
    return unicodedata.normalize("NFKC", name)


class SpecError(ValueError):
    """A request that cannot be planned. pointer: JSON pointer of the field; message: the fix."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message
