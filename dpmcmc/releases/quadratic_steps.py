"""One noisy Newton step, a function of the released numbers of an iterate alone."""

from dataclasses import dataclass

import numpy as np

from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.joint_sums import Floats, Sums
from dpmcmc.mechanisms.sums import largest_noise
from dpmcmc.releases.whitening import FULL, LEAST_MOMENT

MIN_DIRECTION_WEIGHT = 0.1  # of the rows of a direction, below which it is not told
# of the mean curvature: a direction with less is moved in as if it had so much
MIN_RELATIVE_CURVATURE = 0.02
# posterior variances: error of an iterate because a likelihood is not quadratic
NONQUADRATIC_ERROR = 0.01
MIN_WEIGHT_CUT = 1.3  # mean slope * length^2, beyond which rows count less
# sds by which the weight of a direction's rows is surely less than in full
WEIGHT_CONFIDENCE_SDS = 1.5


@dataclass(frozen=True, slots=True)
class Iterate:
    """An expansion point and the numbers released there, in the coordinates of root (p, p).

    clip: of the score, in mean lengths of a row's. tau: scale of the residuals over the one that
    was taken, with tau_sd the noise of its log. cut: of squared residuals. spread: (p, p), root of
    the covariance that slopes are means over, of linear models with rare categories; else None.
    left: sd of what a clip leaves out of a coefficient's score, a row's; 0 where rows are weighted
    down instead. cut_curve: mean curvature that is cut. square_spread: variance of the log of the
    scale by one row; 0 where residuals are taken to be normal. tail_sd: of the log of tau, by what
    is not known of residuals that are cut. unseen: see Clips.
    """

    place: Floats
    root: Floats
    sums: Sums
    scale: float
    clip: float
    cut: float
    tau: float
    tau_sd: float
    spread: Floats | None = None
    left: float = 0.0
    cut_curve: float = 0.0
    square_spread: float = 0.0
    tail_sd: float = 0.0
    unseen: float = 0.0


def newton_step(iterate: Iterate, rows: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return step (p,), its precision, the likelihood's, and curvature over n of an iterate.

    All three are (p, p).

    The error of a move is the noise of the score, plus the noise of the curvature times the length
    of the move, plus NONQUADRATIC_ERROR: all iterates are computed from the same rows. In a
    direction whose curvature is below its noise, the noise level is used as the curvature.
    """
    p, sums = len(iterate.place), iterate.sums
    curve, level, _ = shrunk(sums.curvature / rows, sums.sds[1] / rows)
    values, vectors = np.linalg.eigh(curve)
    least = 0.5 * largest_noise(p, sums.sds[1]) / rows
    values = rows * np.maximum(values, max(least, MIN_RELATIVE_CURVATURE * abs(level), 1e-12))
    move = vectors @ ((vectors.T @ sums.score) / values)
    noise = sums.sds[0] ** 2 + sums.sds[1] ** 2 * float(move @ move)
    known = (vectors * (values**2 / (NONQUADRATIC_ERROR * values + noise))) @ vectors.T
    steep = (vectors * values) @ vectors.T
    return np.asarray(move), np.asarray(known), np.asarray(steep), curve


def downweighted(known: Floats, before: Floats, apart: Floats) -> Floats:
    """Return a known precision (p, p), reduced where a new estimate disagrees with it.

    apart: (p,), by how much. Looks from far away are bent, and count as little as makes the
    difference a usual one.
    """
    root = np.linalg.cholesky(known)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, before).T))
    values = np.maximum(values, 1e-12)
    surprise = (vectors.T @ (root.T @ apart)) ** 2 / (1.0 + 1.0 / values)
    directions = root @ vectors
    return np.asarray((directions * (values / np.maximum(surprise, 1.0))) @ directions.T)


def shrunk(matrix: Floats, sd: float) -> tuple[Floats, float, float]:
    """Return (mean, level, part): a noisy matrix shrunk towards level * identity.

    part: of what it differs by, that is no noise.
    """
    p = len(matrix)
    level = float(np.trace(matrix)) / p
    off = matrix - level * np.eye(p)
    count, size = 0.5 * p * (p + 1) - 1.0, float((off**2).sum())
    part = max(0.0, 1.0 - count * sd * sd / max(size, TINY)) if count else 1.0
    return level * np.eye(p) + part * off, level, part


def weighted(curve: Floats, noise: Floats) -> float:
    """Return the mean weight of a row, from sums of weights and of squared weights."""
    return min(max(float(np.trace(noise)) / trace(curve), 0.3), 1.0)


def rescaled(
    curve: Floats, noise: Floats, before: Floats, sd: float, noise_sd: float
) -> tuple[Floats, Floats, Floats]:
    """Return (stretch, known, limit), all (p, p): coordinates in which the curvature is 1.

    noise: the score's variance over that of a row which counts as much as the usual one. before:
    curvature that was known. Rows that are long count less, so that where few of them carry a
    direction its curvature stays small however far it is stretched. How much less, the score's
    variance says: weights enter it squared. A direction is stretched no further than its rows
    count in full.
    """
    values, vectors = np.linalg.eigh(curve)
    had, has = (np.einsum("pk,pq,qk->k", vectors, m, vectors) for m in (before, noise))
    size = np.maximum(values, sd)
    part, doubt = has / size, noise_sd / size
    most = np.maximum(values, 0.0) / np.clip(part - doubt, MIN_DIRECTION_WEIGHT, 1.0)
    known = np.maximum(values, np.minimum(had, most))
    edge = largest_noise(len(values), sd)
    part = np.maximum(np.maximum(part, 0.0) + WEIGHT_CONFIDENCE_SDS * doubt, MIN_DIRECTION_WEIGHT)
    close = np.where(part < FULL, known / part, 0.0)
    stretch = 1.0 / np.sqrt(np.maximum(known, max(edge, LEAST_MOMENT)))
    kinds = (stretch, np.where(known > edge, known, 0.0), close)
    first, second, third = (np.asarray((vectors * kind) @ vectors.T) for kind in kinds)
    return first, second, third


def trace(matrix: Floats) -> float:
    """Return the trace, bounded away from 0."""
    return max(float(np.trace(matrix)), 1e-9)
