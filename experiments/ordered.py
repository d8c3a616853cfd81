"""Responses of ordered categories for experiments: draws, and fits without privacy.

Coefficients are cuts, in order, and then slopes (p,); x (d, n) has ones first.
"""

import numpy as np
from scipy.special import expit

from dpmcmc.families.ordinal import probabilities
from dpmcmc.formula.cuts import spread_out


def predictors(x, theta):
    """Predictors (k, n) of each cut."""
    return (spread_out(len(theta) - len(x) + 1, len(x)) @ theta).reshape(-1, len(x)) @ x


def drawn(x, theta, rng):
    """Codes (n,) of categories."""
    ends = np.cumsum(probabilities(predictors(x, theta)), axis=0)[:-1]
    return (rng.random(x.shape[1]) > ends).sum(axis=0).astype(float)


def told(x, y, theta):
    """Scores (n, p) of rows, and minus the Hessian (p, p) of the log likelihood of all."""
    codes, every = y.astype(int), np.arange(len(y))
    k, d, edge = len(theta) - len(x) + 1, len(x), np.full(len(y), np.inf)
    eta = np.vstack([-edge, predictors(x, theta), edge])
    low, high = (expit(eta[codes + side, every]) for side in (0, 1))
    ways = np.zeros((k + 2, len(y), len(theta)))
    ways[1:-1] = np.einsum("cdp,dn->cnp", spread_out(k, d).reshape(k, d, -1), x)
    lower, upper = ways[codes, every], ways[codes + 1, every]
    mass, first, second = high - low, high * (1.0 - high), low * (1.0 - low)
    scores = (first[:, None] * upper - second[:, None] * lower) / mass[:, None]
    bent = (upper * (first * (1.0 - 2.0 * high) / mass)[:, None]).T @ upper
    bent -= (lower * (second * (1.0 - 2.0 * low) / mass)[:, None]).T @ lower
    return scores, scores.T @ scores - bent


def fitted(x, y, precision=1e-9):
    """Mode and sds (p,) of the posterior under Normal(0, 1 / precision), by Newton's method."""
    k, held = int(y.max()), precision * np.eye(int(y.max()) + len(x) - 1)
    shares = np.cumsum(np.bincount(y.astype(int)))[:-1] / len(y)
    theta = np.concatenate((np.log(shares / (1.0 - shares)), np.zeros(len(x) - 1)))
    for _ in range(60):
        scores, whole = told(x, y, theta)
        step = np.linalg.solve(whole + held, scores.sum(axis=0) - precision * theta)
        while (np.diff(theta[:k] + step[:k]) <= 0.0).any():
            step = 0.5 * step
        theta = theta + step
    return theta, np.sqrt(np.diag(np.linalg.inv(told(x, y, theta)[1] + held)))
