"""Sums of squares of a regression, X'X, X'y and y'y, released jointly.

One exact Gaussian event for each data holder. Proof: docs/proofs/sufficient_statistics.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpmcmc.kernels.arithmetic.rounding import CLIP_MARGIN
from dpmcmc.mechanisms.sums import (
    MOST_COEFFICIENTS,
    MOST_ROWS,
    Floats,
    digits_of,
    isometry,
    matrix_of,
    release_sums,
    upper,
    whole,
)
from dpmcmc.privacy.events import Event, Gaussian, Parallel
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import SUFFICIENT_STATISTICS

SENSITIVITY_MARGIN = 1.0 + 2.0**-40  # and that of the sensitivity's own formula
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
LEAST_BOUND, MOST_BOUND = 1e-100, 1e100  # squares of what is within neither vanish nor overflow


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Released sums of J holders; leading axes are independent releases.

    gram: (..., J, d, d), symmetric; a diagonal entry has noise of sd `sds[0]`, another one of
    `cross` times that. moments: (..., J, d), sd `sds[1]`. squares: (..., J), sd `sds[2]`, or None.
    rows: (J,), public numbers of rows.
    """

    gram: Floats
    moments: Floats
    squares: Floats | None
    sds: tuple[float, float, float]
    rows: Floats
    cross: float = math.sqrt(0.5)

    @property
    def total(self) -> "Noisy":
        """The sums of all holders added, as those of one holder."""
        many = math.sqrt(len(self.rows))
        return replace(
            self,
            gram=self.gram.sum(axis=-3, keepdims=True),
            moments=self.moments.sum(axis=-2, keepdims=True),
            squares=None if self.squares is None else self.squares.sum(axis=-1, keepdims=True),
            sds=(self.sds[0] * many, self.sds[1] * many, self.sds[2] * many),
            rows=self.rows.sum(keepdims=True),
        )


def event(noise_multiplier: float, holders: int = 1) -> Event:
    """Return one Gaussian event, or one for each holder in parallel."""
    gaussian = Gaussian(noise_multiplier)
    return gaussian if holders == 1 else Parallel((gaussian,) * holders)


def sensitivity(weight: float, *, squares: bool) -> float:
    """Return the L2 sensitivity of (svec xx', weight xy, weight^2 y^2), |x|, |y| <= 1.

    In L2 norm; without the last part where squares is False. Exact for two or more columns: proof,
    section 1. weight: how much of the response there is for the covariates.
    """
    square = weight * weight
    if square <= 2.0:
        return math.sqrt(2.0 + 2.0 * square + 0.5 * square * square)
    if squares:
        return math.sqrt(2.0 + square + square * square)
    return 2.0 * weight


def grouped_sensitivity(weight: float) -> float:
    """Return a bound of that sensitivity for means of k rows times sqrt(k).

    In units of one row's bounds, for every k, without y'y: proof, section 4. It is up to 2 sqrt(2)
    times that of single rows, which the source takes it to be.
    """
    return 4.0 * math.sqrt(1.0 + weight * weight)


def sensitivity_of(weight: float, group: int, *, squares: bool) -> float:
    """Return the sensitivity of sums of rows, or of groups of rows where group > 1."""
    return grouped_sensitivity(weight) if group > 1 else sensitivity(weight, squares=squares)


def release(
    x: Floats,
    y: Floats,
    bounds: tuple[float, float],
    noise_multiplier: float,
    random: RandomSource,
    *,
    weight: float = 1.0,
    squares: bool = False,
    group: int = 1,
    unit_rows: int = 1,
) -> Noisy:
    """Release the sums of one holder's rows. Privacy: one Gaussian(noise_multiplier) event.

    x: (d, n). y: (n,). bounds: largest |x| and |y|; longer rows are cut, what is no number is 0.
    squares: whether y'y is released. group: rows that are summed before they are squared, as many
    as divide n. unit_rows: most rows of one unit of privacy. Replace-one; holds for any x and y.
    Raises ValueError for numbers that the proof does not cover, before a row is read.
    """
    d, n = x.shape
    _check(d, n, bounds, weight, group, squares=squares)
    digits = digits_of(n * group) // 2
    parts = [isometry(d), np.full(d, weight)]
    sensitivity = sensitivity_of(weight, group, squares=squares)
    noisy, sd = release_sums(
        random,
        SUFFICIENT_STATISTICS,
        _cells(x, y, bounds, digits, group, squares=squares),
        sensitivity * SENSITIVITY_MARGIN + rounding(d, n * group, weight),
        noise_multiplier,
        grid=2.0 ** (-2 * digits) / group,
        weights=np.concatenate([*parts, [weight**2]] if squares else parts),
        unit_rows=unit_rows,
    )
    return _read(noisy, d, n // group, bounds, weight, sd, squares=squares)


def release_all(
    holders: Sequence[tuple[Floats, Floats]],
    bounds: tuple[float, float],
    noise_multiplier: float,
    random: RandomSource,
    *,
    weight: float = 1.0,
    squares: bool = False,
    group: int = 1,
) -> Noisy:
    """Release the sums of each holder's (x, y). Privacy: event(noise_multiplier, holders).

    Which rows a holder has must be fixed in advance. See release.
    """
    release_of_holder = partial(release, weight=weight, squares=squares, group=group)
    return joined([release_of_holder(x, y, bounds, noise_multiplier, random) for x, y in holders])


def joined(parts: Sequence[Noisy]) -> Noisy:
    """Return several holders' sums, with noise of equal sd, as one record."""
    squares = [part.squares for part in parts if part.squares is not None]
    return replace(
        parts[0],
        gram=np.concatenate([part.gram for part in parts]),
        moments=np.concatenate([part.moments for part in parts]),
        squares=np.concatenate(squares) if squares else None,
        sds=_widest(parts),
        rows=np.concatenate([part.rows for part in parts]),
    )


def _widest(noisy: Sequence[Noisy]) -> tuple[float, float, float]:
    """Return the largest sds; they differ by rounding alone, below a factor 1 + 2^-30."""
    sds = np.max([statistics.sds for statistics in noisy], axis=0)
    return float(sds[0]), float(sds[1]), float(sds[2])


def rounding(dimension: int, rows: int, weight: float) -> float:
    """Return what rounding of products adds to the sensitivity: proof, section 2."""
    return rows * (dimension + 2.0) * max(1.0, weight * weight) * 2.0**-49


def _check(
    d: int, n: int, bounds: tuple[float, float], weight: float, group: int, *, squares: bool
) -> None:
    """Refuse arguments outside the proof's assumptions."""
    if not (1 <= n * group < MOST_ROWS and 1 <= d <= MOST_COEFFICIENTS):
        raise ValueError("too many rows or columns for exact sums")
    if not all(LEAST_BOUND <= bound <= MOST_BOUND for bound in bounds):
        raise ValueError("bounds must lie between 1e-100 and 1e100")
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise ValueError("the weight of the response must lie between 1e-6 and 1e6")
    if group < 1 or n % group or (group > 1 and squares):
        raise ValueError("groups must be equal, and their squares are not released")


def _cells(
    x: Floats, y: Floats, bounds: tuple[float, float], digits: int, group: int, *, squares: bool
) -> Iterator[Floats]:
    """Return the sum of one block of rows, in grid cells of 2^(-2 digits) / group."""
    d, n = x.shape
    with np.errstate(all="ignore"):
        size = np.sqrt(np.einsum("dn,dn->n", x, x))
        factor = CLIP_MARGIN / np.maximum(size, bounds[0])
        scales = np.where(np.isfinite(size) & np.isfinite(y), 2.0**digits, 0.0)
        rows = np.vstack([x * factor, np.clip(y / bounds[1], -1.0, 1.0)])
    rounded = whole(rows, scales).reshape(d + 1, n // group, group).sum(axis=2)
    sums = rounded @ rounded.T
    parts = [upper(sums[:d, :d]), sums[:d, d]]
    yield np.concatenate([*parts, sums[d:, d]] if squares else parts)


def _read(
    noisy: Floats,
    d: int,
    n: int,
    bounds: tuple[float, float],
    weight: float,
    sd: float,
    *,
    squares: bool,
) -> Noisy:
    """Return the noisy sums, scaled from grid cells to the rows' units."""
    size, row_norm = d * (d + 1) // 2, bounds[0]
    units = row_norm**2, row_norm * bounds[1] / weight, (bounds[1] / weight) ** 2
    return Noisy(
        gram=matrix_of(noisy[None, :size], d) * units[0],
        moments=noisy[None, size : size + d] * units[1],
        squares=noisy[size + d :] * units[2] if squares else None,
        sds=(sd * units[0], sd * units[1], sd * units[2] if squares else math.inf),
        rows=np.array([float(n)]),
    )
