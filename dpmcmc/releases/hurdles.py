"""Counts with zeros of their own kind: where the way to the mode starts, and its coordinates.

Coefficients are those of the log rate of counts above 0 (d,), and then those of the log odds of a
zero (d,). Everything here is a function of released numbers.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpmcmc.families.hurdle_poisson import information, log_rate
from dpmcmc.families.scores.base import TINY, Family
from dpmcmc.families.scores.given import Given, shift_of
from dpmcmc.families.scores.linear import Linear
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases.categories import has_intercept
from dpmcmc.releases.quadratic_steps import Iterate
from dpmcmc.releases.whitening import Whitening, inverse_root, limited

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)  # of means over normal predictors
WEIGHTS = WEIGHTS / WEIGHTS.sum()
MOST_SPREAD = 4.0  # variance of a predictor over rows
LEAST_CURVE = 1e-6  # of a row about a predictor
STEEPEST = 2.0  # change of a log rate with the mean log of counts, by which slopes are taken on
CLEAR_SDS = 2.0  # of noise, by which counts are to vary more than the model's before it is said


def pilot(family: Family) -> tuple[Family, Callable[[Floats], Floats]]:
    """Return the linear regression of logs of counts above 0, and what makes its responses."""
    moved = isinstance(family, Given) and family.moved
    return Given(Linear(), shift_of(family), moved=moved), _logs


def _logs(y: Floats) -> Floats:
    """Return responses (m, 3): logs of counts, offsets, and weights of 0 for zeros.

    y: counts (m,), or (m, 3) with their offsets beside them.
    """
    counts, offset = (y[:, 0], y[:, 1]) if y.ndim == 2 else (y, 0.0 * y)
    return np.stack((np.log(np.maximum(counts, 1.0)), offset, (counts > 0.0) * 1.0), axis=1)


def _moments(white: Whitening) -> tuple[float, Floats, Floats]:
    """Return what Whitening.by_intercept does; without an intercept a square of 1, and means 0."""
    if has_intercept(white):
        return white.by_intercept()
    return 1.0, np.zeros(len(white.root)), white.moments()


def start(logs: Floats, white: Whitening, shift: float) -> Floats:
    """Return coefficients (2 d,) from those of a linear regression of logs of counts above 0.

    A mean log of small counts hardly depends on their rate. Log odds of a zero start at 0. shift:
    middle of what offsets add to log rates.
    """
    mean = _moments(white)[1]
    middle = float(mean @ logs) + shift
    rate, steep = log_rate(middle)
    slopes = logs * min(steep, STEEPEST)
    if mean.any():  # the first column is the intercept
        slopes[0] += rate - shift - float(mean @ slopes)
    return np.concatenate((slopes, 0.0 * slopes))


def coordinates(place: Floats, white: Whitening, shift: float = 0.0) -> Floats:
    """Return coordinates (2 d, 2 d) in which a row's expected curvature is the identity.

    Of normal covariates with the released moments. shift: see start. No row has a
    curvature between both parts.
    """
    (size, mean, covariance), shifts = _moments(white), np.array([shift, 0.0])
    places, d = place.reshape(2, -1), len(mean)
    values, vectors = np.linalg.eigh(places @ covariance @ places.T)
    sds = np.sqrt(np.clip(values, 0.0, MOST_SPREAD))
    ways = np.divide(vectors, sds, out=np.zeros_like(vectors), where=sds > TINY**0.25)
    along = covariance @ places.T @ ways  # (d, 2), covariances with independent predictors
    rest = covariance - along @ along.T
    curves, level = np.zeros((2, d, d)), np.zeros(2)
    for first, weight in zip(NODES, WEIGHTS, strict=True):
        for second, other_weight in zip(NODES, WEIGHTS, strict=True):
            node = np.array([first, second])
            slopes = (
                weight * other_weight * information(places @ mean + shifts + vectors @ (sds * node))
            )
            row = mean + along @ node
            curves += size * slopes[:, None, None] * (rest + np.outer(row, row))
            level += slopes
    root = np.zeros((2 * d, 2 * d))
    for k, (curve, slope) in enumerate(zip(curves, np.maximum(level, LEAST_CURVE), strict=True)):
        part = slice(k * d, (k + 1) * d)
        white_curve = white.root.T @ curve @ white.root + LEAST_CURVE * np.eye(d)
        rounded = np.asarray(white.root @ inverse_root(white_curve, 0.0))
        root[part, part] = limited(rounded, slope * white.held)
    return root


def dispersion(iterates: Sequence[Iterate], weights: Floats, white: Whitening) -> float:
    """Return the residual sd of counts above 0 over that of the model's; 1 if noise hides more.

    By the variance of their part of the score. weights: (k,) of the iterates.
    """
    d, root = len(white.root), iterates[-1].root
    part = np.linalg.inv(root)[:, :d] @ white.root
    within = part @ part.T
    noise, curve = (
        sum(
            weight * float(np.sum(within * getattr(iterate.sums, name)))
            for weight, iterate in zip(weights.tolist(), iterates, strict=True)
        )
        for name in ("noise", "curvature")
    )
    sds = weights * [iterate.sums.sds[2] for iterate in iterates]
    sd = float(np.linalg.norm(sds) * np.linalg.norm(within))
    clear = noise - CLEAR_SDS * sd > max(curve, TINY)
    return math.sqrt(noise / curve) if clear and curve > TINY else 1.0
