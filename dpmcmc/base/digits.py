"""Numbers with few digits and lines of text, for those who read them."""

import decimal
from decimal import Decimal

LINE = 88  # characters of a line of text
ROUNDING = 1e-12  # of doubles, beside the numbers that they stand for


def rounded_down(value: float, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits, rounded down.

    So what is left of a budget is told: a call of that much still fits.
    """
    return _rounded(value * (1.0 + ROUNDING), digits, decimal.ROUND_FLOOR)


def rounded_up(value: float, digits: int) -> str:
    """Return a number with at most `digits` significant digits, rounded up."""
    return _rounded(value * (1.0 - ROUNDING), digits, decimal.ROUND_CEILING)


def _rounded(value: float, digits: int, rounding: str) -> str:
    """Return a number with at most `digits` significant digits."""
    with decimal.localcontext(prec=digits, rounding=rounding):
        return f"{float(+Decimal(value)):.{digits}g}"
