"""Numerical composition of privacy loss distributions, for parameters that are fixed in advance.

Built on dp-accounting's connect-the-dots discretisation, which is pessimistic but for
floating-point round-off: that is covered by `ROUND_OFF` and a floor under delta. Never a filter:
composing until the composed profile is full is unsound when parameters are chosen adaptively
(docs/proofs/filter.md).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from dpmcmc.privacy.costs import pair_of
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
)
from dpmcmc.privacy.gaussian import epsilon_of_mu
from dpmcmc.privacy.subsampling import amplified_epsilon

SMALLEST_DELTA = 1e-11
ROUND_OFF = 4e-16
MOST_CELLS = 2**20
MOST_COUNT = 10**7
FAR = 30.0  # epsilon beyond which e^epsilon is not taken: it may overflow


def leaves(event: Event) -> dict[Event, int] | None:
    """The single mechanisms of an event and how often each runs; None with parallel parts."""
    match event:
        case Repeat(event=inner, count=count):
            parts = leaves(inner)
            return None if parts is None else {leaf: many * count for leaf, many in parts.items()}
        case Compose(events=events):
            total: dict[Event, int] = {}
            for inner in events:
                parts = leaves(inner)
                if parts is None:
                    return None
                for leaf, many in parts.items():
                    total[leaf] = total.get(leaf, 0) + many
            return total
        case _ if hasattr(event, "events"):
            return None
        case _:
            return {event: 1}


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed privacy loss distribution and the probability that round-off may hide."""

    distribution: Any
    hidden: float

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at delta; infinite where round-off could matter."""
        if not trusted(self.hidden, delta):
            return math.inf
        found = float(self.distribution.get_epsilon_for_delta(delta - self.hidden))
        return max(0.0, found) * (1 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at epsilon, never below 1e-11."""
        found = float(self.distribution.get_delta_for_epsilon(epsilon))
        return min(1.0, max(SMALLEST_DELTA, found + self.hidden))


def hidden(parts: dict[Event, int]) -> float:
    """The probability that round-off may hide after composition."""
    return ROUND_OFF * sum(parts.values()) + 1e-13 * len(parts)


def trusted(lost: float, delta: float) -> bool:
    """Whether what round-off may hide is little beside delta."""
    return delta >= SMALLEST_DELTA and lost <= delta / 4


def compose(event: Event, variance: float) -> Composed | None:
    """The event's composed distribution, or None where a part has none (Barker, parallel parts).

    variance: about the variance of its whole privacy loss (the divergence of order 2), to choose
    the grid; it decides accuracy, not soundness.
    """
    parts = leaves(event)
    if parts is None or not all(isinstance(leaf, _SUPPORTED) for leaf in parts):
        return None
    count = sum(parts.values())
    reach = _reach(parts, variance)
    if count > MOST_COUNT or not math.isfinite(reach) or reach > 2000:
        return None
    return _compose(tuple(parts.items()), _interval(count, variance, reach))


_SUPPORTED = (
    Gaussian,
    Laplace,
    PureEpsilon,
    SmoothLaplace,
    WithoutReplacement,
    PoissonSampled,
)


def _reach(parts: dict[Event, int], variance: float) -> float:
    """About the width of the losses that matter after composition, and of each part alone."""
    alone = max(_leaf_reach(leaf) for leaf in parts)
    return max(2 * alone, variance + 28 * math.sqrt(variance))


def _leaf_reach(leaf: Event) -> float:
    match leaf:
        case Gaussian(noise_multiplier=z) | PoissonSampled(event=Gaussian(noise_multiplier=z)):
            return 12 / z + 0.5 / z**2
        case WithoutReplacement(event=Gaussian(noise_multiplier=z), batch=batch, rows=rows):
            return _wor_reach(z, batch / rows)
        case Laplace(noise_multiplier=z):
            return 1 / z
        case WithoutReplacement(event=Laplace(noise_multiplier=z)):
            return 1 / z
        case WithoutReplacement(event=PureEpsilon(epsilon=epsilon)):
            return epsilon
        case PureEpsilon(epsilon=epsilon) | SmoothLaplace(epsilon=epsilon):
            return epsilon
        case _:
            return math.inf


def _interval(count: int, variance: float, reach: float) -> float:
    """Grid width: a small part of one step's spread and of the whole spread, within the cells."""
    fine = min(0.05 * math.sqrt(variance / count), 0.002 * math.sqrt(variance), 1e-3)
    wanted = max(fine, reach / MOST_CELLS)
    return float(2.0 ** math.floor(math.log2(wanted)))


@lru_cache(maxsize=64)
def _compose(parts: tuple[tuple[Event, int], ...], interval: float) -> Composed:
    total: Any = None
    for leaf, count in parts:
        many = _repeated(leaf, count, interval)
        total = many if total is None else total.compose(many)
    return Composed(total, hidden(dict(parts)))


@lru_cache(maxsize=8)
def _repeated(leaf: Event, count: int, interval: float) -> Any:
    """A calibration changes one part again and again and leaves the others as they are."""
    one = _distribution(leaf, interval)
    return one if count == 1 else one.self_compose(count)


def _distribution(leaf: Event, interval: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    match leaf:
        case Gaussian(noise_multiplier=z):
            return _gaussian_distribution(z, 1.0, interval)
        case PoissonSampled(event=Gaussian(noise_multiplier=z), rate=rate):
            return pld.from_gaussian_mechanism(
                z, sampling_prob=rate, value_discretization_interval=interval
            )
        case WithoutReplacement(event=Gaussian(noise_multiplier=z), batch=batch, rows=rows):
            return _gaussian_distribution(z, batch / rows, interval)
        case Laplace(noise_multiplier=z):
            return pld.from_laplace_mechanism(z, value_discretization_interval=interval)
        case _:
            epsilon, delta = pair_of(leaf)
            pair = common.DifferentialPrivacyParameters(epsilon, delta)
            return pld.from_privacy_parameters(pair, value_discretization_interval=interval)


def _wor_reach(noise_multiplier: float, rate: float) -> float:
    base = epsilon_of_mu(1 / noise_multiplier, min(0.5, 1e-24 / rate))
    return amplified_epsilon(base, rate)


def _gaussian_distribution(noise_multiplier: float, rate: float, interval: float) -> Any:
    """The amplified profile on the grid, mirrored below 0 (docs/proofs/without_replacement.md).

    At rate 1 that of a plain release.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    cells = max(2, math.ceil(_wor_reach(noise_multiplier, rate) / interval))
    epsilons = interval * np.arange(cells + 1)
    near = np.log1p(np.expm1(np.minimum(epsilons, FAR)) / rate)
    far = epsilons - math.log(rate) + np.log1p((rate - 1.0) * np.exp(-epsilons))
    base = np.where(epsilons < FAR, near, far)  # as subsampling.base_epsilon
    above = rate * _gaussian_profile(1 / noise_multiplier, base)
    below = -np.expm1(-epsilons) + np.exp(-epsilons) * above
    deltas = np.concatenate([below[:0:-1], above])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -cells, cells, deltas)
    return pld.PrivacyLossDistribution(pmf)


def _gaussian_profile(mu: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """delta_mu at every epsilon >= 0 of an array."""
    a = epsilons / mu - mu / 2
    b = a + mu
    scaled = 0.5 * np.exp(-0.5 * a * a) * (erfcx(np.maximum(a, -1) / 2**0.5) - erfcx(b / 2**0.5))
    plain = np.exp(log_ndtr(-a)) - np.exp(epsilons + log_ndtr(-b))
    chosen: NDArray[np.float64] = np.where(a > -1, scaled, plain)
    return chosen
