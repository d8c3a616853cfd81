"""Numerical composition of privacy loss distributions, for parameters that are fixed in advance.

Profiles are put on grids by connecting the dots, which only ever raises them, and composed by
`dpmcmc.privacy.losses`, which takes no longer for more runs. Floating-point round-off is covered by
`ROUND_OFF` and a floor under delta. Never a filter: composing until the composed profile is full is
unsound when parameters are chosen adaptively (docs/proofs/filter.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from dpmcmc.privacy.costs import pair_of, rdp
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
from dpmcmc.privacy.gaussian import epsilon_of_mu, root_up
from dpmcmc.privacy.losses import Losses, dotted, repeated, together
from dpmcmc.privacy.subsampling import amplified_epsilon

SMALLEST_DELTA = 1e-11
ROUND_OFF = 4e-16
MOST_CELLS, WHOLE_CELLS = 2**16, 2**18  # above 0, of one mechanism's grid and of all together
MAX_COUNT = 10**7
LARGEST_EXPONENT = 30.0  # epsilon beyond which e^epsilon is not taken: it may overflow
SMALL, TERMS = 0.02, 9  # mu whose profile is summed as a series, and of how many terms
MAX_ADD_EPSILON = 300.0  # epsilon beyond which a row added to a sample below 1 shows nothing
GRID_TAIL = 1e-17  # probability of losses beyond the grid of one run: they count as infinite
MIN_GRID = 2.0**-36  # grid: below it round-off is all that is seen
LARGEST_TOTAL_LOSS = 2000.0  # of all losses, beyond which nothing is composed

Both = tuple[Losses, Losses]  # of a row taken out, and of one added; one and the same elsewhere
FloatArray = NDArray[np.float64]


def leaves(event: Event) -> dict[Event, int] | None:
    """Return the single mechanisms and their counts; None with parallel parts."""
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


def gathered(event: Event) -> Event:
    """Return the event with equal mechanisms grouped: same cost, faster to compute."""
    parts = leaves(event)
    if parts is None or not isinstance(event, Repeat | Compose):
        return event
    each = [Repeat(leaf, count) for leaf, count in parts.items()]
    return each[0] if len(each) == 1 else Compose(tuple(each))


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed privacy loss distribution, with the probability lost to round-off."""

    both: Both
    hidden: float

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at delta; infinite where round-off could matter."""
        if not trusted(self.hidden, delta):
            return math.inf
        epsilon = max(losses.epsilon(delta - self.hidden) for losses in set_of(self.both))
        return epsilon * (1 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta at epsilon, never below 1e-11."""
        delta = max(losses.delta(epsilon) for losses in set_of(self.both))
        return min(1.0, max(SMALLEST_DELTA, delta + self.hidden))


def set_of(both: Both) -> tuple[Losses, ...]:
    """Return the distinct distributions of a pair of directions."""
    return both[:1] if both[0] is both[1] else both


def hidden(parts: dict[Event, int]) -> float:
    """Return the probability that round-off may hide after composition."""
    return ROUND_OFF * sum(parts.values()) + 1e-13 * len(parts)


def trusted(lost: float, delta: float) -> bool:
    """Return whether the probability lost to round-off is negligible relative to delta."""
    return delta >= SMALLEST_DELTA and lost <= delta / 4


def compose(event: Event, variance: float) -> Composed | None:
    """Return the composed distribution; None where a part has none (Barker, parallel parts).

    variance: about the variance of its whole privacy loss (the divergence of order 2), to choose
    the grids; it decides accuracy, not soundness.
    """
    parts = leaves(event)
    if parts is None or not all(isinstance(leaf, _SUPPORTED) for leaf in parts):
        return None
    lost, many = hidden(parts), sum(parts.values())
    parts = _merged(parts)
    largest = _largest_loss(parts, variance)
    if many > MAX_COUNT or not math.isfinite(largest) or largest > LARGEST_TOTAL_LOSS:
        return None
    both = _compose(tuple(parts.items()), min(0.002 * math.sqrt(variance), 1e-3))
    return Composed(both, lost)


_SUPPORTED = (
    Gaussian,
    Laplace,
    PureEpsilon,
    SmoothLaplace,
    WithoutReplacement,
    PoissonSampled,
)


def _merged(parts: dict[Event, int]) -> dict[Event, int]:
    """Return the mechanisms with all Gaussian ones merged into one of equal cost."""
    kept: dict[Event, int] = {
        leaf: count for leaf, count in parts.items() if not isinstance(leaf, Gaussian)
    }
    plain = [leaf for leaf in parts if isinstance(leaf, Gaussian)]
    if not plain:
        return kept
    square = sum(parts[leaf] / Fraction(leaf.noise_multiplier) ** 2 for leaf in plain)
    mu = root_up(Fraction(square))
    return {Gaussian(math.nextafter(1 / mu, 0), plain[0].neighbouring): 1, **kept}


def _largest_loss(parts: dict[Event, int], variance: float) -> float:
    """Return about the range of losses that matter after composition, at least of each part."""
    alone = max(_largest_loss_of(leaf) for leaf in parts)
    return max(2 * alone, variance + 28 * math.sqrt(variance))


def _largest_loss_of(leaf: Event) -> float:
    """Return about the largest loss of one mechanism."""
    match leaf:
        case Gaussian(noise_multiplier=z):
            return _gaussian_largest_loss(z, 1.0)
        case PoissonSampled(event=Gaussian(noise_multiplier=z), rate=rate):
            return _gaussian_largest_loss(z, rate)
        case WithoutReplacement(event=Gaussian(noise_multiplier=z), batch=batch, rows=rows):
            return _gaussian_largest_loss(z, batch / rows)
        case _:
            return pair_of(leaf)[0]


def _gaussian_largest_loss(noise_multiplier: float, rate: float) -> float:
    """Return about the largest loss of a subsampled Gaussian."""
    base = epsilon_of_mu(1 / noise_multiplier, min(0.5, GRID_TAIL / rate))
    return amplified_epsilon(base, rate)


@lru_cache(maxsize=16)
def _compose(parts: tuple[tuple[Event, int], ...], widest: float) -> Both:
    """Return the composition of mechanisms, as a pair of directions."""
    cells = min(MOST_CELLS, WHOLE_CELLS // len(parts))
    first, *others = (_repeated(leaf, count, widest, cells) for leaf, count in parts)
    for other in others:
        first = _each(together, first, other)
    return first


def _each(act: Callable[..., Losses], *pairs: Both) -> Both:
    """Return `act` applied to both directions of neighbours, once where they are equal."""
    done = act(*(added for added, _ in pairs))
    same = all(added is other for added, other in pairs)
    return done, (done if same else act(*(removed for _, removed in pairs)))


@lru_cache(maxsize=8)
def _repeated(leaf: Event, count: int, widest: float, cells: int) -> Both:
    """Return the composition of one repeated mechanism, cached for calibrations."""
    pair = _distribution(leaf, _interval(leaf, widest, cells))
    return _each(lambda losses: repeated(losses, count, widest), pair)


def _interval(leaf: Event, widest: float, cells: int) -> float:
    """Return the grid interval: a small part of one run's sd, within the cell limit."""
    fine = min(0.05 * math.sqrt(rdp(leaf, 2.0)), widest)
    wanted = max(fine, _largest_loss_of(leaf) / cells, MIN_GRID)
    return float(2.0 ** math.floor(math.log2(wanted)))


def _distribution(leaf: Event, interval: float) -> Both:
    """Return the loss distribution of one mechanism, as a pair of directions."""
    match leaf:
        case Gaussian(noise_multiplier=z):
            losses = _gaussian_distribution(z, 1.0, interval)
        case PoissonSampled(event=Gaussian(noise_multiplier=z), rate=rate):
            return _poisson_distribution(z, rate, interval)
        case WithoutReplacement(event=Gaussian(noise_multiplier=z), batch=batch, rows=rows):
            losses = _gaussian_distribution(z, batch / rows, interval)
        case Laplace(noise_multiplier=z):
            losses = _laplace_distribution(pair_of(leaf)[0], interval)
        case _:
            losses = _pair_distribution(*pair_of(leaf), interval)
    return losses, losses


def _grid(largest: float, interval: float) -> FloatArray:
    """Return the grid 0, interval, ... up to the largest loss, at least to 2 * interval."""
    return interval * np.arange(max(2, math.ceil(largest / interval)) + 1, dtype=float)


def _gaussian_distribution(noise_multiplier: float, rate: float, interval: float) -> Losses:
    """Return the subsampled Gaussian's distribution, equal in both directions.

    At rate 1 that of a plain release.
    """
    epsilons = _grid(_gaussian_largest_loss(noise_multiplier, rate), interval)
    above = _amplified(noise_multiplier, rate, epsilons)
    return dotted(interval, above, above)


def _amplified(noise_multiplier: float, rate: float, epsilons: FloatArray) -> FloatArray:
    """Return the amplified profile, rate * base profile at ln(1 + (e^epsilon - 1) / rate)."""
    near = np.log1p(np.expm1(np.minimum(epsilons, LARGEST_EXPONENT)) / rate)
    far = (
        epsilons
        - math.log(rate)
        + np.log1p((rate - 1.0) * np.exp(-np.maximum(epsilons, LARGEST_EXPONENT)))
    )
    base = np.where(epsilons < LARGEST_EXPONENT, near, far)
    above: FloatArray = rate * _gaussian_profile(1 / noise_multiplier, base)
    return above


def _poisson_distribution(noise_multiplier: float, rate: float, interval: float) -> Both:
    """Return the distributions of removing and of adding a row (docs/proofs/composition.md)."""
    if rate == 1:
        losses = _gaussian_distribution(noise_multiplier, rate, interval)
        return losses, losses
    epsilons = _grid(_gaussian_largest_loss(noise_multiplier, rate), interval)
    above = _amplified(noise_multiplier, rate, epsilons)
    grown = np.expm1(np.minimum(epsilons, MAX_ADD_EPSILON))
    left = np.maximum(0.0, 1.0 - (1.0 - rate) / rate * grown)  # e^x g' of the proof
    inner = _gaussian_profile(1 / noise_multiplier, epsilons - np.log(np.maximum(left, 1e-300)))
    added = rate * left * inner
    return dotted(interval, above, added), dotted(interval, added, above)


def _laplace_distribution(pure: float, interval: float) -> Losses:
    """Return the distribution of Laplace noise: profile 1 - e^((epsilon - pure) / 2)."""
    epsilons = _grid(pure, interval)
    above = -np.expm1(np.minimum(epsilons - pure, 0.0) / 2)
    return dotted(interval, above, above)


def _pair_distribution(pure: float, delta: float, interval: float) -> Losses:
    """Return the distribution of randomised response that fails with probability delta."""
    epsilons = _grid(pure, interval)
    without_failure = -np.expm1(np.minimum(epsilons - pure, 0.0)) / (1 + math.exp(-pure))
    above = delta + (1 - delta) * without_failure
    return dotted(interval, above, above)


def _gaussian_profile(mu: float, epsilons: FloatArray) -> FloatArray:
    """Return delta_mu at an array of epsilons >= 0."""
    a = epsilons / mu - mu / 2
    if mu < SMALL:
        return _small_profile(mu, np.minimum(a, 40.0))  # beyond it nothing is left
    b = a + mu
    scaled = 0.5 * np.exp(-0.5 * a * a) * (erfcx(np.maximum(a, -1) / 2**0.5) - erfcx(b / 2**0.5))
    plain = np.exp(log_ndtr(-a)) - np.exp(epsilons + log_ndtr(-b))
    chosen: FloatArray = np.where(a > -1, scaled, plain)
    return chosen


def _small_profile(mu: float, a: FloatArray) -> FloatArray:
    """Return phi(a) (R(a) - R(a + mu)) by a Taylor series, which does not cancel.

    R' = a R - 1, and the derivatives R_k obey R_(k+1) = a R_k + k R_(k-1).
    """
    before = math.sqrt(math.pi / 2) * erfcx(a / 2**0.5)
    now, power = a * before - 1.0, mu
    fall = -power * now
    for k in range(1, TERMS):
        before, now, power = now, a * now + k * before, power * mu / (k + 1)
        fall = fall - power * now
    profile: FloatArray = np.exp(-0.5 * a * a) / math.sqrt(2 * math.pi) * fall
    return profile
