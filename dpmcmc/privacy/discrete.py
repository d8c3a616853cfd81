"""Exact discrete Gaussian noise, and releases of sums that carry it.

A statistic that leaves the house as a number must not carry rows in the low bits of a float
(Mironov 2012), so it is rounded to a grid and gets integer noise. The discrete Gaussian costs what
the continuous one costs: docs/proofs/gaussian_release.md, section 2.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LOSS = 1.0 - 2.0**-36  # of the multiplier: the proof's 2^-39, and the rounding of four operations
SPARE = 16.0  # of the variance, in grid units: what the proof's continuous Gaussian leaves over
WORDS, SOME = 18, 200  # of a tape: a draw takes 16.7 words on average
AT_ONCE = 2048  # draws of a tape that stays in the cache
FARTHEST = 2.0**51  # grid units within which a rounded quotient is off by less than 3/4


def log2_sd(noise_multiplier: float) -> int:
    """Return s, the noise of a release having sd 2^s in grid units. Fine enough for any sum."""
    return max(8, 20 + math.ceil(math.log2(noise_multiplier)))


def discrete_gaussian(random: RandomSource, log2_sd: int, shape: Shape) -> Integers:
    """Return independent integers with P(v) proportional to exp(-v^2 / (2 4^log2_sd)), exactly.

    Only uniform integers are drawn and compared. log2_sd: 1 to 61. How long it takes depends on the
    random words alone. Source: Karney 2016, algorithm D; Canonne, Kamath and Steinke 2020,
    algorithm 1.
    """
    from dpmcmc.kernels import noise

    out = np.empty(int(np.prod(shape)), dtype=np.int64)
    tape, done = np.empty(0, dtype=np.int64), 0
    while done < out.size:
        wanted = min(out.size - done, AT_ONCE)
        fresh = random.integers(1 << noise.BITS, (WORDS * wanted + SOME,))
        tape = np.concatenate((tape, fresh))
        done, used = noise.discrete_gaussians(tape, log2_sd, out, done)
        tape = tape[used:]  # a draw that was begun goes on with the words that it has seen
    return out.reshape(shape)


def noisy_grid(dimension: int, sensitivity: float, noise_multiplier: float) -> float:
    """Return what `noised` rounds a vector of this dimension to; see noisy_sums."""
    variance = 4.0 ** log2_sd(noise_multiplier)
    reach = LOSS * math.sqrt(variance - SPARE) / noise_multiplier
    return sensitivity / (reach - 1.5 * math.sqrt(dimension))


def noised(total: Any, grid: float, noise: Any) -> Any:
    """Return a number, rounded to the grid and with integer noise. Arithmetic alone: it compiles.

    total, noise: numbers, or arrays of them.
    """
    units = np.rint(np.minimum(np.maximum(total / grid, -FARTHEST), FARTHEST))
    return grid * np.float64(np.int64(units) + noise)


def noisy_sums(
    sums: Floats, sensitivity: float, noise_multiplier: float, noise: Integers
) -> Floats:
    """Return sums (..., d) plus Gaussian noise of sd slightly above noise_multiplier * sensitivity.

    sensitivity: in the L2 norm of the last axis, replace-one. noise: of sums' shape, from
    discrete_gaussian at log2_sd(noise_multiplier), used once.
    Privacy: one Gaussian(noise_multiplier) event per vector; everything that depends on rows is the
    integer vector. Proof: docs/proofs/gaussian_release.md, section 2.
    """
    grid = noisy_grid(sums.shape[-1], sensitivity, noise_multiplier)
    return np.asarray(noised(sums, grid, noise))
