"""Noisy sums of a joint step: score and arrow-shaped curvature of coefficients and groups.

Each row is in one cell at most. Its score is psi u and its curvature w u u^T, where u has the row's
d covariates and, in the places of its cell, k numbers. Most of the curvature of all rows is then 0
whatever the rows: what is released are the d (d + 1) / 2 numbers of covariates, d k for each cell
and the cell's own k (k + 1) / 2. It assumes nothing of its input: any row is clipped here to the
caps. Proof: docs/proofs/noisy_quadratic.md, section 7, and docs/proofs/sums.md.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.blocks import SomeBlocks, each
from dpmcmc.mechanisms.joint_sums import rounding
from dpmcmc.mechanisms.sums import (
    MOST_COEFFICIENTS,
    MOST_ROWS,
    clip_factor,
    digits_of,
    isometry,
    matrix_of,
    release_sums,
    scalar_cells,
    upper,
    whole,
)
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import GROUPED_QUADRATIC

Floats = NDArray[np.float64]
Parts = tuple[float, float, float, float, float]
MOST_CELLS = 2000  # times places of each, within which the proof holds


@dataclass(frozen=True, slots=True)
class ArrowCaps:
    """Caps on what one row may add, and the parts of the event spent on each sum.

    score: length of its vector. curvature: Frobenius norm of its matrix. square: its scalar, which
    is not negative. lengths: (k,), how many rows are longer than each is counted. shares: of the
    four and of the number of rows, together at most 1; 0 where nothing is released.
    """

    score: float
    curvature: float
    square: float
    lengths: Floats
    shares: Parts

    @property
    def units(self) -> Parts:
        """Return the divisors of the sums, so that a replaced row moves each by at most its share.

        In squares. A vector counts twice, for it may point anywhere; matrices and numbers that are
        not negative move by at most the root of two: see the proof.
        """
        double = math.sqrt(2.0)
        sizes = (
            2.0 * self.score,
            double * self.curvature,
            double * self.square,
            math.sqrt(max(len(self.lengths), 1)),
            1.0,
        )
        each = [
            size / math.sqrt(share) if share > 0.0 else math.inf
            for size, share in zip(sizes, self.shares, strict=True)
        ]
        return each[0], each[1], each[2], each[3], each[4]


@dataclass(frozen=True, slots=True)
class ArrowBlock:
    """Some rows. covariates: (d, m). cells: (m,) of 0 to g - 1, or -1 for a row of none.

    own: (k, m), what u has in the places of the cell. psi, slope, square: (m,), slope not negative.
    counted: (m,), 1, or 0 for a row that is left out, which adds nothing.
    """

    covariates: Floats
    cells: NDArray[np.int64]
    own: Floats
    psi: Floats
    slope: Floats
    square: Floats
    counted: Floats


@dataclass(frozen=True, slots=True)
class ArrowSums:
    """Noisy sums. score: (d,), and (k g,) of cells: of their first places, then of the others.

    curvature: (d, d), (d, k g) and (h g,) of cells, h = k (k + 1) / 2 pairs of places in order.
    square: a number. longer: (k,) rows. rows: a number. All with noise: score_sd; curvature_sd, of
    the diagonals, while what stands twice in the matrix has it over the root of two;
    square_sd, longer_sd, rows_sd. Those of what was not released are 0, as it is.
    """

    score: Floats
    cell_score: Floats
    curvature: Floats
    border: Floats
    cell_curvature: Floats
    square: float
    longer: Floats
    rows: float
    score_sd: float
    curvature_sd: float
    square_sd: float
    longer_sd: float
    rows_sd: float


def release(
    blocks: SomeBlocks[ArrowBlock],
    size: tuple[int, int, int],
    rows: int,
    caps: ArrowCaps,
    z: float,
    random: RandomSource,
) -> ArrowSums:
    """Return the noisy sums. Privacy: one Gaussian(z) event, replace-one, for any blocks.

    size: numbers of covariates, of cells and of places of each. Raises ValueError for numbers for
    which the proof does not hold; they follow from public facts.
    """
    _check(size, rows, caps)
    digits = digits_of(rows)
    grid, weights = _grids(size, caps, digits)
    noisy, sd = release_sums(
        random,
        GROUPED_QUADRATIC,
        each(partial(_cells, size, caps, digits), blocks),
        1.0 + rounding(size[0] + size[1] * size[2], rows),
        z,
        grid=grid,
        weights=weights,
    )
    return _read(noisy, size, caps, sd)


def _check(size: tuple[int, int, int], rows: int, caps: ArrowCaps) -> None:
    """Refuse arguments outside the proof's assumptions."""
    d, g, k = size
    in_range = min(size) >= 1 and d + k <= MOST_COEFFICIENTS and g * k <= MOST_CELLS
    if not (1 <= rows < MOST_ROWS and in_range):
        raise ValueError("too many rows or columns for exact sums")
    sizes = (caps.score, caps.curvature, caps.square)
    if not all(math.isfinite(size) and size > 0.0 for size in sizes):
        raise ValueError("caps must be positive and finite")
    if not (min(caps.shares) >= 0.0 and math.fsum(caps.shares) <= 1.0):
        raise ValueError("the shares of an event must add up to at most 1")


def _sizes(size: tuple[int, int, int], caps: ArrowCaps) -> tuple[int, ...]:
    """Return the number of entries of each part of the event."""
    d, g, k = size
    matrix = d * (d + 1) // 2 + d * k * g + k * (k + 1) // 2 * g
    every = (d + k * g, matrix, 1, len(caps.lengths), 1)
    return tuple(
        count if unit < math.inf else 0 for count, unit in zip(every, caps.units, strict=True)
    )


def _grids(size: tuple[int, int, int], caps: ArrowCaps, digits: int) -> tuple[Floats, Floats]:
    """Return sizes of grid cells and weights of the entries of `_cells`, see release_sums."""
    d, g, k = size
    fine, product = 2.0**-digits, 4.0 ** -(digits // 2)
    border = np.full(d * k * g, math.sqrt(2.0))
    matrix = np.concatenate((isometry(d), border, np.repeat(isometry(k), g)))
    kinds = [
        (fine, np.ones(d + k * g)),
        (product, matrix),
        (fine, np.ones(1)),
        (fine, np.ones(len(caps.lengths))),
        (fine, np.ones(1)),
    ]
    used = [kind for kind, count in zip(kinds, _sizes(size, caps), strict=True) if count]
    grids = [np.full(len(weights), cell) for cell, weights in used]
    return np.concatenate(grids), np.concatenate([weights for _, weights in used])


def _cells(size: tuple[int, int, int], caps: ArrowCaps, digits: int, block: ArrowBlock) -> Floats:
    """Return a block's sums, in whole grid cells of `_grids`."""
    _, g, k = size
    units, scale = caps.units, 2.0**digits
    present = (block.counted > 0.0) & (block.cells >= 0) & (block.cells < g)
    x = np.where(present, block.covariates, 0.0)
    cells, own = np.where(present, block.cells, 0), np.where(present, block.own, 0.0)
    psi, slope = (np.where(present, part, 0.0) for part in (block.psi, block.slope))
    with np.errstate(all="ignore"):
        squared = np.einsum("dm,dm->m", x, x) + np.einsum("km,km->m", own, own)
        length = np.abs(psi) * np.sqrt(squared)
        root = np.sqrt(np.maximum(slope, 0.0))
    parts = []
    if units[0] < math.inf:
        factor = clip_factor(length, caps.score) * (scale / units[0])
        parts.append(whole(x * psi, factor).sum(axis=1))
        parts += [_by_cell(cells, row, g) for row in whole(own * psi, factor)]
    if units[1] < math.inf:
        clip = clip_factor(root * root * squared, caps.curvature)
        factor = np.sqrt(clip / units[1]) * 2.0 ** (digits // 2)
        rounded, mine = whole(x * root, factor), whole(own * root, factor)
        parts.append(upper(rounded @ rounded.T))
        parts += [_by_cell(cells, row * place, g) for row in rounded for place in mine]
        pairs = zip(*np.triu_indices(k), strict=True)
        parts += [_by_cell(cells, mine[i] * mine[j], g) for i, j in pairs]
    if units[2] < math.inf:
        square = np.where(present, block.square, 0.0)
        parts.append(np.array([scalar_cells(square, caps.square, scale / units[2])]))
    if units[3] < math.inf:
        longer = np.array(
            [(present & (length > least)).sum() for least in caps.lengths], np.float64
        )
        parts.append(longer * math.trunc(scale / units[3]))
    if units[4] < math.inf:
        parts.append(np.array([float(present.sum()) * math.trunc(scale / units[4])]))
    return np.concatenate(parts)


def _by_cell(cells: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return (g,), sums of whole numbers by cell: exact in any order."""
    return np.asarray(np.bincount(cells, weights=values, minlength=count), np.float64)


def _read(noisy: Floats, size: tuple[int, int, int], caps: ArrowCaps, sd: float) -> ArrowSums:
    """Return noisy numbers in the units of the rows; zeros for what was not released."""
    d, width = size[0], size[1] * size[2]
    units, counts = caps.units, _sizes(size, caps)
    ends = np.cumsum(counts)
    score, matrix, square, longer, rows = (
        noisy[end - count : end] * (unit if count else 0.0)
        for end, count, unit in zip(ends, counts, units, strict=True)
    )
    score = score if counts[0] else np.zeros(d + width)
    flat, pairs = d * (d + 1) // 2, np.repeat(isometry(size[2]), size[1])
    matrix = matrix if counts[1] else np.zeros(flat + d * width + len(pairs))
    sds = [sd * unit if count else 0.0 for count, unit in zip(counts, units, strict=True)]
    return ArrowSums(
        score=score[:d],
        cell_score=score[d:],
        curvature=matrix_of(matrix[:flat], d),
        border=matrix[flat : flat + d * width].reshape(d, width) / math.sqrt(2.0),
        cell_curvature=matrix[flat + d * width :] / pairs,
        square=float(square.sum()),
        longer=longer,
        rows=float(rows.sum()),
        score_sd=sds[0],
        curvature_sd=sds[1],
        square_sd=sds[2],
        longer_sd=sds[3],
        rows_sd=sds[4],
    )
