"""Clip rows, round them, add them exactly and add noise: how all sums over rows are released.

Rows come in blocks, however they were split. What a block adds is whole numbers of cells of a
public grid, which float64 adds exactly: sums of blocks can be made anywhere and added in any order.
Every release of sums goes through `release_sums`. Proof: docs/proofs/sums.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.blas import dgemm

from dpmcmc.base.loading import loaded
from dpmcmc.inputs.blocks import SomeBlocks, added
from dpmcmc.kernels.arithmetic.rounding import CLIP_MARGIN
from dpmcmc.privacy.discrete import gaussian_noise, noisy_sums
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import Site, check

Floats = NDArray[np.float64]
MOST_ROWS, MOST_COEFFICIENTS = 2**31, 250  # within which the proof holds
EXACT_BITS = 51  # of a sum
MANY_NUMBERS = 2**21  # in all rows, from which on loops over them are compiled


def release_sums(
    random: RandomSource,
    site: Site,
    blocks: SomeBlocks[Floats],
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


def digits_of(rows: int) -> int:
    """Return the binary digits of a row's entry (at most 1 in size) for exact sums."""
    return EXACT_BITS - math.ceil(math.log2(rows + 1.0))


@dataclass(frozen=True, slots=True)
class Products:
    """Vectors (p, m) of rows: the sum over k of bases (k, p, m) times parts (k, m)."""

    bases: Floats
    parts: Floats

    def array(self) -> Floats:
        """Return the vectors."""
        total: Floats = self.bases[0] * self.parts[0]
        for base, part in zip(self.bases[1:], self.parts[1:], strict=True):
            total += base * part
        return total

    def without(self, present: NDArray[np.bool_]) -> "Products":
        """Return the vectors with zeros where a row (m,) is left out."""
        return Products(self.bases, np.where(present, self.parts, 0.0))


Vectors = Floats | Products


def array_of(vectors: Vectors) -> Floats:
    """Return vectors as an array (p, m)."""
    return vectors.array() if isinstance(vectors, Products) else vectors


def columns_of(vectors: Vectors) -> int:
    """Return how many vectors there are."""
    return len((vectors.parts if isinstance(vectors, Products) else vectors)[0])


class Loops(NamedTuple):
    """The loops over the vectors of a block of rows; the same bits whoever runs them.

    squares: vectors -> squared lengths (m,). whole_sum, whole_squares: (vectors, scale) -> the sum
    (p,) of what `whole` returns, and that of the products (p, p) of each of its columns.
    """

    squares: Callable[[Vectors], Floats]
    whole_sum: Callable[[Vectors, Floats], Floats]
    whole_squares: Callable[[Vectors, Floats], Floats]

    def once_each(self) -> "Loops":
        """Return the loops for one block, whose vectors may have several parts in its sums."""
        return self._replace(squares=_once(self.squares))


def _once(change: Callable[[Vectors], Floats]) -> Callable[[Vectors], Floats]:
    """Return the function, computed of each vectors when first asked for."""
    known: dict[int, tuple[Vectors, Floats]] = {}

    def once(vectors: Vectors) -> Floats:
        """Return what the function does."""
        if id(vectors) not in known:  # vectors are kept, so that no others have their id
            known[id(vectors)] = vectors, change(vectors)
        return known[id(vectors)][1]

    return once


def squares(vectors: Vectors) -> Floats:
    """Return the squared lengths (m,) of vectors (p, m)."""
    rows = array_of(vectors)
    return np.asarray(np.einsum("pm,pm->m", rows, rows))


def clip_factor(size: Floats, cap: float) -> Floats:
    """Return factors (m,) that bring sizes to at most cap; 0 for NaN."""
    with np.errstate(all="ignore"):
        factor = cap / size
    np.minimum(factor, 1.0, out=factor)
    factor *= CLIP_MARGIN
    lost = ~np.isfinite(size)
    if lost.any():
        factor[lost] = 0.0
    return factor


def whole(vectors: Vectors, scale: Floats) -> Floats:
    """Return vectors (p, m) times scale (m,), rounded towards zero; 0 for a row left out."""
    with np.errstate(all="ignore"):
        cells = array_of(vectors) * scale
        np.trunc(cells, out=cells)
    lost = ~(scale > 0.0)
    if lost.any():
        cells[..., lost] = 0.0
    return cells


def _whole_sum(vectors: Vectors, scale: Floats) -> Floats:
    """Return the sum (p,) of vectors in whole cells."""
    return np.asarray(whole(vectors, scale).sum(axis=1))


def _whole_squares(vectors: Vectors, scale: Floats) -> Floats:
    """Return the sum (p, p) of v v^T over vectors v in whole cells."""
    turned = whole(vectors, scale).T
    # a product of two, which of few vectors is twice as fast as NumPy's of one with itself
    return np.asarray(dgemm(1.0, turned, turned, trans_a=True))


@cache
def _kernels() -> Any:
    """Return the compiled loops."""
    return loaded("dpmcmc.kernels.compiled.row_vectors")


def _compiled_squares(vectors: Vectors) -> Floats:
    """Return what `squares` does."""
    rows = _products_of(vectors)
    out = np.empty(rows.bases.shape[2])
    _kernels().squares(rows.bases, rows.parts, out)
    return out


def _compiled_whole_sum(vectors: Vectors, scale: Floats) -> Floats:
    """Return what `_whole_sum` does."""
    rows = _products_of(vectors)
    out = np.empty(rows.bases.shape[1])
    _kernels().whole_sum(rows.bases, rows.parts, scale, out)
    return out


def _compiled_whole_squares(vectors: Vectors, scale: Floats) -> Floats:
    """Return what `_whole_squares` does."""
    rows = _products_of(vectors)
    p = rows.bases.shape[1]
    out = np.empty((p, p))
    _kernels().whole_squares(rows.bases, rows.parts, scale, out)
    return out


def _products_of(vectors: Vectors) -> Products:
    """Return vectors as contiguous products."""
    if isinstance(vectors, Products):
        return Products(*map(np.ascontiguousarray, (vectors.bases, vectors.parts)))
    return Products(np.ascontiguousarray(vectors)[None], np.ones((1, vectors.shape[1])))


PLAIN = Loops(squares, _whole_sum, _whole_squares)
COMPILED_LOOPS = Loops(_compiled_squares, _compiled_whole_sum, _compiled_whole_squares)


def loops_for(numbers: int) -> Loops:
    """Return compiled loops for so many numbers in all rows, or those of NumPy.

    For fewer the compiler takes longer to load than it saves.
    """
    return COMPILED_LOOPS if numbers >= MANY_NUMBERS else PLAIN


def sum_of_squares(roots: tuple[Vectors, ...], each: int, loops: Loops) -> Floats:
    """Return the squared lengths (m,) of all roots (p, m each) together, `each` columns at once."""
    total: Floats = sum(map(loops.squares, roots), np.zeros(()))
    return total if each == 1 else total.reshape(-1, each).sum(axis=1)


def vector_cells(vectors: Vectors, cap: float, scale: float, loops: Loops = PLAIN) -> Floats:
    """Return the sum (p,) of rows (p, m) clipped to norm cap, times scale, in whole cells."""
    size = np.sqrt(loops.squares(vectors))
    return loops.whole_sum(vectors, clip_factor(size, cap) * scale)


def matrix_cells(
    roots: tuple[Vectors, ...],
    cap: float,
    unit: float,
    scale: float,
    minus: tuple[Vectors, ...] = (),
    most: float = 0.0,
    loops: Loops = PLAIN,
    each: int = 1,
) -> Floats:
    """Return the sum (p, p) of rows' matrices clipped to Frobenius norm cap, in grid cells.

    A matrix of roots r, (p, m each) each, has norm at most the sum of |r|^2: that is what is
    clipped. The sum is over unit, times scale^2. minus: roots whose squares are subtracted; they
    count in what is clipped to cap, and by themselves are clipped to most. each: how many adjacent
    columns of a root one matrix has.
    """
    size = sum_of_squares(roots, each, loops)
    if minus:
        taken = sum_of_squares(minus, each, loops)
        clip = np.minimum(clip_factor(size + taken, cap), clip_factor(taken, most))
    else:
        clip = clip_factor(size, cap)
    factor = np.sqrt(clip / unit) * scale
    factor = np.repeat(factor, each) if each > 1 else factor
    total = np.zeros(())
    for root in roots:
        total = total + loops.whole_squares(root, factor)
    for root in minus:
        total = total - loops.whole_squares(root, factor)
    return total


def scalar_cells(values: Floats, cap: float, scale: float) -> float:
    """Return the sum of values (m,) clipped to [0, cap], times scale, in whole numbers."""
    clipped = np.fmin(np.fmax(values, 0.0), cap)  # 0 for what is no number
    return float(np.trunc(clipped * (CLIP_MARGIN * scale)).sum())


def upper(matrix: Floats) -> Floats:
    """Return the upper triangle of a symmetric matrix, diagonal included, as a vector."""
    rows, columns = _triangle(matrix.shape[-1])
    return np.asarray(matrix[..., rows, columns])


@cache
def _triangle(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries of `upper`."""
    rows, columns = np.triu_indices(d)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


def isometry(d: int) -> Floats:
    """Return the factors of `upper` that give it the Frobenius norm of its matrix (d, d)."""
    rows, columns = _triangle(d)
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def largest_noise(p: int, sd: float) -> float:
    """Return about the largest eigenvalue of symmetric noise (p, p).

    sd: of its diagonal; off it sqrt(2) smaller.
    """
    return math.sqrt(2.0 * p) * sd


def svec(matrix: Floats) -> Floats:
    """Return symmetric matrices (..., d, d) as vectors of the same norm."""
    return np.asarray(upper(matrix) * isometry(matrix.shape[-1]))


def matrix_of(flat: Floats, d: int) -> Floats:
    """Return the symmetric matrices (..., d, d) of vectors that svec returned."""
    rows, columns = _triangle(d)
    matrices = np.empty((*flat.shape[:-1], d, d))
    matrices[..., rows, columns] = flat / isometry(d)
    matrices[..., columns, rows] = matrices[..., rows, columns]
    return matrices
