"""Noisy sums of a Newton step: score, curvature and two scalars in one Gaussian event.

All of it passes through `release`. It assumes nothing of its input: any vectors are clipped here to
the caps. Proof: docs/proofs/noisy_quadratic.md, sections 1 and 2, and docs/proofs/sums.md.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.blocks import SomeBlocks, each
from dpmcmc.mechanisms.sums import (
    MOST_COEFFICIENTS,
    MOST_ROWS,
    Loops,
    Products,
    Vectors,
    columns_of,
    digits_of,
    isometry,
    loops_for,
    matrix_cells,
    matrix_of,
    release_sums,
    scalar_cells,
    upper,
    vector_cells,
)
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import NOISY_QUADRATIC

Floats = NDArray[np.float64]
COUNT_SCALE = math.sqrt(2.0)  # what the number of rows is divided by: see docs/proofs/missing.md
MIN_COUNT_SDS = 4.0  # sds of that number, below which it is not told from none
Units = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps on what one row may add, and the parts of the event spent on each sum.

    score: norm of its vector. curvature, noise: Frobenius norms of its two matrices. square: its
    scalar, which is not negative. shares: of the four, together at most 1; 0 where nothing is
    released. minus: of what a row's curvature has below zero; 0 where it is positive.
    """

    score: float
    curvature: float
    noise: float
    square: float
    shares: tuple[float, float, float, float]
    minus: float = 0.0

    @property
    def units(self) -> Units:
        """Return the divisors of the sums, so that a row's squared part is at most share / 2.

        A vector counts twice, for it may point anywhere: see the proof. inf: not released.
        """
        double = math.sqrt(2.0)
        return (
            _unit(2.0 * self.score, self.shares[0]),
            _unit(double * math.hypot(self.curvature, self.minus), self.shares[1]),
            _unit(double * self.noise, self.shares[2]),
            _unit(double * self.square, self.shares[3]),
        )


def _unit(size: float, share: float) -> float:
    """Return the divisor of a sum of rows of at most this size; infinity for a share of 0."""
    return size / math.sqrt(share) if share > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Block:
    """Statistics of some rows. vectors: (p, m). square: (m,).

    curvature, noise: each of (p, m each); a row's matrix is the sum of the squares of its `each`
    adjacent columns. counted: (m,), 1, or 0 for a row that is left out, all of which is then 0;
    None where no row may be. minus: as curvature, whose squares are subtracted from it.
    """

    vectors: Vectors
    curvature: tuple[Vectors, ...]
    noise: tuple[Vectors, ...]
    square: Floats
    counted: Floats | None = None
    minus: tuple[Vectors, ...] = ()

    def each(self, roots: tuple[Vectors, ...]) -> int:
        """Return how many columns of these roots a row has."""
        return columns_of(roots[0]) // columns_of(self.vectors) if roots else 1


@dataclass(frozen=True, slots=True)
class Sums:
    """Noisy sums. score: (p,). curvature, noise: (p, p). square: number. sds: of their noise.

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
    blocks: SomeBlocks[Block],
    dimension: int,
    rows: int,
    caps: Caps,
    z: float,
    random: RandomSource,
    *,
    gaps: bool = False,
    unit_rows: int = 1,
) -> Sums:
    """Return the noisy sums. Privacy: one Gaussian(z) event, replace-one, for any blocks.

    gaps: whether rows may be left out; their number is then released as well, and costs nothing:
    docs/proofs/missing.md, section 3. unit_rows: most rows of one unit of privacy.
    Raises ValueError for numbers for which the proof does not hold; they follow from public facts.
    """
    _check(dimension, rows, caps)
    grid, weights = _grids(dimension, caps.units, digits_of(rows), gaps=gaps)
    noisy, sd = release_sums(
        random,
        NOISY_QUADRATIC,
        each(partial(_cells, caps, digits_of(rows), gaps, loops_for(rows * dimension)), blocks),
        1.0 + rounding(dimension, rows),
        z,
        grid=grid,
        weights=weights,
        unit_rows=unit_rows,
    )
    sums = _read(noisy, dimension, caps.units, sd)
    if not gaps:
        return replace(sums, rows=float(rows))
    least = max(MIN_COUNT_SDS * sd * COUNT_SCALE, 1.0)
    count = min(max(float(noisy[-1]) * COUNT_SCALE, least), float(rows))
    return replace(sums, rows=count, rows_sd=sd * COUNT_SCALE)


def _cells(caps: Caps, digits: int, gaps: bool, loops: Loops, block: Block) -> Floats:
    """Return a block's sums, in whole grid cells of `_grids`."""
    units, scale = caps.units, 2.0**digits
    block = _without(block) if gaps else block
    loops = loops.once_each()
    parts = []
    if units[0] < math.inf:
        parts.append(vector_cells(block.vectors, caps.score, scale / units[0], loops))
    for roots, cap, unit, minus in (
        (block.curvature, caps.curvature, units[1], block.minus),
        (block.noise, caps.noise, units[2], ()),
    ):
        if unit < math.inf:
            fine, each = 2.0 ** (digits // 2), block.each(roots)
            flat = matrix_cells(roots, cap, unit, fine, minus, caps.minus, loops, each)
            parts.append(upper(flat))
    if units[3] < math.inf:
        parts.append(np.array([scalar_cells(block.square, caps.square, scale / units[3])]))
    if gaps:
        parts.append(np.array([scalar_cells(_ones(block), 1.0, scale / COUNT_SCALE)]))
    return np.concatenate(parts)


def _grids(d: int, units: Units, digits: int, *, gaps: bool) -> tuple[Floats, Floats]:
    """Return sizes of grid cells and weights of the entries of `_cells`, see release_sums."""
    fine, flat = 2.0**-digits, d * (d + 1) // 2
    grids = [np.full(d, fine), *(np.full(flat, 4.0 ** -(digits // 2)),) * 2, np.array([fine])]
    weights = [np.ones(d), isometry(d), isometry(d), np.ones(1)]
    used = [k for k, unit in enumerate(units) if unit < math.inf] + [3] * gaps
    return np.concatenate([grids[k] for k in used]), np.concatenate([weights[k] for k in used])


def _without(block: Block) -> Block:
    """Return the block with zeros in place of rows that are left out."""
    if block.counted is None:
        return block
    present = block.counted > 0.0

    def of(vectors: Vectors) -> Vectors:
        """Return vectors (p, m each) with zeros in place of those of rows that are left out."""
        kept = np.repeat(present, columns_of(vectors) // len(present))
        if isinstance(vectors, Products):
            return vectors.without(kept)
        return np.where(kept, vectors, 0.0)

    return Block(
        of(block.vectors),
        tuple(map(of, block.curvature)),
        tuple(map(of, block.noise)),
        np.where(present, block.square, 0.0) if len(block.square) else block.square,
        present.astype(np.float64),
        tuple(map(of, block.minus)),
    )


def _ones(block: Block) -> Floats:
    """Return (m,) ones for rows that count, zeros for others."""
    return np.ones(columns_of(block.vectors)) if block.counted is None else block.counted


def rounding(dimension: int, rows: int) -> float:
    """Return what rounding of weights above the diagonal adds to the sensitivity."""
    return rows * (dimension + 1.0) * 2.0**-50


def _check(dimension: int, rows: int, caps: Caps) -> None:
    """Refuse arguments outside the proof's assumptions."""
    sizes = (caps.score, caps.curvature, caps.noise, caps.square)
    if not (1 <= rows < MOST_ROWS and 1 <= dimension <= MOST_COEFFICIENTS):
        raise ValueError("too many rows or columns for exact sums")
    if not all(math.isfinite(size) and size > 0.0 for size in sizes):
        raise ValueError("caps must be positive and finite")
    if not 0.0 <= caps.minus <= caps.curvature:
        raise ValueError("caps of what is subtracted must be within those of curvatures")
    if not (min(caps.shares) >= 0.0 and math.fsum(caps.shares) <= 1.0):
        raise ValueError("the shares of an event must add up to at most 1")


def _read(noisy: Floats, d: int, units: Units, sd: float) -> Sums:
    """Return the noisy sums, scaled to the rows' units; zeros for what was not released."""
    sizes, parts, at = (d, d * (d + 1) // 2, d * (d + 1) // 2, 1), [], 0
    for size, unit in zip(sizes, units, strict=True):
        length = size if unit < math.inf else 0
        parts.append(noisy[at : at + length] * unit if length else np.zeros(size))
        at += length
    first, second, third, fourth = (sd * unit if unit < math.inf else 0.0 for unit in units)
    sds = first, second, third, fourth
    square = float(parts[3][0])
    return Sums(parts[0], matrix_of(parts[1], d), matrix_of(parts[2], d), square, sds, 0.0, 0.0)
