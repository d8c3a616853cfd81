"""Log odds of rare responses: exact updates where a Newton step would overshoot.

A Newton step takes the mean response to be linear in the intercept: from a share of a half to one
of a hundredth it makes seven steps of about 1. The mean residual says the share at once. Curvatures
of rare responses hardly stand out of their noise, and are expected from the place and the
covariates.
"""

import math

import numpy as np

from dpmcmc.families.multinomial import averaged, probabilities
from dpmcmc.families.scores.base import Family
from dpmcmc.families.scores.given import most_of, shift_of, usual_of
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases.quadratic_steps import Iterate
from dpmcmc.releases.whitening import Whitening

FAR = 2.0  # of log odds, that Newton steps find by themselves
LEAST_WEIGHT = 0.1  # of a row in the score
LEAST_SHARE = 1e-9
RARE = 0.05  # share of a response, below which curvatures are too noisy to be round by
LARGEST_CHANGE = 1e3  # of log odds, where the rows tell nothing


def shift(
    eta: Floats, residual: Floats, sd: Floats, slope: Floats, heaviest: float
) -> tuple[Floats, Floats] | None:
    """Return changes of log odds (k,) and a row's slope (k, k) there; None if the step is small.

    eta: (k,) predictors of the mean row. residual, sd: (k,) mean residuals, weighted, and sds of
    their noise. slope: (k, k), the mean weighted slope. heaviest: largest weight of a row.
    """
    first, q = (part[..., 0] for part in probabilities(eta[:, None]))
    of_model = np.diag(q) - np.outer(q, q)
    weight = float(np.clip(np.trace(slope) / np.trace(of_model), LEAST_WEIGHT, heaviest))
    least = np.maximum(sd / weight, LEAST_SHARE)
    shares = np.maximum(q + residual / weight, least)
    rest = max(float(first - residual.sum() / weight), float(least.max()))
    change = np.log(shares / rest) - np.log(q / first)
    if np.abs(change).max() <= FAR:
        return None
    shares = shares / (shares.sum() + rest)
    return change, np.diag(shares) - np.outer(shares, shares)


def moved(
    iterate: Iterate, white: Whitening, family: Family, rows: float, first: int = 0
) -> tuple[Floats, Floats] | None:
    """Return moves (k d,) of the intercepts and a row's slope (k, k) there; None if small.

    The first column is the intercept. first: which predictors are log odds, from there on; those
    behind the first have no offsets.
    """
    mean, inverse, sums = white.moments()[0], np.linalg.inv(iterate.root), iterate.sums
    chosen = slice(first * len(mean), None, len(mean))
    change = shift(
        iterate.place.reshape(-1, len(mean))[first:] @ mean + (0.0 if first else shift_of(family)),
        (inverse.T @ sums.score)[chosen] / rows,
        sums.sds[0] * np.linalg.norm(inverse[:, chosen], axis=0) / rows,
        (inverse.T @ sums.curvature @ inverse)[chosen, chosen] / rows,
        most_of(family),
    )
    if change is None:
        return None
    move = np.zeros(len(iterate.place))
    move[chosen] = change[0]
    return move, usual_of(family) * change[1]


def expected(place: Floats, white: Whitening, family: Family) -> Floats | None:
    """Return the mean curvature (k d, k d) of a row if a response is rare; else None.

    place: (k d,) coefficients, the first of each k the intercept. Rows with a rare response have
    other covariates than most: those of normal ones are shifted by their covariance times the
    coefficients, by no more than an sd.
    """
    second = white.moments()
    mean, places = second[0], place.reshape(-1, len(second))
    covariance = second - np.outer(mean, mean)
    eta, spread = places @ mean + shift_of(family), places @ covariance @ places.T
    first, q = (part[..., 0] for part in averaged(eta[:, None], spread[..., None]))
    if min(float(first), float(q.min())) > RARE:
        return None
    most = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    shifted = mean + np.clip((1.0 - 2.0 * q)[:, None] * (places @ covariance), -most, most)
    moments = covariance + shifted[:, :, None] * shifted[:, None, :]
    slopes = usual_of(family) * (np.diag(q) - np.outer(q, q))
    blocks = slopes[:, :, None, None] * 0.5 * (moments[:, None] + moments[None])
    return np.asarray(blocks.transpose(0, 2, 1, 3).reshape(place.size, place.size))


def changes(curvature: Floats, rows: float, moves: Floats) -> float:
    """Return the rms change of log odds by moves, in rows with a rare response.

    The largest over responses; 0 where none is rare. curvature: (k d, k d) by coefficients whose
    first column is the intercept: its diagonal there is the sum of slopes. moves: (m, k, d), whose
    squares are added up. rows: as many as count in the curvature.
    """
    k, d = moves.shape[1:]
    blocks = curvature.reshape(k, d, k, d)
    largest = 0.0
    for slopes, moved in [
        *((blocks[c, :, c], moves[:, c]) for c in range(k)),
        (blocks.sum(axis=(0, 2)), moves.mean(axis=1)),  # of the reference
    ]:
        if slopes[0, 0] < RARE * (1.0 - RARE) * rows:
            square = float(np.einsum("md,de,me->", moved, slopes, moved))
            change = max(square, 0.0) / max(float(slopes[0, 0]), LEAST_SHARE * rows)
            largest = max(largest, math.sqrt(min(change, LARGEST_CHANGE**2)))
    return largest
