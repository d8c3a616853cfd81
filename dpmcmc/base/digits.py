"""Numbers with few digits, for those who read them."""

import decimal
from decimal import Decimal

ROUNDING = 1e-12  # of doubles, beside the numbers that they stand for


def rounded_down(value: float, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits, rounded down.

    So what is left of a budget is told: a call of that much still fits.
    """
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_FLOOR):
        return f"{float(+Decimal(value * (1.0 + ROUNDING))):.{digits}g}"
