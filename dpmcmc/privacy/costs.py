"""Additive costs of any event, rounded up: GDP, Rényi, zero-concentrated and pure DP.

Sums are exact fractions on a grid of 2^-192, so they do not depend on the order of events and a job
of a million steps costs no more than its steps. A part whose cost is unknown makes the whole
unknown.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpmcmc.privacy import rdp as curves
from dpmcmc.privacy import subsampling
from dpmcmc.privacy.conversions import check_order
from dpmcmc.privacy.events import (
    KINDS,
    Barker,
    Compose,
    Event,
    EventError,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
)
from dpmcmc.privacy.gaussian import root_up

_GRID = 1 << 192
_LARGEST = Fraction(10) ** 300


def known(event: object) -> None:
    """Refuse anything that is not an event."""
    if not isinstance(event, KINDS):
        raise EventError("this is not an event of the closed vocabulary")


def _summed(event: Event, leaf: Callable[[Event], Fraction | None]) -> Fraction | None:
    """Return the sum of leaf costs in composition, maximum in parallel; None: unbounded."""
    known(event)
    match event:
        case Repeat(event=inner, count=count):
            each = _summed(inner, leaf)
            return None if each is None else count * each
        case Compose(events=events) | Parallel(events=events):
            parts = [_summed(inner, leaf) for inner in events]
            finite = [part for part in parts if part is not None]
            if len(finite) < len(parts):
                return None
            return max(finite) if isinstance(event, Parallel) else sum(finite, Fraction(0))
        case _:
            cost = leaf(event)
            return None if cost is None else Fraction(math.ceil(cost * _GRID), _GRID)


def gdp_mu2(event: Event) -> Fraction | None:
    """Return mu^2 of GDP, exact for Gaussian events; None where no bound is known."""
    return _summed(event, _leaf_mu2)


def _leaf_mu2(leaf: Event) -> Fraction | None:
    """Return mu^2 of one mechanism; None without a GDP bound."""
    if isinstance(leaf, Gaussian):
        return 1 / Fraction(leaf.noise_multiplier) ** 2
    epsilon, failure = pair_of(leaf)
    if failure > 0 or epsilon > 1e100:
        return None
    return Fraction(curves.pure_mu(epsilon)) ** 2


def gdp_mu(event: Event) -> float:
    """Return mu of the event's GDP bound, rounded up; infinite where none is known.

    Pure epsilon: 2 Phi^-1(e^eps/(1 + e^eps)). Subsampled Gaussian and Barker: none. Adaptive
    composition adds mu^2 (docs/proofs/gaussian_composition.md).
    """
    square = gdp_mu2(event)
    return math.inf if square is None else root_up(square)


def rdp_bound(event: Event, order: float) -> Fraction | None:
    """Return the Rényi divergence at one order, rounded up; None where no bound is known."""
    check_order(order)
    return _summed(event, lambda leaf: _leaf_rdp(leaf, order))


def _leaf_rdp(leaf: Event, order: float) -> Fraction | None:
    """Return the Rényi divergence of one mechanism; None without a bound."""
    if isinstance(leaf, Gaussian):
        return Fraction(order) / (2 * Fraction(leaf.noise_multiplier) ** 2)
    value = _leaf_rdp_float(leaf, order)
    return Fraction(value) if math.isfinite(value) else None


@lru_cache(maxsize=4096)
def _leaf_rdp_float(leaf: Event, order: float) -> float:
    """Return the Rényi divergence of one mechanism as a float; infinite without a bound."""
    match leaf:
        case Laplace(noise_multiplier=z):
            return curves.rdp_laplace(1 / z, order)
        case WithoutReplacement(event=Gaussian(noise_multiplier=z), batch=batch, rows=rows):
            return subsampling.wor_rdp_gaussian(z, batch / rows, order)
        case PoissonSampled(event=Gaussian(noise_multiplier=z), rate=rate):
            return subsampling.poisson_rdp_gaussian(z, rate, order)
        case Barker(batch=batch, rows=rows):
            return subsampling.barker_rdp(batch, rows, order)
        case _:
            epsilon, failure = pair_of(leaf)
            return math.inf if failure > 0 else curves.rdp_pure(epsilon, order)


def rdp(event: Event, order: float) -> float:
    """Return the Rényi divergence at one order above 1, rounded up; infinite if unknown."""
    bound = rdp_bound(event, order)
    return math.inf if bound is None else float_up(bound)


def float_up(value: Fraction) -> float:
    """Return the smallest double at least `value`; infinity beyond the largest."""
    if value > _LARGEST:
        return math.inf
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def pure_bound(event: Event) -> tuple[Fraction | None, Fraction]:
    """Return (epsilon, delta): epsilon-DP except with probability delta, by basic composition.

    epsilon is None, and delta 0, where a part is known by a curve only.
    """
    epsilon = _summed(event, _leaf_pure)
    failure = _summed(event, lambda leaf: _finite(_failure(leaf)))
    return epsilon, failure or Fraction(0)


def _leaf_pure(leaf: Event) -> Fraction | None:
    """Return the epsilon of a leaf, except with its failure probability; Laplace: 1 / z."""
    if isinstance(leaf, Laplace):
        return 1 / Fraction(leaf.noise_multiplier)
    return _finite(pair_of(leaf)[0])


def _failure(leaf: Event) -> float:
    """Return the failure probability of one mechanism."""
    return leaf.delta if isinstance(leaf, SmoothLaplace) else 0.0


def _finite(value: float) -> Fraction | None:
    """Return a float as a fraction; None where it is infinite."""
    return Fraction(value) if math.isfinite(value) else None


def pure_epsilon(event: Event) -> float:
    """Return epsilon at delta 0 by basic composition, rounded up; infinite without one."""
    epsilon, failure = pure_bound(event)
    return math.inf if epsilon is None or failure > 0 else float_up(epsilon)


def zcdp_rho(event: Event) -> float:
    """Return rho of zCDP, rounded up: mu^2 / 2 of Gaussian, epsilon^2 / 2 of pure parts."""
    bound = _summed(event, _leaf_rho)
    return math.inf if bound is None else float_up(bound)


def _leaf_rho(leaf: Event) -> Fraction | None:
    """Return rho of one mechanism; None without a bound."""
    if isinstance(leaf, Gaussian):
        return 1 / (2 * Fraction(leaf.noise_multiplier) ** 2)
    epsilon, failure = pair_of(leaf)
    return None if failure > 0 else _finite(curves.pure_rho(epsilon))


def pair_of(leaf: Event) -> tuple[float, float]:
    """Return the (epsilon, delta) that a leaf is defined by."""
    match leaf:
        case PureEpsilon(epsilon=epsilon):
            return epsilon, 0.0
        case Laplace(noise_multiplier=z):
            return 1 / z * (1 + 2.0**-51), 0.0
        case SmoothLaplace(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case WithoutReplacement(event=inner, batch=batch, rows=rows):
            epsilon, delta = pair_of(inner)
            return subsampling.amplified_epsilon(epsilon, batch / rows), delta
        case _:
            return math.inf, 1.0


def but_for_failure(event: Event) -> Event:
    """Return the event with (epsilon, delta) parts taken as epsilon-DP, without failures.

    Its delta is to be charged beside (`pure_bound`). Proof: docs/proofs/filter.md, section 4.
    """
    known(event)
    match event:
        case SmoothLaplace(epsilon=epsilon, neighbouring=neighbouring):
            return PureEpsilon(epsilon, neighbouring)
        case Repeat(event=inner, count=count):
            return Repeat(but_for_failure(inner), count)
        case Compose(events=events):
            return Compose(tuple(but_for_failure(inner) for inner in events))
        case Parallel(events=events):
            return Parallel(tuple(but_for_failure(inner) for inner in events))
        case _:
            return event
