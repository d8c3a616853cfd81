"""Exact discrete Gaussian noise. All Gaussian privacy noise is drawn here.

A statistic that leaves the house as a number must not carry rows in the low bits of a float
(Mironov 2012), and noise from floats has no tails. So what is released, and what a decision is made
of, is rounded to a grid and gets integer noise, which costs what the continuous Gaussian costs:
docs/proofs/gaussian_release.md, section 2.
"""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.loading import loaded
from dpmcmc.kernels.arithmetic import noise
from dpmcmc.kernels.arithmetic.rounding import noised
from dpmcmc.privacy.drawn import Metered
from dpmcmc.privacy.noise import RandomSource, Shape
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER, Site, check

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# of the multiplier: the proof's 2^-39, and the rounding of four operations
SIGMA_MARGIN = 1.0 - 2.0**-36
# of the variance, in grid units: what the proof's continuous Gaussian leaves over
SPARE_VARIANCE = 16.0
WORDS, SOME = 18, 200  # of a tape: a draw takes 16.7 words on average
TAPE_DRAWS = 2048  # draws of a tape that stays in the cache
# number of draws that plain Python makes in the time that loading the compiler takes
PLAIN_PYTHON_DRAWS, COMPILED = 4096, "dpmcmc.kernels.compiled.noise"
COARSEST, FINEST = 8, 46  # log2 of the noise's sd in grid cells
LEAST_LOG2_SD, MOST_LOG2_SD = 1, 50  # above, a draw of 2^13 sds would not fit 64 bits
LEAST_SENSITIVITY, MOST_SENSITIVITY = 1e-250, 1e250


class Scale(NamedTuple):
    """How integer noise relates to a sensitivity.

    unit: size of a grid cell over the sensitivity. sd: of the noise, in cells.
    """

    unit: float
    sd: float


def log2_sd(noise_multiplier: float) -> int:
    """Return s: noise has sd 2^s in grid units, which is fine enough for any sum."""
    return min(max(COARSEST, 20 + math.ceil(math.log2(noise_multiplier))), FINEST)


def scale_of(noise_multiplier: float, dimension: int = 1) -> Scale:
    """Return the scale of noise for vectors of this dimension.

    A grid cell is sensitivity * unit. The noise then has an sd slightly above noise_multiplier *
    sensitivity. Raises ValueError for multipliers that docs/proofs/gaussian_release.md leaves out.
    """
    if not LEAST_MULTIPLIER <= noise_multiplier <= MOST_MULTIPLIER:
        raise ValueError("no noise of this multiplier is drawn")
    log2 = log2_sd(noise_multiplier)
    ratio = SIGMA_MARGIN * math.sqrt(4.0**log2 - SPARE_VARIANCE) / noise_multiplier
    return Scale(1.0 / (ratio - 1.5 * math.sqrt(dimension)), 2.0**log2)


def gaussian_noise(
    random: RandomSource, site: Site, noise_multiplier: float, shape: Shape
) -> Integers:
    """Draw the integers of shape `shape` that a site adds to its statistics in grid cells.

    The one door to privacy noise. Raises ValueError where the site is not registered, its proof
    does not hold at this multiplier, or a metered source has no such draw left: then nothing is
    drawn and nothing can be released.
    """
    check(site, noise_multiplier)
    if isinstance(random, Metered):
        random.admit(noise_multiplier, shape)
    return discrete_gaussian(random, log2_sd(noise_multiplier), shape)


def discrete_gaussian(random: RandomSource, log2_sd: int, shape: Shape) -> Integers:
    """Return independent integers with P(v) proportional to exp(-v^2 / (2 4^log2_sd)), exactly.

    Only uniform integers are drawn and compared. log2_sd: 1 to 50. How long it takes depends on the
    random words alone. Source: Karney 2016, algorithm D; Canonne, Kamath and Steinke 2020,
    algorithm 1. Raises ValueError on another log2_sd.
    """
    if not LEAST_LOG2_SD <= log2_sd <= MOST_LOG2_SD:
        raise ValueError(f"log2_sd must lie between {LEAST_LOG2_SD} and {MOST_LOG2_SD}")
    out = np.empty(int(np.prod(shape)), dtype=np.int64)
    tape, done, fill = np.empty(0, dtype=np.int64), 0, _filler(out.size)
    while done < out.size:
        wanted = min(out.size - done, TAPE_DRAWS)
        fresh = random.integers(1 << noise.BITS, (WORDS * wanted + SOME,))
        tape = np.concatenate((tape, fresh))
        done, used = fill(tape, log2_sd, out, done)
        tape = tape[used:]  # a draw that was begun goes on with the words that it has seen
    return out.reshape(shape)


def _filler(size: int) -> Any:
    """Return discrete_gaussians: compiled if the compiler is there or size is large."""
    if "dpmcmc.kernels.compiled" in sys.modules or size > PLAIN_PYTHON_DRAWS:
        return loaded(COMPILED).discrete_gaussians
    return lambda tape, *given: noise.discrete_gaussians(tape.tolist(), *given)


def noisy_grid(dimension: int, sensitivity: float, noise_multiplier: float) -> float:
    """Return the grid to which `noised` rounds a vector of this dimension; see noisy_sums.

    Raises ValueError on a sensitivity with which float arithmetic would lose the noise.
    """
    if not LEAST_SENSITIVITY <= sensitivity <= MOST_SENSITIVITY:
        raise ValueError("no noise is drawn for such a sensitivity")
    return sensitivity * scale_of(noise_multiplier, dimension).unit


def noisy_sums(
    sums: Floats, sensitivity: float, noise_multiplier: float, noise: Integers
) -> Floats:
    """Return sums (..., d) plus Gaussian noise of sd slightly above noise_multiplier * sensitivity.

    sensitivity: in the L2 norm of the last axis, replace-one. noise: of sums' shape, from
    gaussian_noise at the same multiplier, used once.
    Privacy: one Gaussian(noise_multiplier) event per vector; everything that depends on rows is the
    integer vector. Proof: docs/proofs/gaussian_release.md, section 2.
    """
    grid = noisy_grid(sums.shape[-1], sensitivity, noise_multiplier)
    return np.asarray(noised(sums, grid, noise))
