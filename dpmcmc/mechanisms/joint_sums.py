"""The one place where `noisy_quadratic` adds noise: score, curvature and two scalars in one event.

All that `noisy_quadratic` releases passes through `release`. It assumes nothing of its input: any
vectors are clipped here to the caps, rounded to a grid on which sums are exact, and get noise.
Proof: docs/proofs/noisy_quadratic.md, sections 1 and 2.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.kernels.arithmetic.rounding import CLIP_MARGIN
from dpmcmc.privacy.discrete import gaussian_noise, noisy_sums
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import NOISY_QUADRATIC, check

Floats = NDArray[np.float64]
MOST_ROWS, MOST_COEFFICIENTS = 2**31, 250  # within which the proof holds
EXACT_BITS = 51  # of a sum
COUNT_SCALE = math.sqrt(2.0)  # what the number of rows is divided by: see docs/proofs/missing.md
MIN_COUNT_SDS = 4.0  # sds of that number, below which it is not told from none


@dataclass(frozen=True, slots=True)
class Caps:
    """What one row may add, and the parts of the event that pay for it.

    score: norm of its vector. curvature, noise: Frobenius norms of its two matrices. square: its
    scalar, which is not negative. shares: of the four, together at most 1; 0 where nothing is
    released.
    """

    score: float
    curvature: float
    noise: float
    square: float
    shares: tuple[float, float, float, float]

    @property
    def units(self) -> tuple[float, float, float, float]:
        """Return what each is divided by, so that a row's squared part is at most share / 2.

        A vector counts twice, for it may point anywhere: see the proof. inf: not released.
        """
        double = math.sqrt(2.0)
        return (
            _unit(2.0 * self.score, self.shares[0]),
            _unit(double * self.curvature, self.shares[1]),
            _unit(double * self.noise, self.shares[2]),
            _unit(double * self.square, self.shares[3]),
        )


def _unit(size: float, share: float) -> float:
    return size / math.sqrt(share) if share > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows. vectors: (p, m). square: (m,).

    curvature, noise: each of (p, m); a row's matrix is the sum of their squares. counted: (m,), 1,
    or 0 for a row that is left out, all of which is then 0; None where no row may be.
    """

    vectors: Floats
    curvature: tuple[Floats, ...]
    noise: tuple[Floats, ...]
    square: Floats
    counted: Floats | None = None


@dataclass(frozen=True, slots=True)
class Sums:
    """Released. score: (p,). curvature, noise: (p, p). square: a number. sds: of their noise.

    Of a matrix, in the isometry that doubles the squares above the diagonal. rows: how many there
    are, or about how many were not left out, with noise of this sd.
    """

    score: Floats
    curvature: Floats
    noise: Floats
    square: float
    sds: tuple[float, float, float, float]
    rows: float
    rows_sd: float


def release(
    blocks: Iterable[Block],
    dimension: int,
    rows: int,
    caps: Caps,
    z: float,
    random: RandomSource,
    *,
    gaps: bool = False,
) -> Sums:
    """Return the noisy sums. Privacy: one Gaussian(z) event, replace-one, for any blocks.

    gaps: whether rows may be left out; their number is then released as well, and costs nothing:
    docs/proofs/missing.md, section 3.
    Raises ValueError for numbers for which the proof does not hold; they follow from public facts.
    """
    _check(dimension, rows, caps)
    check(NOISY_QUADRATIC, z)  # before a row is read
    units, digits = caps.units, _digits(rows)
    vector, square, count = np.zeros(dimension), 0.0, 0.0
    first, second = np.zeros((dimension, dimension)), np.zeros((dimension, dimension))
    for block in blocks:
        block = _without(block) if gaps else block
        count += _scalar_sum(_ones(block), 1.0, COUNT_SCALE, digits)
        vector += _vector_sum(block.vectors, caps.score, units[0], digits)
        first += _matrix_sum(block.curvature, caps.curvature, units[1], digits // 2)
        second += _matrix_sum(block.noise, caps.noise, units[2], digits // 2)
        square += _scalar_sum(block.square, caps.square, units[3], digits)
    parts = (vector, _flat(first), _flat(second), np.array([square]))
    known = [part for part, unit in zip(parts, units, strict=True) if unit < math.inf]
    flat = np.concatenate([*known, [count]] if gaps else known)
    sensitivity = 1.0 + rounding(dimension, rows)
    noise = gaussian_noise(random, NOISY_QUADRATIC, z, flat.shape)
    noisy, sd = noisy_sums(flat, sensitivity, z, noise), z * sensitivity
    found = _read(noisy, dimension, units, sd)
    if not gaps:
        return replace(found, rows=float(rows))
    least = max(MIN_COUNT_SDS * sd * COUNT_SCALE, 1.0)
    there = min(max(float(noisy[-1]) * COUNT_SCALE, least), float(rows))
    return replace(found, rows=there, rows_sd=sd * COUNT_SCALE)


def _without(block: Block) -> Block:
    """Return the block with 0 in the place of rows that are left out."""
    if block.counted is None:
        return block
    there = block.counted > 0.0
    return Block(
        np.where(there, block.vectors, 0.0),
        tuple(np.where(there, part, 0.0) for part in block.curvature),
        tuple(np.where(there, part, 0.0) for part in block.noise),
        np.where(there, block.square, 0.0) if len(block.square) else block.square,
        there.astype(np.float64),
    )


def _ones(block: Block) -> Floats:
    return np.ones(block.vectors.shape[1]) if block.counted is None else block.counted


def rounding(dimension: int, rows: int) -> float:
    """Return what the weights above the diagonal may add to the sensitivity by rounding."""
    return rows * (dimension + 1.0) * 2.0**-50


def _check(dimension: int, rows: int, caps: Caps) -> None:
    """Refuse what the proof does not cover."""
    sizes = (caps.score, caps.curvature, caps.noise, caps.square)
    if not (1 <= rows < MOST_ROWS and 1 <= dimension <= MOST_COEFFICIENTS):
        raise ValueError("too many rows or columns for exact sums")
    if not all(math.isfinite(size) and size > 0.0 for size in sizes):
        raise ValueError("caps must be positive and finite")
    if not (min(caps.shares) >= 0.0 and math.fsum(caps.shares) <= 1.0):
        raise ValueError("the shares of an event must add up to at most 1")


def _digits(rows: int) -> int:
    """Return the binary digits of a row's entry, at most 1 in size, with which sums are exact."""
    return EXACT_BITS - math.ceil(math.log2(rows + 1.0))


def _vector_sum(vectors: Floats, cap: float, unit: float, digits: int) -> Floats:
    """Return the sum of rows cut to norm cap, in its unit, exact on the grid 2^-digits."""
    if unit == math.inf:
        return np.zeros(len(vectors))
    size = np.sqrt(np.einsum("pm,pm->m", vectors, vectors))
    return _grid_sum(vectors, _factor(size, cap) * (2.0**digits / unit)) * 2.0**-digits


def _matrix_sum(roots: tuple[Floats, ...], cap: float, unit: float, digits: int) -> Floats:
    """Return the sum of rows' matrices cut to Frobenius norm cap, in its unit, exact on a grid.

    A matrix of roots r has norm at most the sum of |r|^2: that is what is cut.
    """
    if unit == math.inf:
        return np.zeros(())
    size = np.zeros(roots[0].shape[1])
    for root in roots:
        size += np.einsum("pm,pm->m", root, root)
    scale = np.sqrt(_factor(size, cap) / unit) * 2.0**digits
    found = np.zeros((len(roots[0]), len(roots[0])))
    for root in roots:
        whole = _rounded(root, scale)
        found += whole @ whole.T
    return found * 2.0 ** (-2 * digits)


def _scalar_sum(values: Floats, cap: float, unit: float, digits: int) -> float:
    """Return the sum of values cut to [0, cap], in its unit, exact on the grid 2^-digits."""
    if unit == math.inf:
        return 0.0
    cut = np.fmin(np.fmax(np.nan_to_num(values, nan=0.0), 0.0), cap)
    return float(np.trunc(cut * (CLIP_MARGIN * 2.0**digits / unit)).sum()) * 2.0**-digits


def _factor(size: Floats, cap: float) -> Floats:
    """Return (m,) factors that bring sizes to at most cap; 0 for what is no number."""
    with np.errstate(all="ignore"):
        factor = CLIP_MARGIN * np.minimum(1.0, cap / np.where(size > 0.0, size, 1.0))
    return np.where(np.isfinite(size), factor, 0.0)


def _rounded(vectors: Floats, scale: Floats) -> Floats:
    """Return vectors (p, m) times scale (m,), towards zero to whole numbers; 0 for a lost row."""
    with np.errstate(all="ignore"):
        return np.where(scale > 0.0, np.trunc(vectors * scale), 0.0)


def _grid_sum(vectors: Floats, scale: Floats) -> Floats:
    return np.asarray(_rounded(vectors, scale).sum(axis=1))


def _flat(matrix: Floats) -> Floats:
    """Return a symmetric matrix as a vector of the same norm."""
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * _doubled(rows, columns))


def _doubled(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def _read(noisy: Floats, d: int, units: tuple[float, float, float, float], sd: float) -> Sums:
    """Return noisy numbers in the units of the rows; zeros for what was not released."""
    sizes, found, at = (d, d * (d + 1) // 2, d * (d + 1) // 2, 1), [], 0
    for size, unit in zip(sizes, units, strict=True):
        here = size if unit < math.inf else 0
        found.append(noisy[at : at + here] * unit if here else np.zeros(size))
        at += here
    first, second, third, fourth = (sd * unit if unit < math.inf else 0.0 for unit in units)
    sds = first, second, third, fourth
    square = float(found[3][0])
    return Sums(found[0], _square(found[1], d), _square(found[2], d), square, sds, 0.0, 0.0)


def _square(flat: Floats, d: int) -> Floats:
    """Return the symmetric matrix (d, d) that `_flat` makes flat."""
    rows, columns = np.triu_indices(d)
    matrix = np.empty((d, d))
    matrix[rows, columns] = flat / _doubled(rows, columns)
    matrix[columns, rows] = matrix[rows, columns]
    return matrix
