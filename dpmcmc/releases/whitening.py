"""The whitening: coordinates in which the covariates' second moments are about the identity.

Released are sums of a a^T over rows a, in the coordinates of the round before, each row clipped to
the norm of a typical row there. A few rounds find any scale and any correlation (Biswas, Dong,
Kamath and Ullman 2020). No response is read, so one payment serves all models of the same columns.
Proof: docs/proofs/noisy_quadratic.md, section 3.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpmcmc.mechanisms.joint_sums import Block, Caps, Floats, release
from dpmcmc.mechanisms.sums import Vectors, array_of, largest_noise
from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.design_rows import DesignRows, HeldRows, block_rows

ITERATIONS = 3
CUT_RATIO = 1.5  # times the mean squared length, beyond which a row is cut
FULL, LEAST_PART, CLEAR = 0.5, 0.1, 3.0  # part of what was seen below which rows count as cut
# singular value over the least: a direction that varies less is left to the prior
LARGEST_STRETCH = 1e6
LEAST_MOMENT = 1e-12


@dataclass(frozen=True, slots=True)
class Whitening:
    """A released whitening. root: (d, d); root.T @ x has second moments of about 1.

    known: (d, d), mean of x x^T where it is above its noise. sd: of the last round's noise.
    held: (d, d), moments that are not to be stretched to less: see saturated.
    """

    root: Floats
    known: Floats
    sd: float
    held: Floats

    def moments(self) -> Floats:
        """Return (d, d), the mean of x x^T that becomes the identity in these coordinates."""
        back = np.linalg.inv(self.root)
        return np.asarray(back.T @ back)

    def by_intercept(self) -> tuple[float, Floats, Floats]:
        """Return the mean square of the intercept, and mean (d,) and covariance (d, d) of columns.

        The first column is the intercept, whose square is 1 but for noise and persons' rows; the
        covariance is positive whatever it is.
        """
        moments = self.moments()
        size = float(moments[0, 0])
        mean = moments[0] / size
        return size, mean, moments / size - np.outer(mean, mean)


def event(noise_multiplier: float) -> Event:
    """Return the event of the whole whitening, of mu = 1 / noise_multiplier."""
    return Repeat(Gaussian(noise_multiplier * math.sqrt(ITERATIONS)), ITERATIONS)


def whiten(
    data: DesignRows,
    max_row_norm: float,
    noise_multiplier: float,
    random: RandomSource,
    unit_rows: int = 1,
    mean_rows: float = 1.0,
) -> Whitening:
    """Release a whitening of the rows. Privacy: event(noise_multiplier), by units.

    max_row_norm: largest norm of a row, public. unit_rows, mean_rows: see `by_unit`. Never raises
    on rows.
    """
    d, n = data.width, data.rows // unit_rows
    z = noise_multiplier * math.sqrt(ITERATIONS)
    root, known, sd = np.eye(d), np.zeros((d, d)), 0.0
    cap = max_row_norm * max_row_norm * unit_rows / mean_rows
    held, firm = np.zeros((d, d)), np.zeros((d, d))
    for _ in range(ITERATIONS):
        caps = Caps(1.0, cap, 1.0, 1.0, (0.0, 1.0, 0.0, 0.0))
        blocks = data.blocks(block_rows(data, unit_rows)).map(
            partial(_block, root, unit_rows, mean_rows)
        )
        sums = release(blocks, d, n, caps, z, random, gaps=data.gaps)
        sd = sums.sds[1] / sums.rows
        moments, back = sums.curvature / sums.rows, np.linalg.inv(root)
        floor = saturated(root.T @ firm @ root, moments, largest_noise(d, sd))
        held = back.T @ at_least(root.T @ held @ root, floor) @ back
        firm = back.T @ above(moments, CLEAR * math.sqrt(2.0 * d) * sd) @ back
        root, known = rounder(root, known, moments, sd)
        root = limited(root, held)
        cap = CUT_RATIO * d
    return Whitening(root, known, sd, held)


def rounder(root: Floats, known: Floats, seen: Floats, sd: float) -> tuple[Floats, Floats]:
    """Return coordinates (d, d) that whiten a noisy moment matrix, and lower bounds (d, d) of it.

    known: (d, d), so far, by the rows' own columns: a lower bound, for long rows count less in what
    is seen. seen: in the coordinates of root, with noise of this sd. A direction that was seen
    to be larger stays as large: else a few long rows, whose weights sink as they are stretched,
    would be stretched for ever.
    """
    edge = largest_noise(len(seen), sd)
    seen = at_least(seen, root.T @ known @ root, edge)
    values, vectors = np.linalg.eigh(seen)
    back = np.linalg.inv(root)
    sure = back.T @ ((vectors * np.where(values > edge, values, 0.0)) @ vectors.T) @ back
    return root @ inverse_root(seen, sd), np.asarray(sure)


def at_least(matrix: Floats, least: Floats, edge: float = 0.0) -> Floats:
    """Return a matrix raised to `least` in directions where it is smaller by more than edge."""
    values, vectors = np.linalg.eigh(least - matrix)
    return np.asarray(matrix + (vectors * np.maximum(values - edge, 0.0)) @ vectors.T)


def limited(root: Floats, held: Floats) -> Floats:
    """Return root, with stretching limited in every direction by `held`."""
    least = at_least(np.eye(len(root)), root.T @ held @ root)
    return _tame(np.asarray(root @ inverse_root(least, 0.0)))


def _tame(root: Floats) -> Floats:
    """Return root with its condition number limited to LARGEST_STRETCH.

    Without it, each round would stretch a direction in which columns are collinear further.
    """
    left, sizes, right = np.linalg.svd(root)
    if sizes[0] <= LARGEST_STRETCH * sizes[-1]:
        return root
    return np.asarray((left * np.minimum(sizes, LARGEST_STRETCH * sizes[-1])) @ right)


def above(matrix: Floats, edge: float) -> Floats:
    """Return the part of a symmetric matrix with eigenvalues above edge, less half the edge."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.where(values > edge, values - 0.5 * edge, 0.0)) @ vectors.T)


def saturated(before: Floats, seen: Floats, edge: float) -> Floats:
    """Return (d, d) limits of stretching, where clipping has reduced the observed moments.

    A cut row adds at most its cap, however far its direction is stretched. Where much less is seen
    than was known before, stretching has cut rows, and as much of it is taken back.
    """
    values, vectors = np.linalg.eigh(before - seen)
    directions = vectors[:, values > edge]
    had, has = (np.einsum("dk,de,ek->k", directions, part, directions) for part in (before, seen))
    part = np.maximum(has, edge) / np.maximum(had, edge)
    least = max(LEAST_PART, CLEAR * edge)  # below it noise dominates
    size = np.where((part < FULL) & (least < FULL), had / np.maximum(part, least), 0.0)
    return np.asarray((directions * size) @ directions.T)


def beside(white: Whitening, scale: float) -> Whitening:
    """Return the whitening extended by a log scale, for coefficients in units of a scale.

    What rows' predictors change by is then about the length of a move.
    """
    root, known, held = (np.eye(len(white.root) + 1) for _ in range(3))
    root[:-1, :-1] = white.root * scale
    known[:-1, :-1], held[:-1, :-1] = white.known / scale**2, white.held / scale**2
    held[-1, -1] = 0.0
    return Whitening(root, known, white.sd, held)


def _block(root: Floats, unit_rows: int, mean_rows: float, rows: HeldRows) -> Block:
    """Return one block's statistics by units, in the coordinates of root."""
    whitened = root.T @ rows.x
    block = Block(whitened, (whitened,), (), np.zeros(0), rows.counted)
    return by_unit(block, rows.x, unit_rows, mean_rows)


def by_unit(rows: Block, x: Floats, unit_rows: int, mean_rows: float) -> Block:
    """Return the statistics of units of adjacent rows: their sums over mean_rows.

    rows: statistics of single rows. x: (d, m), their covariates, all 0 where no row is in use: what
    is computed there may be no number, and is dropped. The square of a unit is the mean over its
    rows. A unit counts where any of its rows does.
    """
    if unit_rows == 1:
        return rows
    scale = mean_rows**-0.5
    used = np.asarray(x.any(axis=0))
    square = rows.square
    if len(square):
        several = np.where(used, square, 0.0).reshape(-1, unit_rows).sum(axis=1)
        square = several / np.maximum(used.reshape(-1, unit_rows).sum(axis=1), 1)
    vectors = np.where(used, array_of(rows.vectors), 0.0)
    together = vectors.reshape(-1, unit_rows) @ np.full(unit_rows, 1.0 / mean_rows)

    def scaled(roots: tuple[Vectors, ...]) -> tuple[Vectors, ...]:
        """Return roots (p, m) of a unit's rows, side by side, as those of its matrix."""
        return tuple(np.where(used, scale * array_of(root), 0.0) for root in roots)

    return Block(
        together.reshape(len(vectors), -1),
        scaled(rows.curvature),
        scaled(rows.noise),
        square,
        None if rows.counted is None else rows.counted.reshape(-1, unit_rows).max(axis=1),
        scaled(rows.minus),
    )


def inverse_root(matrix: Floats, sd: float) -> Floats:
    """Return B with B^T matrix B = I, eigenvalues of noise size or less raised to it.

    Eigenvalues below the largest that noise alone has are lifted to it.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = max(
        largest_noise(len(matrix), sd), LEAST_MOMENT * float(np.abs(values).max()), LEAST_MOMENT
    )
    return np.asarray((vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T)
