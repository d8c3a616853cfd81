"""The exact privacy profile of repeated Laplace releases.

One release at pure epsilon e has privacy loss +e with mass 1/2, -e with mass e^-e / 2, and density
e^((l - e)/2) / 4 between. Tilted by e^(-l/2) its k-fold convolution is a sum of truncated powers,
so that
  delta(eps) = 2^-k e^(-(k e - eps)/2) sum_{i: t_i > 0} C(k, i) f_i(t_i),  t_i = (2 i - k) e - eps,
where f_i has Laplace transform (s + 1/2)^(i-1) (s - 1/2)^(k-i-1) / s^k. Proof:
docs/proofs/laplace.md. The sums cancel, hence decimal arithmetic of growing precision.
"""

import decimal
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

LARGEST_COUNT = 500
_AGREE = Decimal(10) ** -20


def laplace_delta(epsilon_each: float, count: int, epsilon: float) -> float:
    """Return the smallest delta at epsilon of `count` Laplace releases, rounded up.

    Exact up to the last bits. Raises ValueError for more than 500 releases: use the bounds of RDP,
    GDP or the numerical composition there.
    """
    if not 0 < epsilon_each < math.inf or not math.isfinite(epsilon):
        raise ValueError("epsilons must be finite and epsilon_each above 0")
    if not 1 <= count <= LARGEST_COUNT:
        raise ValueError(f"count must lie between 1 and {LARGEST_COUNT}")
    if Fraction(epsilon) >= count * Fraction(epsilon_each):
        return 0.0
    precision = 60 + 2 * count
    last = _evaluate(epsilon_each, count, epsilon, precision)
    while True:
        precision *= 2
        value = _evaluate(epsilon_each, count, epsilon, precision)
        if value > 0 and abs(value - last) <= _AGREE * value:
            return min(1.0, math.nextafter(float(value), math.inf))
        last = value


def _evaluate(epsilon_each: float, count: int, epsilon: float, precision: int) -> Decimal:
    """Return the profile at this decimal precision."""
    with decimal.localcontext() as context:
        context.prec = precision
        context.Emax, context.Emin = 10**9, -(10**9)
        each, at = Decimal(epsilon_each), Decimal(epsilon)
        total = Decimal(0)
        for plus, series in enumerate(_numerators(count)):
            beyond = (2 * plus - count) * each - at
            if beyond > 0:
                total += math.comb(count, plus) * _kernel(plus, series, beyond)
        return total * ((at - count * each) / 2).exp() / Decimal(2) ** count


def _kernel(plus: int, numerator: list[int], t: Decimal) -> Decimal:
    """Return the residue term f_i(t) in powers of t/2, at 0 and at -1/2 or 1/2."""
    count = len(numerator)
    total = Decimal(0)
    power = Decimal(2)
    for degree in range(count):
        total += numerator[count - 1 - degree] * power
        power = power * t / (2 * (degree + 1))
    if plus == count:
        total += Decimal(2) ** count * (t / 2).exp()
    if plus == 0:
        total -= Decimal(2) ** count * (-t / 2).exp()
    return total


def _numerators(count: int) -> Iterator[list[int]]:
    """Yield, for i = 0, ..., k, Taylor coefficients at 0 of (u + 1)^(i-1) (u - 1)^(k-i-1)."""
    signs = [(-1) ** m for m in range(count)]
    falling = [math.comb(count - 1, m) * (-1) ** (count - 1 - m) for m in range(count)]
    series = [
        sign * total
        for sign, total in zip(
            signs, accumulate(a * b for a, b in zip(falling, signs, strict=True)), strict=True
        )
    ]
    yield series
    for _ in range(count):
        raised = [a + b for a, b in zip(series, [0, *series[:-1]], strict=True)]
        series = [-total for total in accumulate(raised)]
        yield series
