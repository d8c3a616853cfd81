"""Which deltas are promises at all for a table of so many rows: one rule for all who take one."""

from dpmcmc.base.errors import SpecError

TOO_LIKELY = "must be below 1 / rows: with {rows} rows one of them could be published as it is"


def too_likely(delta: float, rows: int) -> bool:
    """Whether a promise of this delta is kept by publishing one row picked at random.

    rows: of everything that the promise is for; of several tables those of all together. 1 / rows
    is rounded to the nearest double, as a delta that was meant to be it is.
    """
    return rows > 0 and delta >= 1.0 / rows


def check_delta(pointer: str, delta: float, rows: int) -> None:
    """Refuse a delta that is no promise for so many rows. Raises SpecError."""
    if too_likely(delta, rows):
        raise SpecError(pointer, TOO_LIKELY.format(rows=rows))
