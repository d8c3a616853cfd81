"""Bias of clips along numbers whose declared bounds lie many of their sds out.

Rows near such a bound have long covariates, so that their scores are clipped, and what clips leave
out of them points along the number's own coefficient. Noise hides so few rows from layers of
lengths. The bias is then taken to grow with how far the bound is, in proportion to what clips leave
out. A function of released numbers and public facts. Proof: docs/proofs/noisy_quadratic.md, section
4.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.mechanisms.sums import largest_noise
from dpmcmc.releases.categories import typical
from dpmcmc.releases.hierarchy import Curves

# sds of a number, up to which a bound is near; variance of the bias along its coefficient for each
# square of an sd beyond it, over the even share: see experiments/tails.py
NEAR, PER_SQUARE = 6.2, 0.1
FARTHEST = 60.0  # sds: of a column that noise hides a bound is not told to be farther


class Columns(Protocol):
    """The fields of a stored release that tell of its columns: see Quadratic."""

    @property
    def root(self) -> Floats:
        """Coordinates (p, p)."""

    @property
    def curvature(self) -> Floats:
        """Curvature (p, p) by u."""

    @property
    def curvature_sd(self) -> float:
        """Sd of the noise of `curvature`."""

    @property
    def indicators(self) -> Floats | None:
        """Columns (d,) that are declared to hold 0 and 1 alone."""

    @property
    def curves(self) -> Curves | None:
        """The coefficients of smooths."""

    @property
    def ordered(self) -> bool:
        """Whether coefficients are cuts and slopes."""

    @property
    def log_scale(self) -> bool:
        """Whether the last coefficient is a log scale."""

    @property
    def classes(self) -> int:
        """Number of predictors of a row."""

    def moments(self) -> tuple[Floats, float]:
        """Mean of x x^T (d, d), and the sd of its noise."""


def bias(columns: Columns) -> Floats:
    """Return the covariance (p, p) by u of the bias along far columns, over the even share."""
    far = distances(columns)
    directions = columns.root.T / np.maximum(np.linalg.norm(columns.root, axis=1), TINY)
    sizes = PER_SQUARE * np.maximum(far**2 - NEAR**2, 0.0)
    return np.asarray((directions * sizes) @ directions.T)


def distances(columns: Columns) -> Floats:
    """Return how far (p,) the farther bound of each coefficient's column is, in its sds.

    0 of intercepts, categories, curves and scales.
    """
    moments = columns.moments()[0]
    constant = typical(moments)[1]
    second = moments if columns.ordered or not constant else _by_curvature(columns, len(moments))
    if not second[0, 0] > TINY:  # rows tell nothing of their predictors
        second = moments
    middle = second[0] / max(float(second[0, 0]), TINY) * constant
    square = np.diag(second) / (float(second[0, 0]) if constant else 1.0) - middle**2
    room = 1.0 + np.abs(middle)
    far = room / np.sqrt(np.maximum(square, (room / FARTHEST) ** 2))
    far = np.where(_numbers(columns, len(far)), far, 0.0)
    far[0] *= not constant
    if columns.ordered:
        return np.concatenate((np.zeros(columns.classes), far[1:]))
    each = np.concatenate((np.tile(far, columns.classes), np.zeros(int(columns.log_scale))))
    return each if columns.curves is None else np.where(columns.curves.penalised, 0.0, each)


def _by_curvature(columns: Columns, d: int) -> Floats:
    """Return sums (d, d) of x x^T over rows, weighted by what these tell of their predictors.

    These have less noise than the moments. A direction below the noise has the noise level.
    """
    values, vectors = np.linalg.eigh(columns.curvature)
    safe = np.maximum(values, largest_noise(len(values), columns.curvature_sd))
    half = np.linalg.solve(columns.root.T, vectors * np.sqrt(safe))
    blocks = half[: d * columns.classes].reshape(columns.classes, d, -1)
    return np.asarray(np.einsum("cip,cjp->ij", blocks, blocks))


def _numbers(columns: Columns, d: int) -> NDArray[np.bool_]:
    """Return (d,) which columns are not declared to hold only 0 and 1."""
    if columns.indicators is None:
        return np.ones(d, bool)
    return np.asarray(columns.indicators == 0.0)
