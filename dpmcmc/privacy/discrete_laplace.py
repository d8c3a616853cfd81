"""Exact discrete Laplace noise and exact random flips, by comparing uniform integers.

As in `dpmcmc.privacy.discrete`, what privacy rests on is an integer.
Proof: docs/proofs/statistics.md.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape
from dpmcmc.privacy.sites import Site, check

Integers = NDArray[np.int64]
COARSEST, FINEST = 11, 50  # log2 of the noise's scale in grid cells
LARGEST_SCALE = 2**51  # a draw of 2^11 scales still fits 64 bits
FLIP_BITS = 62


def log2_scale(noise_multiplier: float) -> int:
    """Return s: noise has scale 2^s in grid cells."""
    return min(max(COARSEST, 31 + math.floor(math.log2(noise_multiplier))), FINEST)


def cells(noise_multiplier: float) -> int:
    """Return the sensitivity in grid cells at which noise of scale 2^s has this multiplier.

    Laplace(noise_multiplier) covers it: (D + 2) noise_multiplier <= 2^s.
    """
    return math.floor((1 << log2_scale(noise_multiplier)) / Fraction(noise_multiplier)) - 2


def laplace_noise(
    random: RandomSource, site: Site, noise_multiplier: float, scale: int, shape: Shape
) -> Integers:
    """Draw the integers of discrete Laplace noise that a site adds to its statistics in cells.

    noise_multiplier: what the release is charged as. Raises ValueError where the site is not
    registered, or its proof does not hold at this multiplier.
    """
    check(site, noise_multiplier)
    return discrete_laplace(random, scale, shape)


def flips(random: RandomSource, site: Site, epsilon: float, shape: Shape) -> NDArray[np.bool_]:
    """Draw which answers a site flips, independently with probability flip_share(epsilon).

    Raises ValueError where the site is not registered, or its proof does not hold at 1 / epsilon.
    """
    check(site, 1.0 / epsilon)
    below: NDArray[np.bool_] = random.integers(1 << FLIP_BITS, shape) < _threshold(epsilon)
    return below


def flip_share(epsilon: float) -> float:
    """Return the probability of a flip: 1 / (1 + e^epsilon), rounded up to a multiple of 2^-62."""
    return _threshold(epsilon) / (1 << FLIP_BITS)


def _threshold(epsilon: float) -> int:
    """Return the number of 62-bit words that mean a flip."""
    exact = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    return min(
        math.ceil(Fraction(exact * (1.0 + 2.0**-40)) * (1 << FLIP_BITS)), 1 << (FLIP_BITS - 1)
    )


def discrete_laplace(random: RandomSource, scale: int, shape: Shape) -> Integers:
    """Return independent integers with P(v) proportional to exp(-|v| / scale), exactly.

    scale: whole, 1 to 2^51. Source: Canonne, Kamath and Steinke 2020, algorithm 2. Raises
    ValueError on another scale.
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise ValueError(f"the scale must lie between 1 and {LARGEST_SCALE}")
    out = np.empty(int(np.prod(shape)), np.int64)
    wanted = np.arange(out.size)
    while wanted.size:
        drawn, good = _proposed(random, scale, wanted.size)
        out[wanted[good]] = drawn[good]
        wanted = wanted[~good]
    return out.reshape(shape)


def _proposed(random: RandomSource, scale: int, count: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return signed proposals and whether each is accepted; -0 is not, so that 0 counts once."""
    rest = random.integers(scale, (count,))
    good = _exponential_coins(random, rest, scale)
    size = rest + scale * _wholes(random, count)
    negative = random.integers(2, (count,)) == 1
    return np.where(negative, -size, size), good & ~(negative & (size == 0))


def _wholes(random: RandomSource, count: int) -> Integers:
    """Return integers v with P(v) proportional to e^-v."""
    out = np.zeros(count, np.int64)
    going = np.arange(count)
    while going.size:
        ones = np.ones(going.size, np.int64)
        going = going[_exponential_coins(random, ones, 1)]
        out[going] += 1
    return out


def _exponential_coins(random: RandomSource, parts: Integers, whole: int) -> NDArray[np.bool_]:
    """Return True with probability exp(-parts / whole), 0 <= parts <= whole.

    Source: von Neumann 1951; CKS20, algorithm 1.
    """
    failed_at = np.ones(parts.size, np.int64)
    going, k = np.arange(parts.size), 1
    while going.size:
        heads = random.integers(whole, (going.size,)) < parts[going]
        heads &= random.integers(k, (going.size,)) == 0
        going, k = going[heads], k + 1
        failed_at[going] = k
    return np.asarray(failed_at % 2 == 1)
