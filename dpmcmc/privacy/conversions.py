"""Between Rényi DP, zero-concentrated DP and (epsilon, delta).

Sources: Canonne, Kamath & Steinke 2020, Proposition 12 (CKS: tight); Bun & Steinke 2016, Proposition 1.3
and Mironov 2017, Proposition 3 (sound, loose). Costs round up, budgets down.
"""

import math

from dpmcmc.privacy.gaussian import check_delta, check_epsilon

_PAD = 2.0**-49


def _check_order(order: float) -> None:
    if not 1 < order < math.inf:
        raise ValueError("an order must be finite and above 1")


def _overhead(order: float, delta: float) -> tuple[float, float]:
    """ln(1 - 1/a) - ln(a delta)/(a - 1), and the sum of its terms' magnitudes."""
    first = math.log1p(-1 / order)
    second = -(math.log(order) + math.log(delta)) / (order - 1)
    scale = (abs(math.log(order)) + abs(math.log(delta))) / (order - 1)
    return first + second, abs(first) + scale


def rdp_epsilon(rho: float, order: float, delta: float) -> float:
    """epsilon >= 0 at delta of a mechanism with Rényi divergence rho at one order (CKS), rounded up."""
    _check_order(order)
    check_delta(delta)
    value, scale = _overhead(order, delta)
    return max(0.0, rho + value + _PAD * (rho + scale))


def rdp_budget(epsilon: float, delta: float, order: float) -> float:
    """Largest Rényi divergence at one order that is (epsilon, delta) by CKS, rounded down; may be < 0."""
    _check_order(order)
    check_delta(delta)
    check_epsilon(epsilon)
    value, scale = _overhead(order, delta)
    return epsilon - value - _PAD * (epsilon + scale)
