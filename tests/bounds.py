"""Published bounds of costs by which nothing is charged, to compare what is charged with.

Everything rounds up. q: batch / rows.
"""

import decimal
import math
from collections.abc import Sequence
from itertools import pairwise

from dpmcmc.privacy.gaussian import delta_of_mu
from dpmcmc.privacy.rdp import RELATIVE_ERROR
from dpmcmc.privacy.subsampling import amplified_epsilon

RAISED = 1 + RELATIVE_ERROR


def base_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + (e^eps - 1)/q), the base's epsilon for epsilon of the whole event."""
    if epsilon < 30:
        return math.log1p(math.expm1(epsilon) / rate) * (1 - 2.0**-49)
    return (epsilon - math.log(rate) + math.log1p((rate - 1) * math.exp(-epsilon))) * (1 - 2.0**-49)


def wor_delta(noise_multiplier: float, rate: float, epsilon: float) -> float:
    """Return delta of a Gaussian release on a subset without replacement, rounded up."""
    if epsilon < 0:
        return -math.expm1(epsilon) + math.exp(epsilon) * wor_delta(
            noise_multiplier, rate, -epsilon
        )
    return rate * delta_of_mu(1 / noise_multiplier, base_epsilon(epsilon, rate))


def wor_rdp_gaussian_differences(noise_multiplier: float, rate: float, order: int) -> float:
    """Return the Rényi divergence with a Gaussian base by differences (WBK19, Theorem 27).

    B(l): l-th forward difference at 0 of e^((x-1) eps(x)); they cancel, hence decimal arithmetic.
    """
    with decimal.localcontext() as context:
        context.prec = 60 + math.ceil(order * (1 + 2 * math.log10(1 + noise_multiplier)))
        context.Emax, context.Emin = 10**9, -(10**9)
        differences = _forward_differences(noise_multiplier, order + 1)
        total = sum(
            (
                decimal.Decimal(rate) ** j
                * math.comb(order, j)
                * min(_root_term(differences, j), _plain_term(noise_multiplier, j))
                for j in range(2, order + 1)
            ),
            decimal.Decimal(0),
        )
        return RAISED * (float((1 + total).ln()) / (order - 1))


def _moment(noise_multiplier: float, x: int) -> decimal.Decimal:
    """Return the moment e^(x (x - 1) / (2 z^2)) in decimals."""
    return (decimal.Decimal(x * (x - 1)) / (2 * decimal.Decimal(noise_multiplier) ** 2)).exp()


def _forward_differences(noise_multiplier: float, count: int) -> list[decimal.Decimal]:
    """Return forward differences of the moments."""
    row = [_moment(noise_multiplier, x) for x in range(count + 1)]
    differences = []
    while row:
        differences.append(row[0])
        row = [after - before for before, after in pairwise(row)]
    return differences


def _root_term(differences: list[decimal.Decimal], j: int) -> decimal.Decimal:
    """Return term j by geometric means of differences."""
    return 4 * (differences[2 * (j // 2)] * differences[2 * ((j + 1) // 2)]).sqrt()


def _plain_term(noise_multiplier: float, j: int) -> decimal.Decimal:
    """Return the bound of term j of the sum over j that uses no finite differences."""
    return 2 * _moment(noise_multiplier, j)


def wor_rdp_convex(rho: float, rate: float, order: float) -> float:
    """Return ln(1 + q (e^((a-1) rho) - 1))/(a-1) (blog, Claim 24), which loses a factor q."""
    return amplified_epsilon((order - 1) * rho, rate) / (order - 1) * (1 + 2.0**-49)


def barker_base_rdp_loose(batch: int, order: float) -> float:
    """Return 5/(2b) + ln(2b/(b - 5a))/(2(a-1)) + 2a/(b - 5a); infinite from a = b/5 on.

    Source: Heikkilä et al. 2019; thesis A, Theorem 8. Sound and loose: it never vanishes.
    """
    room = batch - 5 * order
    if room <= 0:
        return math.inf
    middle = math.log(2 * batch / room) / (2 * (order - 1))
    return (5 / (2 * batch) + middle + 2 * order / room) * (1 + 2.0**-49)


def zcdp_rho_loose(epsilon: float, delta: float) -> float:
    """Return rho, the inverse of zcdp_epsilon_loose (thesis A, Theorem 6)."""
    log = -math.log(delta)
    root = epsilon / (math.sqrt(epsilon + log) + math.sqrt(log))
    return root * root * (1 - 2.0**-48)


def basic_composition(entries: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sums of epsilons and of deltas (blog, Claim 10)."""
    return math.fsum(e for e, _ in entries), math.fsum(d for _, d in entries)


def advanced_delta(delta: float, count: int, beta: float) -> float:
    """Return delta of `count` mechanisms by advanced composition: beta + k delta."""
    return beta + count * delta
