"""Clip rows, round them, add them up exactly, add noise: how sums over rows are released.

Rows come in blocks, however they were split. What a block adds is whole numbers of cells of a
public grid, which float64 adds exactly: sums of blocks can be made anywhere and added in any order.
Every release of sums goes through `release_sums`. Proof: docs/proofs/sums.md.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc.kernels.arithmetic.rounding import CLIP_MARGIN
from dpmcmc.privacy.discrete import gaussian_noise, noisy_sums
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import Site, check

Floats = NDArray[np.float64]
MOST_ROWS, MOST_COEFFICIENTS = 2**31, 250  # within which the proof holds
EXACT_BITS = 51  # of a sum


def release_sums(
    random: RandomSource,
    site: Site,
    blocks: Iterable[Floats],
    sensitivity: float,
    noise_multiplier: float,
    *,
    grid: ArrayLike = 1.0,
    weights: ArrayLike = 1.0,
    unit_rows: int = 1,
) -> tuple[Floats, float]:
    """Return (noisy sums (..., k), sd of their noise). Privacy: Gaussian(noise_multiplier) each.

    blocks: (..., k) of each block of rows, whole numbers of cells of the size `grid`, public, whose
    sums float64 holds. weights: public factors of the sums. Both are numbers, or (k,).
    sensitivity: most, in L2 norm of the last axis, that one replaced row changes weighted sums by,
    rounding of the weighting included. unit_rows: most rows of one unit of privacy; neighbours
    differ in all of them. No row is read at a multiplier that no proof covers: ValueError.
    """
    check(site, noise_multiplier)
    charged = unit_rows * sensitivity
    sums = np.asarray(grid) * added(blocks) * np.asarray(weights)
    noise = gaussian_noise(random, site, noise_multiplier, sums.shape)
    return noisy_sums(sums, charged, noise_multiplier, noise), noise_multiplier * charged


def added(blocks: Iterable[Floats]) -> Floats:
    """Return the sum of blocks of whole numbers: the same bits however rows were split."""
    total = np.zeros(())
    for block in blocks:
        total = total + block
    return total


def digits_of(rows: int) -> int:
    """Return the binary digits of a row's entry, at most 1 in size, with which sums are exact."""
    return EXACT_BITS - math.ceil(math.log2(rows + 1.0))


def vector_cells(vectors: Floats, cap: float, scale: float) -> Floats:
    """Return the sum (p,) of rows (p, m) clipped to norm cap, times scale, in whole numbers."""
    size = np.sqrt(np.einsum("pm,pm->m", vectors, vectors))
    return np.asarray(whole(vectors, clip_factor(size, cap) * scale).sum(axis=1))


def matrix_cells(
    roots: tuple[Floats, ...],
    cap: float,
    unit: float,
    scale: float,
    minus: tuple[Floats, ...] = (),
    most: float = 0.0,
) -> Floats:
    """Return the sum (p, p) of rows' matrices clipped to Frobenius norm cap, in whole numbers.

    A matrix of roots r, (p, m) each, has norm at most the sum of |r|^2: that is what is clipped.
    The sum is over unit, times scale^2. minus: roots whose squares are subtracted; they count in
    what is clipped to cap, and by themselves are clipped to most.
    """
    size = _sizes(roots)
    if minus:
        taken = _sizes(minus)
        clip = np.minimum(clip_factor(size + taken, cap), clip_factor(taken, most))
    else:
        clip = clip_factor(size, cap)
    factor = np.sqrt(clip / unit) * scale
    total = np.zeros((len(roots[0]), len(roots[0])))
    for root in roots:
        rounded = whole(root, factor)
        total += rounded @ rounded.T
    for root in minus:
        rounded = whole(root, factor)
        total -= rounded @ rounded.T
    return total


def _sizes(roots: tuple[Floats, ...]) -> Floats:
    """Return (m,), the sum of squared norms of roots (p, m)."""
    size = np.zeros(roots[0].shape[1])
    for root in roots:
        size += np.einsum("pm,pm->m", root, root)
    return size


def scalar_cells(values: Floats, cap: float, scale: float) -> float:
    """Return the sum of values (m,) clipped to [0, cap], times scale, in whole numbers."""
    clipped = np.fmin(np.fmax(np.nan_to_num(values, nan=0.0), 0.0), cap)
    return float(np.trunc(clipped * (CLIP_MARGIN * scale)).sum())


def clip_factor(size: Floats, cap: float) -> Floats:
    """Return (m,) factors that bring sizes to at most cap; 0 for what is no number."""
    with np.errstate(all="ignore"):
        factor = CLIP_MARGIN * np.minimum(1.0, cap / np.where(size > 0.0, size, 1.0))
    return np.where(np.isfinite(size), factor, 0.0)


def whole(vectors: Floats, scale: Floats) -> Floats:
    """Return vectors (p, m) times scale (m,), towards zero to whole numbers; 0 for a lost row."""
    with np.errstate(all="ignore"):
        return np.where(scale > 0.0, np.trunc(vectors * scale), 0.0)


def upper(matrix: Floats) -> Floats:
    """Return the diagonal of a symmetric matrix and what is above it, as a vector."""
    return np.asarray(matrix[..., *np.triu_indices(matrix.shape[-1])])


def isometry(d: int) -> Floats:
    """Return what `upper` is multiplied by to have the norm of its matrix (d, d)."""
    rows, columns = np.triu_indices(d)
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def svec(matrix: Floats) -> Floats:
    """Return symmetric matrices (..., d, d) as vectors of the same norm."""
    return np.asarray(upper(matrix) * isometry(matrix.shape[-1]))


def matrix_of(flat: Floats, d: int) -> Floats:
    """Return the symmetric matrices (..., d, d) that svec makes flat."""
    rows, columns = np.triu_indices(d)
    matrices = np.empty((*flat.shape[:-1], d, d))
    matrices[..., rows, columns] = flat / isometry(d)
    matrices[..., columns, rows] = matrices[..., rows, columns]
    return matrices
