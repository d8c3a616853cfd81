"""What the samplers on secret minibatches share: the batch, the event, and its calibration."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.errors import SpecError
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Event, Gaussian, Repeat, WithoutReplacement
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats

LEAST_NOISE, MOST_NOISE = 1e-3, 1e9
CLOSE = 1e-3  # how much of the noise a calibration may give away


def minibatch_event(options: Any, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian release on a secret fresh batch for every step of every chain.

    Proof: docs/proofs/dp_penalty_subsampled.md, docs/proofs/without_replacement.md.
    """
    if options.num_steps is None or options.num_chains is None or options.batch is None:
        raise ValueError("the numbers of steps and chains and the batch must be known")
    base = WithoutReplacement(Gaussian(noise_multiplier), options.batch, rows)
    return Repeat(base, options.num_steps * options.num_chains)


def batches(random: RandomSource, rows: int, batch: int, chains: int) -> NDArray[np.int64]:
    """Return (chain, batch) row numbers: a uniform subset for every chain, never released."""
    return np.stack([_subset(random, rows, batch) for _ in range(chains)])


def _subset(random: RandomSource, rows: int, batch: int) -> NDArray[np.int64]:
    """Return distinct row numbers. The first `batch` different ones of uniform draws."""
    if 2 * batch > rows:
        left = np.ones(rows, dtype=np.bool_)
        if batch < rows:
            left[_subset(random, rows, rows - batch)] = False
        return np.flatnonzero(left)
    drawn = random.integers(rows, (batch,))
    while True:
        values, first = np.unique(drawn, return_index=True)
        if len(values) >= batch:
            chosen: NDArray[np.int64] = values[np.argsort(first, kind="stable")[:batch]]
            return chosen
        drawn = np.concatenate((drawn, random.integers(rows, (batch,))))


def rounding(batch: int) -> float:
    """Return what float sums over a batch may add to a sensitivity, as a factor."""
    return 1.0 + math.ldexp(batch * batch, -51)


def check_batch(batch: int, rows: int) -> None:
    """Refuse a batch that no variance can be taken of, or that is larger than the data."""
    if rows < 2:
        raise SpecError("/dataset", "a batch needs at least 2 rows")
    if type(batch) is not int or not 2 <= batch <= rows:
        raise SpecError("/sampler/batch", f"must be a whole number between 2 and {rows}")


@lru_cache(maxsize=256)
def calibrated(count: int, batch: int, rows: int, epsilon: float, delta: float) -> float:
    """Return a noise multiplier at which `count` releases cost at most (epsilon, delta).

    At most CLOSE above the smallest. Raises SpecError where there is none.
    """

    def affordable(z: float) -> bool:
        happens = Repeat(WithoutReplacement(Gaussian(z), batch, rows), count)
        return accountant.epsilon(happens, delta) <= epsilon

    mu = accountant.mu_of_epsilon(epsilon, delta)
    z = min(max(batch / rows * math.sqrt(count) / mu, 2.0 * LEAST_NOISE), MOST_NOISE / 2.0)
    low, high = z, z
    while not affordable(high):
        low, high = high, 1.1 * high
        if high > MOST_NOISE:
            raise SpecError("/privacy/epsilon", "is too small for so many steps on batches")
    while low == high and affordable(low / 1.1) and low > LEAST_NOISE:
        low = high = low / 1.1
    low = low / 1.1 if low == high else low
    while high > low * (1.0 + CLOSE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if affordable(middle) else (middle, high)
    return high


def spread(sums: Floats, squares: Floats, batch: int) -> Floats:
    """Return (chain,) sums of squared deviations from a batch's mean; never below 0."""
    deviations: Floats = np.maximum(squares - sums * sums / batch, 0.0)
    return deviations
