"""Errors that a caller can act on. No message is ever a function of private rows."""

import difflib
import unicodedata
from collections.abc import Iterable

import numpy as np

LARGEST_WHOLE = 1 << 1023  # whole numbers below become doubles


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" where a known name is similar, else an empty text."""
    known_names = list(known)
    lookalikes = [
        candidate for candidate in known_names if _composed(str(candidate)) == _composed(str(name))
    ]
    if lookalikes:
        return f"; {lookalikes[0]!r} looks alike and has other characters: it is {lookalikes[0]!a}"
    close = [each for each in known_names if str(each).casefold() == str(name).casefold()]
    close = close or difflib.get_close_matches(str(name), known_names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _composed(name: str) -> str:
    """Return a name in Unicode's normal form NFKC, in which equal identifiers compare equal."""
    return unicodedata.normalize("NFKC", name)


def is_number(value: object) -> bool:
    """Whether a value is a real number of Python or NumPy within the range of a double.

    Truth values, durations, fractions and decimals do not count.
    """
    if isinstance(value, bool | np.timedelta64):
        return False
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) < LARGEST_WHOLE


class SpecError(ValueError):
    """A request that cannot be carried out as it is written.

    Attributes
    ----------
    pointer
        JSON pointer of the field, such as /model/formula.
    message
        What is wrong with it, and the remedy.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message


class LowQualityError(SpecError):
    """A call whose plan is not usable: it would spend its cost on a result that says too little.

    Nothing was charged.

    Attributes
    ----------
    usable_at
        About the smallest epsilon at which it would be usable; None where none is known.
    """

    def __init__(self, expected: str, usable_at: float | None) -> None:
        remedy = "Nothing was charged; accept_low_quality=True takes the call as it is."
        super().__init__("/privacy/epsilon", f"{expected} {low_quality_remedy(usable_at)} {remedy}")
        self.usable_at = usable_at


def low_quality_remedy(usable_at: float | None) -> str:
    """Return what to do about a plan that is not usable. usable_at: an epsilon that would do."""
    if usable_at is None:
        return (
            "No epsilon up to 1000 is known to mend that: leave the algorithm and its steps open."
        )
    return f"At epsilon {usable_at:.3g} it would do."
