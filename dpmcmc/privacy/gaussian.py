"""The exact privacy profile of mu-GDP, and its inverses in directed rounding.

One Gaussian release of noise multiplier z is mu-GDP with mu = 1/z, and releases compose to the root
of the sum of their mu^2, also when their parameters are chosen adaptively. Source: Balle & Wang
2018, Theorem 8; Dong, Roth & Su 2022, section 5.2. Proof of the evaluation:
docs/proofs/gaussian_composition.md.

delta_mu(eps) = Phi(-a) - e^eps Phi(-b) with a = eps/mu - mu/2, b = eps/mu + mu/2
             = phi(a) (R(a) - R(b)),  R(x) = Phi(-x)/phi(x) (Mills' ratio), and
1 - delta    = phi(a) (R(-a) + R(b)).
A result is accepted only where the evaluation, padded by a bound of its own rounding error, stays
within delta; so a cost is never too low and a budget never too high.
"""

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erfcx

SMALLEST_DELTA = 1e-300
_LARGEST_SQUARE = Fraction(10) ** 300
_ULP = 2.0**-52
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def check_delta(delta: float) -> None:
    """Refuse a delta outside [1e-300, 1)."""
    if not SMALLEST_DELTA <= delta < 1:
        raise ValueError("delta must be at least 1e-300 and below 1")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not a finite number of at least 0."""
    if not 0 <= epsilon < math.inf:
        raise ValueError("epsilon must be a finite number, 0 or larger")


def _mills(x: float) -> float:
    """Return Mills' ratio R(x) = (1 - Phi(x)) / phi(x)."""
    return _SQRT_HALF_PI * float(erfcx(x * _SQRT_HALF))


def _mills_difference(a: float, mu: float) -> tuple[float, float]:
    """Return R(a) - R(a + mu) of Mills' ratio, and the factor of its rounding error.

    Small mu: the integral of e^(-a t - t^2/2) (1 - e^(-mu t)) over t > 0, all of whose terms are
    positive; large mu: the plain difference.
    """
    if mu > 1:
        first = _mills(a)
        difference = first - _mills(a + mu)
        return difference, (first / difference if difference > 0 else math.inf)
    end = 100 / (a + math.sqrt(a * a + 100))
    t = 0.5 * end * (_NODES + 1)
    terms = np.exp(-t * (a + 0.5 * t)) * -np.expm1(-mu * t)
    return 0.5 * end * float(_WEIGHTS @ terms), 1.0


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Return ln delta_mu(epsilon), and a bound of its absolute rounding error."""
    ratio = epsilon / mu
    a = ratio - 0.5 * mu
    if a < -25:
        return 0.0, _ULP
    if a > 1e100:
        return -math.inf, 0.0
    difference, cancelled = _mills_difference(a, mu)
    if difference <= 0 or cancelled > 1e12:
        return _log_delta_bound(a, mu)
    value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(difference)
    error = 16 * cancelled + 2 * abs(a) * (ratio + mu) + a * a + 2 * abs(value)
    return value, error * _ULP


def _log_delta_bound(a: float, mu: float) -> tuple[float, float]:
    """Return a bound of ln(R(a) - R(b)) where a is so large that the difference cancels."""
    value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(min(mu, 1 / a))
    return value, (2 * a * (a + mu) + abs(value) + 16) * _ULP


def _log_complement(mu: float, epsilon: float) -> tuple[float, float]:
    """Return ln(1 - delta_mu(epsilon)), and a bound of its absolute rounding error."""
    ratio = epsilon / mu
    a = ratio - 0.5 * mu
    if a > 25:
        return 0.0, _ULP
    value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(_mills(-a) + _mills(a + mu))
    return value, (16 + 2 * abs(a) * (ratio + mu) + a * a + 2 * abs(value)) * _ULP


def holds(mu: float, epsilon: float, delta: float) -> bool:
    """Return whether delta_mu(epsilon) <= delta, rounding error included."""
    if mu == 0:
        return True
    if delta <= 0.5:
        value, error = _log_delta(mu, epsilon)
        return value + error <= math.log(delta)
    value, error = _log_complement(mu, epsilon)
    return value - error >= math.log1p(-delta)


def _ordinal(x: float) -> int:
    """Return the ordinal of a nonnegative double among all doubles."""
    number: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return number


def _float(ordinal: int) -> float:
    """Return the double with this ordinal."""
    number: float = struct.unpack("<d", struct.pack("<q", ordinal))[0]
    return number


def boundary(accepts: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last double that `accepts`, between `inside` and refused `outside`."""
    good, bad = _ordinal(inside), _ordinal(outside)
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if accepts(_float(middle)) else (good, middle)
    return _float(good)


def root_up(square: Fraction) -> float:
    """Return the smallest double whose square is at least `square`; infinity beyond 1e300."""
    if square > _LARGEST_SQUARE:
        return math.inf
    root = root_down(square)
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)


def root_down(square: Fraction) -> float:
    """Return the largest double whose square is at most `square`, at most 1e300."""
    square = min(square, _LARGEST_SQUARE)
    root = math.nextafter(math.sqrt(square), math.inf)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0)
    return root


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Return the smallest delta of mu-GDP at epsilon >= 0, rounded up (slack about 1e-14).

    Exact: the profile is attained by one Gaussian release. Raises ValueError outside the domain.
    """
    check_epsilon(epsilon)
    if not mu >= 0:
        raise ValueError("mu must be 0 or larger")
    if mu == 0:
        return 0.0
    if mu == math.inf:
        return 1.0
    value, error = _log_delta(mu, epsilon)
    if value < -0.5:
        return math.nextafter(math.exp(value + error), math.inf)
    value, error = _log_complement(mu, epsilon)
    return min(1.0, math.nextafter(-math.expm1(value - error), math.inf))


@lru_cache(maxsize=1024)  # what a dataset has spent is asked for again with every plan
def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with delta_mu(epsilon) <= delta, rounded up.

    mu: root of the summed squares of 1/noise multiplier; infinite mu gives infinity.
    Raises ValueError outside mu >= 0, 1e-300 <= delta < 1.
    """
    check_delta(delta)
    if not mu >= 0:
        raise ValueError("mu must be 0 or larger")
    if mu > 1e100:
        return math.inf
    if holds(mu, 0.0, delta):
        return 0.0
    return boundary(lambda epsilon: holds(mu, epsilon, delta), mu * (0.5 * mu + 60), 0.0)


@lru_cache(maxsize=1024)  # a plan asks for one budget's mu some forty times
def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest mu with delta_mu(epsilon) <= delta, rounded down by a few ulp.

    The inverse of `epsilon_of_mu`: the GDP budget of an (epsilon, delta) guarantee.
    Raises ValueError outside epsilon >= 0, 1e-300 <= delta < 1.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    return boundary(lambda mu: holds(mu, epsilon, delta), 0.0, 80 + 2 * math.sqrt(2 * epsilon))
