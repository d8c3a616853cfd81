"""Errors that a caller can act on. No message is ever a function of private rows."""

import difflib
import unicodedata
from collections.abc import Iterable

import numpy as np

LARGEST_WHOLE = 1 << 1023  # whole numbers below become doubles


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


def is_number(value: object) -> bool:
    """Whether it is a number that arithmetic takes: of Python or NumPy, real, in a double's range.

    Truth values and durations are none, nor fractions and decimals, which arrays hold as objects.
    """
    if isinstance(value, bool | np.timedelta64):
        return False
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) < LARGEST_WHOLE


class SpecError(ValueError):
    """A request that cannot be planned. pointer: JSON pointer of the field; message: the fix."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message
