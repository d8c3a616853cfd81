"""Which deltas are small enough to be a guarantee for a table of so many rows."""

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import ROW

MOST_DELTA = 0.1  # of anything: tables have ten rows or more
TOO_LARGE = f"must be at most {MOST_DELTA:g}"
TOO_LIKELY = (
    "must be below 1 / {units}: with {count} {units} one of them could be published as {it}"
)


def too_likely(delta: float, rows: int) -> bool:
    """Return whether publishing one random row would satisfy this delta.

    rows: of everything that the promise is for; of several tables those of all together; of persons
    with several rows these persons. 1 / rows is rounded to the nearest double, as a delta that was
    meant to be it is.
    """
    return rows > 0 and delta >= 1.0 / rows


def reason(rows: int, unit: str = ROW) -> str:
    """Return why such a delta is refused. unit: "row", or the column that names persons."""
    units, it = ("rows", "it is") if unit == ROW else ("persons", "they are")
    return TOO_LIKELY.format(units=units, count=rows, it=it)


def refusal(delta: float, rows: int, unit: str = ROW) -> str:
    """Return why a delta is too large for so many rows or persons; empty where it is not."""
    if too_likely(delta, rows):
        return reason(rows, unit)
    return TOO_LARGE if delta > MOST_DELTA else ""


def check_delta(pointer: str, delta: float, rows: int, unit: str = ROW) -> None:
    """Refuse a delta that is too large for so many rows or persons. Raises SpecError."""
    if refused := refusal(delta, rows, unit):
        raise SpecError(pointer, refused)
