"""Cut points of ordered categories: their starting values, and steps that keep their order.

Everything here is a function of released numbers.
"""

import math

import numpy as np
from scipy.special import expit, logit

from dpmcmc.families.ordinal import LEAST_GAP, information, probabilities
from dpmcmc.families.scores.base import TINY
from dpmcmc.formula.cuts import spread_out
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases.quadratic_steps import Iterate
from dpmcmc.releases.whitening import Whitening, inverse_root, limited

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # of means over normal predictors
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LEAST_WEIGHT = 0.1  # of a row in the score
LEAST_SHARE = 1e-6  # of a category
LEAST_CURVE = 1e-14  # of the largest one
LEFT = 0.25  # of a gap between cuts, at least, after a step: its log is what scores are lines in
CLEAR = 1.5  # sds of noise, that a first share is at least
RARE = 0.05  # share of the first or the last category, below which its log odds are looked at


def predictors(place: Floats, white: Whitening) -> tuple[Floats, float]:
    """Return predictors (k,) of the mean row at coefficients (p,), and their sd over rows."""
    _, mean, covariance = white.by_intercept()
    cuts, slopes = np.split(place, [len(place) - len(mean) + 1])
    square = float(slopes @ covariance[1:, 1:] @ slopes)
    return cuts - mean[1:] @ slopes, math.sqrt(max(square, 0.0))


def shares(place: Floats, white: Whitening) -> Floats:
    """Return about the frequencies (k + 1,) of categories at coefficients (p,)."""
    eta, sd = predictors(place, white)
    return np.asarray(probabilities(eta[:, None] + sd * NODES) @ WEIGHTS)


def coordinates(place: Floats, white: Whitening) -> Floats:
    """Return coordinates (p, p) in which a row's expected curvature at (p,) is the identity.

    Of normal covariates with the released moments: rows with other predictors have other ones.
    """
    eta, sd = predictors(place, white)
    size, mean, covariance = white.by_intercept()
    expand, slopes, along = spread_out(len(eta), len(mean)), place[len(eta) :], np.zeros(len(mean))
    if sd > 0.0:
        along[1:] = covariance[1:, 1:] @ slopes / sd
    covariance = covariance - np.outer(along, along)
    curve, held = np.zeros((len(place), len(place))), np.zeros((len(place), len(place)))
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        of_cuts = weight * information(eta[:, None] - sd * node)[..., 0]
        row = mean + node * along
        curve += size * (expand.T @ np.kron(of_cuts, covariance + np.outer(row, row)) @ expand)
        held += expand.T @ np.kron(of_cuts, white.held) @ expand
    least = LEAST_CURVE * float(np.abs(curve).max()) + TINY
    sizes = np.diag(1.0 / np.sqrt(np.maximum(np.diag(curve), least)))
    return limited(np.asarray(sizes @ inverse_root(sizes @ curve @ sizes, 0.0)), held)


def first_cuts(iterate: Iterate, rows: float, cuts: int) -> Floats:
    """Return cut points (k,) from the shares of categories, by scores at slopes of 0.

    A score of a cut is its density times the difference of two categories' frequencies, each over
    the one expected. A share is no less than its noise.
    """
    place, sums, inverse = iterate.place[:cuts], iterate.sums, np.linalg.inv(iterate.root)
    expected_shares, density = probabilities(place), expit(place) * expit(-place)
    expected = information(place[:, None])[..., 0]
    released = (inverse.T @ sums.curvature @ inverse)[:cuts, :cuts] / rows
    weight = float(np.clip(np.trace(released) / np.trace(expected), LEAST_WEIGHT, 1.0))
    steps = -np.tril(np.ones((cuts + 1, cuts)), -1) / density  # (k + 1, k): relative frequencies
    change = expected_shares[:, None] * (steps - expected_shares @ steps) @ inverse.T[:cuts]
    change /= rows * weight
    noise = sums.sds[0] * np.linalg.norm(change, axis=1)
    seen_shares = expected_shares + change @ sums.score
    least = np.maximum(CLEAR * noise, LEAST_SHARE)
    kept_shares = np.maximum(seen_shares, least)
    kept_shares = np.maximum(kept_shares / kept_shares.sum(), LEAST_SHARE)
    return np.asarray(logit(np.cumsum(kept_shares / kept_shares.sum())[:-1]))


def in_order(before: Floats, after: Floats, cuts: int) -> Floats:
    """Return coefficients (p,) after a step, with the gaps between cut points kept positive."""
    gaps = np.maximum(np.diff(after[:cuts]), LEFT * np.diff(before[:cuts]))
    gaps = np.maximum(gaps, LEAST_GAP)
    moved = np.concatenate(([0.0], np.cumsum(gaps)))
    ordered = after.copy()
    ordered[:cuts] = moved + (after[:cuts].mean() - moved.mean())
    return ordered


def changes(place: Floats, white: Whitening, moves: Floats) -> float:
    """Return the largest rms change by moves (m, p): of log gaps, or of rare log odds.

    Their squares are added up.
    """
    eta, cuts = predictors(place, white)[0], len(place) - len(white.root) + 1
    mean, frequent = white.by_intercept()[1], probabilities(eta)
    gaps = np.diff(moves[:, :cuts]) / np.maximum(np.diff(place[:cuts]), TINY)
    ends = moves[:, [0, cuts - 1]] - (moves[:, cuts:] @ mean[1:])[:, None]
    rare = ends[:, frequent[[0, -1]] < RARE]
    each = np.concatenate((gaps, rare), axis=1)
    return float(np.sqrt((each**2).sum(axis=0)).max(initial=0.0))
