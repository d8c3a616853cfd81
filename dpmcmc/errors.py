"""Errors that a caller can act on. No message is ever a function of private rows."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" where a known name is like this one, else nothing."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


class SpecError(ValueError):
    """A request that cannot be planned. pointer: JSON pointer of the field; message: the fix."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message
