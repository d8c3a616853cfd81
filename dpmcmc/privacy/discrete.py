"""Exact discrete Gaussian noise, and releases of sums that carry it.

A statistic that leaves the house as a number must not carry rows in the low bits of a float
(Mironov 2012), so it is rounded to a grid and gets integer noise. The discrete Gaussian costs what
the continuous one costs: docs/proofs/gaussian_release.md, section 2.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LOSS = 1.0 - 2.0**-36  # of the multiplier: the proof's 2^-39, and the rounding of four operations
SPARE = 16.0  # of the variance, in grid units: what the proof's continuous Gaussian leaves over
FARTHEST = 2.0**51  # grid units within which a rounded quotient is off by less than 3/4


def log2_sd(noise_multiplier: float) -> int:
    """Return s, the noise of a release having sd 2^s in grid units. Fine enough for any sum."""
    return max(8, 20 + math.ceil(math.log2(noise_multiplier)))


def discrete_gaussian(random: RandomSource, log2_sd: int, shape: Shape) -> Integers:
    """Return independent integers with P(v) proportional to exp(-v^2 / (2 4^log2_sd)), exactly.

    Only uniform integers are drawn and compared. log2_sd: 1 to 61.
    With sd 2^s, |v| = 2^s (k + x), x = j / 2^s: k has weight exp(-k^2 / 2), j is uniform, and both
    are kept with probability exp(-k x - x^2 / 2). Source: Karney 2016, algorithm D; Canonne, Kamath
    and Steinke 2020, algorithm 1.
    """
    out = np.empty(int(np.prod(shape)), dtype=np.int64)
    left = np.arange(out.size)
    while left.size:
        whole, kept = _wholes(random, left.size)
        parts = random.integers(1 << log2_sd, (left.size,))
        for times in range(int(whole.max()) if whole.size else 0):
            kept = _kept(kept, whole > times, random, parts, log2_sd, 1)
        kept = _kept(kept, kept, random, parts, log2_sd, 2)
        negative = random.integers(2, (left.size,)) == 1
        values = (whole << log2_sd) + parts
        kept &= ~(negative & (values == 0))
        out[left[kept]] = np.where(negative, -values, values)[kept]
        left = left[~kept]
    return out.reshape(shape)


def _kept(
    kept: NDArray[np.bool_],
    asked: NDArray[np.bool_],
    random: RandomSource,
    parts: Integers,
    log2_sd: int,
    power: int,
) -> NDArray[np.bool_]:
    """Keep those asked with probability exp(-x), or exp(-x^2 / 2) for power 2; x = parts / 2^s."""
    where = np.flatnonzero(kept & asked)
    kept = kept.copy()
    kept[where] = _bernoulli_exp(random, parts[where], log2_sd, power)
    return kept


def _wholes(random: RandomSource, count: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return (k, kept): given kept, P(k) is proportional to exp(-k^2 / 2)."""
    whole = np.zeros(count, dtype=np.int64)
    going = np.arange(count)
    while going.size:  # geometric: weight exp(-k / 2)
        going = going[_bernoulli_half(random, going.size)]
        whole[going] += 1
    kept = np.ones(count, dtype=np.bool_)
    for times in range(int((whole * (whole - 1)).max()) if count else 0):
        where = np.flatnonzero(kept & (whole * (whole - 1) > times))
        if not where.size:
            break
        kept[where] = _bernoulli_half(random, where.size)
    return whole, kept


def _bernoulli_half(random: RandomSource, count: int) -> NDArray[np.bool_]:
    """Return True with probability exp(-1 / 2)."""
    return _bernoulli_exp(random, np.ones(count, dtype=np.int64), 1, 1)


def _bernoulli_exp(
    random: RandomSource, parts: Integers, digits: int, power: int
) -> NDArray[np.bool_]:
    """Return True with probability exp(-g): g = x for power 1, x^2 / 2 for 2, x = parts / 2^digits.

    Count k = 1, 2, ... while Bernoulli(g / k) succeeds; the k that fails is odd with that
    probability.
    """
    result = np.zeros(len(parts), dtype=np.bool_)
    going, k = np.arange(len(parts)), 1
    while going.size:
        success = np.ones(going.size, dtype=np.bool_)
        for _ in range(power):
            success &= random.integers(1 << digits, (going.size,)) < parts[going]
        success &= random.integers(power * k, (going.size,)) == 0
        result[going[~success]] = k % 2 == 1
        going, k = going[success], k + 1
    return result


def noisy_sums(
    sums: Floats, sensitivity: float, noise_multiplier: float, noise: Integers
) -> Floats:
    """Return sums (..., d) plus Gaussian noise of sd slightly above noise_multiplier * sensitivity.

    sensitivity: in the L2 norm of the last axis, replace-one. noise: of sums' shape, from
    discrete_gaussian at log2_sd(noise_multiplier), used once.
    Privacy: one Gaussian(noise_multiplier) event per vector; everything that depends on rows is the
    integer vector. Proof: docs/proofs/gaussian_release.md, section 2.
    """
    variance = 4.0 ** log2_sd(noise_multiplier)
    reach = LOSS * math.sqrt(variance - SPARE) / noise_multiplier
    grid = sensitivity / (reach - 1.5 * math.sqrt(sums.shape[-1]))
    units = np.rint(np.clip(sums / grid, -FARTHEST, FARTHEST)).astype(np.int64)
    return grid * np.asarray(units + noise, dtype=np.float64)
