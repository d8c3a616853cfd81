"""The cost of events, in directed rounding: costs are rounded up and budgets down.

A quote is for events whose parameters are fixed before the first one runs (a job); whether a
dataset can still afford it is `dpmcmc.privacy.filter`'s to say. The Gaussian path is closed-form
and imports neither scipy.stats nor the accounting library.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from dpmcmc.privacy import composition, conversions, pld
from dpmcmc.privacy.costs import (
    but_for_failure,
    float_up,
    gdp_mu,
    gdp_mu2,
    known,
    pair_of,
    pure_bound,
    pure_epsilon,
    rdp,
    rdp_bound,
    zcdp_rho,
)
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
)
from dpmcmc.privacy.gaussian import (
    check_delta,
    check_epsilon,
    delta_of_mu,
    epsilon_of_mu,
    mu_of_epsilon,
    root_up,
)
from dpmcmc.privacy.laplace import laplace_delta

__all__ = [
    "ORDERS",
    "delta",
    "delta_of_mu",
    "epsilon",
    "epsilon_of_mu",
    "gdp_mu",
    "gdp_mu2",
    "mu_of_epsilon",
    "noise_multiplier_for",
    "num_steps_for",
    "num_steps_for_rho",
    "num_trajectories_for",
    "num_trajectories_for_rho",
    "pure_bound",
    "pure_epsilon",
    "rdp",
    "rdp_bound",
    "zcdp_rho",
]

WHOLE_ORDERS = (
    *(float(a) for a in range(2, 33)),
    *(40.0, 48.0, 56.0, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0),
)
ORDERS = (*(1 + x / 20 for x in range(1, 20)), *WHOLE_ORDERS)
_MOST_EXACT_LAPLACE, _LARGEST_EXACT_LAPLACE = 60, 1e5
Convert = Callable[[float, float, float], float]


def _leaf_kinds(event: Event) -> Iterator[Event]:
    """Yield the single mechanisms of an event."""
    match event:
        case Repeat(event=inner):
            yield from _leaf_kinds(inner)
        case Compose(events=events) | Parallel(events=events):
            for inner in events:
                yield from _leaf_kinds(inner)
        case _:
            yield event


def all_gaussian(event: Event) -> bool:
    """Return whether every mechanism is Gaussian, so that the cost has a closed form."""
    return all(isinstance(leaf, Gaussian) for leaf in _leaf_kinds(event))


def epsilon(event: Event, delta: float) -> float:
    """Return the tightest proven epsilon of the event at delta, rounded up.

    Exact for Gaussian events, repeated Laplace and repeated pure epsilon; for others the least of
    the composed distribution, or RDP where there is none, GDP and basic composition. Raises
    EventError on an unknown event.
    """
    check_delta(delta)
    known(event)
    if all_gaussian(event):
        return epsilon_of_mu(gdp_mu(event), delta)
    if isinstance(event, Parallel):
        return max(epsilon(inner, delta) for inner in event.events)
    return min(
        _epsilon_basic(event, delta),
        _epsilon_repeated(event, delta),
        *_curve_epsilons(event, delta),
    )


def _curve_epsilons(event: Event, delta: float) -> tuple[float, ...]:
    """Return epsilons by composition or else RDP, and by GDP, after failure probability."""
    rest = delta_after_failure(event, delta)
    if rest == 0:
        return ()
    core = but_for_failure(event)
    composed = epsilon_by_composition(core, rest)
    if composed == math.inf:  # no bound by RDP is below the exact profile, and a curve takes longer
        composed = epsilon_by_rdp(core, rest, ORDERS, conversions.rdp_epsilon)
    return composed, epsilon_of_mu(gdp_mu(core), rest)


def delta_after_failure(event: Event, delta: float) -> float:
    """Return delta minus the failure probability of its parts, rounded down; 0 if none is left."""
    failure = pure_bound(event)[1]
    if failure == 0:
        return delta
    rest = math.nextafter(float(Fraction(delta) - failure), 0)
    return rest if rest >= 1e-300 else 0.0


def _epsilon_basic(event: Event, delta: float) -> float:
    """Return epsilon by basic composition at delta."""
    pure, failure = pure_bound(event)
    return math.inf if pure is None or failure > Fraction(delta) else float_up(pure)


def epsilon_by_rdp(event: Event, delta: float, orders: Iterable[float], convert: Convert) -> float:
    """Return the least epsilon by RDP over these orders; infinite without a bound."""
    known_rho = ((order, rdp(event, order)) for order in orders)
    converted = (convert(rho, order, delta) for order, rho in known_rho if rho < math.inf)
    return min(converted, default=math.inf)


def _composed(event: Event) -> pld.Composed | None:
    """Return the composed privacy loss distribution of an event, cached."""
    variance = rdp(event, 2.0)
    return pld.compose(event, variance) if 0 < variance < 1000 else None


def epsilon_by_composition(event: Event, delta: float) -> float:
    """Return epsilon by the composed privacy loss distribution; infinite if not trusted."""
    parts = pld.leaves(event)
    if parts is None or not pld.trusted(pld.hidden(parts), delta):  # composing takes its time
        return math.inf
    composed = _composed(event)
    return math.inf if composed is None else composed.epsilon(delta)


def _delta_repeated(event: Event, at: float) -> float:
    """Return the exact delta of one repeated Laplace or (epsilon, delta) mechanism; else 1."""
    parts = pld.leaves(event)
    if parts is None or len(parts) != 1:
        return 1.0
    ((leaf, count),) = parts.items()
    match leaf:
        case Laplace(noise_multiplier=z) if (
            count <= _MOST_EXACT_LAPLACE and 1 / z <= _LARGEST_EXACT_LAPLACE
        ):
            return laplace_delta(pair_of(Laplace(z))[0], count, at)
        case PureEpsilon() | SmoothLaplace() if count <= composition.LARGEST_COUNT:
            return composition.optimal_delta(*pair_of(leaf), count, at)
        case _:
            return 1.0


def _epsilon_repeated(event: Event, delta: float) -> float:
    """Return the smallest epsilon whose exact delta is at most delta."""
    good = _epsilon_basic(event, delta)
    if good == math.inf or _delta_repeated(event, good) > delta:
        return math.inf
    if _delta_repeated(event, 0.0) <= delta:
        return 0.0
    low = 0.0
    while good - low > 1e-12 * good:
        middle = 0.5 * (low + good)
        low, good = (low, middle) if _delta_repeated(event, middle) <= delta else (middle, good)
    return good


def delta(event: Event, epsilon: float) -> float:
    """Return the tightest proven delta of the event at epsilon, rounded up."""
    check_epsilon(epsilon)
    known(event)
    if all_gaussian(event):
        return delta_of_mu(gdp_mu(event), epsilon)
    if isinstance(event, Parallel):
        return max(delta(inner, epsilon) for inner in event.events)
    pure, failure = pure_bound(event)
    core = but_for_failure(event)
    composed = _composed(core)
    curve = min(
        delta_of_mu(gdp_mu(core), epsilon),
        0.0 if pure is not None and pure <= Fraction(epsilon) else 1.0,
        _delta_rdp(core, epsilon),
        composed.delta(epsilon) if composed is not None else 1.0,
    )
    return min(1.0, float_up(failure + Fraction(curve)), _delta_repeated(event, epsilon))


def _delta_rdp(event: Event, at: float) -> float:
    """Return delta by RDP at the best order: ln delta = (a - 1)(rho - eps + ...) - ln a (CKS20)."""
    known_rho = ((order, rdp(event, order)) for order in ORDERS)
    logs = [
        (order - 1) * (rho - at + math.log1p(-1 / order)) - math.log(order)
        for order, rho in known_rho
        if rho < math.inf
    ]
    return min(1.0, math.exp(min(0.0, *logs)) * (1 + 1e-11)) if logs else 1.0


def noise_multiplier_for(epsilon: float, delta: float, num_steps: int) -> float:
    """Return the smallest noise multiplier at which num_steps releases cost (epsilon, delta).

    sigma / Delta, rounded up. Raises ValueError where the budget or num_steps is not positive.
    """
    if num_steps < 1:
        raise ValueError("num_steps must be 1 or larger")
    mu = mu_of_epsilon(epsilon, delta)
    if mu == 0:
        raise ValueError("a budget of epsilon 0 buys no release")
    return root_up(num_steps / Fraction(mu) ** 2)


def _steps(budget: Fraction, start: Fraction, each: Fraction) -> int:
    """Return how many repetitions of cost `each` fit the budget after `start`."""
    return max(0, math.floor((budget - start) / each))


def _mu2(noise_multiplier: float) -> Fraction:
    """Return mu^2 = 1 / z^2 exactly."""
    return 1 / Fraction(Gaussian(noise_multiplier).noise_multiplier) ** 2


def num_steps_for(epsilon: float, delta: float, noise_multiplier: float) -> int:
    """Return the largest number of Gaussian releases within (epsilon, delta); may be 0."""
    budget = Fraction(mu_of_epsilon(epsilon, delta)) ** 2
    return _steps(budget, Fraction(0), _mu2(noise_multiplier))


def num_steps_for_rho(rho: float, noise_multiplier: float) -> int:
    """Return the largest number of Gaussian releases within rho-zCDP (thesis A, Theorem 6)."""
    return _steps(2 * Fraction(rho), Fraction(0), _mu2(noise_multiplier))


def num_trajectories_for(
    epsilon: float, delta: float, ratio_multiplier: float, gradient_multiplier: float, leapfrog: int
) -> int:
    """Return the largest number of DP HMC trajectories within (epsilon, delta); may be 0.

    k trajectories of L leapfrog steps release k ratios and k L + 1 gradients (thesis A, 5.2).
    """
    budget = Fraction(mu_of_epsilon(epsilon, delta)) ** 2
    return _trajectories(budget, ratio_multiplier, gradient_multiplier, leapfrog)


def num_trajectories_for_rho(
    rho: float, ratio_multiplier: float, gradient_multiplier: float, leapfrog: int
) -> int:
    """Return the largest number of DP HMC trajectories within rho-zCDP; may be 0."""
    return _trajectories(2 * Fraction(rho), ratio_multiplier, gradient_multiplier, leapfrog)


def _trajectories(budget: Fraction, ratio: float, gradient: float, leapfrog: int) -> int:
    """Return how many trajectories fit a budget of mu^2."""
    if leapfrog < 1:
        raise ValueError("a trajectory has at least one leapfrog step")
    first = _mu2(gradient)
    return _steps(budget, first, _mu2(ratio) + leapfrog * first)
