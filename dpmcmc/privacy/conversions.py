"""Conversions between Rényi DP, zero-concentrated DP and (epsilon, delta).

Sources: Canonne, Kamath & Steinke 2020, Proposition 12 (CKS: tight); Bun & Steinke 2016,
Proposition 1.3 and Mironov 2017, Proposition 3 (sound, loose). Costs round up, budgets down.
"""

import math

from dpmcmc.privacy.gaussian import boundary, check_delta, check_epsilon

_PAD = 2.0**-49


def check_order(order: float) -> None:
    """Refuse a Rényi order that is not finite and above 1."""
    if not 1 < order < math.inf:
        raise ValueError("an order must be finite and above 1")


def _check_rho(rho: float) -> None:
    """Refuse a rho that is negative or not finite."""
    if not rho >= 0:
        raise ValueError("rho must be 0 or larger")


def _overhead(order: float, delta: float) -> tuple[float, float]:
    """Return ln(1 - 1/a) - ln(a delta)/(a - 1), and the sum of its terms' magnitudes."""
    first = math.log1p(-1 / order)
    second = -(math.log(order) + math.log(delta)) / (order - 1)
    scale = (abs(math.log(order)) + abs(math.log(delta))) / (order - 1)
    return first + second, abs(first) + scale


def rdp_epsilon(rho: float, order: float, delta: float) -> float:
    """Return epsilon >= 0 at delta of Rényi divergence rho at one order (CKS), rounded up."""
    check_order(order)
    check_delta(delta)
    _check_rho(rho)
    value, scale = _overhead(order, delta)
    return max(0.0, rho + value + _PAD * (rho + scale))


def rdp_epsilon_mironov(rho: float, order: float, delta: float) -> float:
    """Return epsilon at delta by rho + ln(1/delta)/(a - 1) (Mironov), which is looser."""
    check_order(order)
    check_delta(delta)
    _check_rho(rho)
    return (rho - math.log(delta) / (order - 1)) * (1 + _PAD)


def rdp_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the largest Rényi divergence at one order within (epsilon, delta), rounded down.

    Negative where even no release at all is not covered at this order.
    """
    check_order(order)
    check_delta(delta)
    check_epsilon(epsilon)
    value, scale = _overhead(order, delta)
    return epsilon - value - _PAD * (epsilon + scale)


def zcdp_epsilon_loose(rho: float, delta: float) -> float:
    """Return epsilon of rho-zCDP, rho + sqrt(4 rho ln(1/delta)) (Bun & Steinke), rounded up."""
    check_delta(delta)
    _check_rho(rho)
    return (rho + math.sqrt(-4 * rho * math.log(delta))) * (1 + _PAD)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return epsilon at delta of rho-zCDP by CKS at its best real order, rounded up.

    In x = order - 1 the best order solves rho x^2 + ln(1 + x) = ln(1/delta), whose left side grows.
    """
    check_delta(delta)
    _check_rho(rho)
    if rho == 0:
        return 0.0
    if rho == math.inf:
        return math.inf
    log = -math.log(delta)
    if log == 0:
        return 0.0
    x = boundary(lambda x: rho * x * x + math.log1p(x) <= log, 0.0, math.sqrt(log / rho) + 1e-300)
    terms = ((1 + x) * rho, math.log(x) - math.log1p(x), (log - math.log1p(x)) / x)
    return max(0.0, math.fsum(terms) + _PAD * sum(abs(term) for term in terms))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zcdp_epsilon is at most epsilon, rounded down."""
    check_delta(delta)
    check_epsilon(epsilon)
    high = 2 * epsilon + 2
    while zcdp_epsilon(high, delta) <= epsilon:
        high *= 2
    return boundary(lambda rho: zcdp_epsilon(rho, delta) <= epsilon, 0.0, high)
