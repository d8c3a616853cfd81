"""Posteriors of coefficients given noisy sums of squares, with X'X held at its estimate.

Functions of released numbers: free. Given S = X'X, X'y is N(S theta, variance S), and the released
moments have noise on top. Source: thesis B, Proposition 3 with the prior's mean inside the
bracket, Algorithms 17 and 18 with the mean returned. All arrays may have leading axes.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.regression.statistics import Noisy

SMALLEST_DIVISOR = 1e-300
ROUNDS, LEAST_VARIANCE = 4, 1e-6
GRID, LEAST_DENSITY = 200, 1e-10  # log variances; part of the largest density where they end
COARSE, LOOKS, WIDE = 60, 2, 30.0  # of the search for where the density is, and its half width


@dataclass(frozen=True, slots=True)
class Prior:
    """theta ~ N(mean, inverse of precision), variance ~ inverse gamma(shape, scale).

    Covariates ~ N(0, covariance), covariance ~ inverse Wishart(spread, degrees): of the methods
    that model them. mean: (d,). precision, spread: (d, d). log_variance: mean and sd of the log of
    the variance, whose prior is normal where that is asked for.
    """

    mean: Floats
    precision: Floats
    shape: float
    scale: float
    spread: Floats
    degrees: float
    log_variance: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Normals:
    """Normal distributions of coefficients. mean: (..., d). covariance: (..., d, d)."""

    mean: Floats
    covariance: Floats

    def draws(self, count: int, random: RandomSource) -> Floats:
        """Return independent draws (count, ..., d)."""
        root = np.linalg.cholesky(self.covariance)
        normals = random.normals((count, *self.mean.shape))
        return np.asarray(self.mean + (root @ normals[..., None])[..., 0])


@dataclass(frozen=True, slots=True)
class Drawn:
    """Draws of a posterior. coefficients: (count, ..., d). variances: (count, ...)."""

    coefficients: Floats
    variances: Floats


@dataclass(frozen=True, slots=True)
class _Turned:
    """Noisy sums in the eigenbasis of the nearest positive semidefinite X'X, for each holder."""

    values: Floats  # (..., J, d)
    vectors: Floats  # (..., J, d, d)
    moments: Floats  # (..., J, d)


def nearest(gram: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues and vectors of the nearest positive semidefinite matrices.

    In the Frobenius norm (Higham 1988); the likeliest ones where noise is the same in all
    directions, as that of a release is.
    """
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values, 0.0), vectors


def fixed_s_fast(noisy: Noisy, prior: Prior, variance: float) -> Normals:
    """Return the posterior at a given residual variance: Bayes-fixedS-fast."""
    return _posterior_at(_turned(noisy), noisy.sds[1], prior, np.asarray(variance))[0]


def fixed_s(noisy: Noisy, prior: Prior, count: int, random: RandomSource) -> Drawn:
    """Return independent draws of the posterior that MCMC-fixedS samples by a chain.

    Coefficients are integrated out, the log variance is drawn by quadrature on a fine grid.
    """
    normal, variances = conditionals(noisy, prior, count, random)
    return Drawn(normal.draws(1, random)[0], variances)


def conditionals(
    noisy: Noisy, prior: Prior, count: int, random: RandomSource
) -> tuple[Normals, Floats]:
    """Return draws (count, ...) of the variance, and the conditional normals of coefficients."""
    turned, sd = _turned(noisy), noisy.sds[1]
    middle = math.log(prior.scale / prior.shape)
    nodes, step = _nodes(turned, sd, prior, middle)
    log_density = np.stack([_log_density(turned, sd, prior, node) for node in nodes])
    weights = np.exp(log_density - log_density.max(axis=0))
    sums = np.cumsum(weights, axis=0)
    uniforms = random.uniforms((count, *sums.shape[1:]))
    which = (uniforms[:, None] * sums[-1] > sums).sum(axis=1)
    at = np.take_along_axis(nodes[None], which[:, None], axis=1)[:, 0]
    variances = np.exp(at + step * (random.uniforms(at.shape) - 0.5))
    return _posterior_at(turned, sd, prior, variances)[0], variances


def informed(
    noisy: Noisy, prior: Prior, least: float = LEAST_VARIANCE, known: float | None = None
) -> tuple[Normals, float]:
    """Return Bayes-fixedS-fast at the variance estimated from y'y, with the noise of X'X.

    noisy: of one release. least: of the variance. known: the variance, where y'y was not released.
    The error of X'X theta adds to that of X'y, which the source leaves out: intervals that are to
    hold the truth need it. Also returns the variance. Raises ValueError where neither y'y was
    released nor the variance is known.
    """
    rows, sums = float(noisy.rows.sum()), noisy.total

    def variance_at(theta: Floats) -> float:
        """Return the residual variance estimated at coefficients theta."""
        if sums.squares is None:
            if known is None:
                raise ValueError("the squares of the responses must have been released")
            return known
        residual = sums.squares[0] - theta @ (2.0 * sums.moments[0] - sums.gram[0] @ theta)
        return max(float(residual) / rows, least)

    variance = variance_at(np.zeros(noisy.gram.shape[-1]))
    normal = fixed_s_fast(noisy, prior, variance)
    for _ in range(ROUNDS):
        theta = normal.mean
        variance = variance_at(theta)
        normal = fixed_s_fast(_uncertain(noisy, theta), prior, variance)
    return normal, variance


def _uncertain(noisy: Noisy, theta: Floats) -> Noisy:
    """Return sums whose moments have the error of X'X theta added, isotropically.

    Noise M of sd 1 on the diagonal and c elsewhere has E |M theta|^2 = |theta|^2 (1 + (d - 1) c^2).
    """
    d = len(theta)
    more = float(theta @ theta) * (1.0 + (d - 1.0) * noisy.cross**2) / d
    sds = noisy.sds[0], math.hypot(noisy.sds[1], noisy.sds[0] * math.sqrt(more)), noisy.sds[2]
    return replace(noisy, sds=sds)


def _turned(noisy: Noisy) -> _Turned:
    """Return the sums in the eigenbasis of the nearest positive semidefinite X'X."""
    values, vectors = nearest(noisy.gram)
    return _Turned(values, vectors, np.einsum("...dk,...d->...k", vectors, noisy.moments))


def _posterior_at(
    turned: _Turned, sd: float, prior: Prior, variance: Floats
) -> tuple[Normals, Floats, Floats]:
    """Return the posterior at a variance, with weighted moments and prior precision times mean."""
    total = np.maximum(variance[..., None, None] * turned.values + sd * sd, SMALLEST_DIVISOR)
    likelihood = np.einsum(
        "...jdk,...jk,...jek->...de", turned.vectors, turned.values**2 / total, turned.vectors
    )
    moments = np.einsum(
        "...jdk,...jk->...d", turned.vectors, turned.values / total * turned.moments
    )
    precision = likelihood + prior.precision
    weighted = moments + prior.precision @ prior.mean
    covariance = np.linalg.inv(precision)
    covariance = 0.5 * (covariance + np.swapaxes(covariance, -1, -2))
    mean = (covariance @ weighted[..., None])[..., 0]
    return Normals(mean, covariance), weighted, total


def _log_density(turned: _Turned, sd: float, prior: Prior, log_variance: Floats) -> Floats:
    """Return the log density of the log variance given the moments, up to a constant."""
    normal, weighted, total = _posterior_at(turned, sd, prior, np.exp(log_variance))
    errors = (np.log(total) + turned.moments**2 / total).sum(axis=(-1, -2))
    gain = np.linalg.slogdet(normal.covariance)[1] + (weighted * normal.mean).sum(axis=-1)
    log_prior = -prior.shape * log_variance - prior.scale * np.exp(-log_variance)
    return np.asarray(0.5 * (gain - errors) + log_prior)


def _nodes(turned: _Turned, sd: float, prior: Prior, middle: float) -> tuple[Floats, Floats]:
    """Return log variances (GRID, ...) that cover their density, and their spacing (...)."""
    shape = turned.moments.shape[:-2]
    low, high = np.full(shape, middle - WIDE), np.full(shape, middle + WIDE)
    for _ in range(LOOKS):
        nodes = np.linspace(low, high, COARSE)
        density = np.stack([_log_density(turned, sd, prior, node) for node in nodes])
        likely = density > density.max(axis=0) + math.log(LEAST_DENSITY)
        step = (high - low) / (COARSE - 1)
        low = np.where(likely, nodes, np.inf).min(axis=0) - step
        high = np.where(likely, nodes, -np.inf).max(axis=0) + step
    return np.linspace(low, high, GRID), (high - low) / (GRID - 1)
