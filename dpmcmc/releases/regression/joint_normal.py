"""MCMC-B&S: Gibbs sampling where all sums of squares are approximately normal.

A function of released numbers: free. The sums of n rows (x, y) are taken to be normal, with the
mean and the fourth moments that normal rows have; given them the model is conjugate. Source:
Bernstein and Sheldon 2019, Algorithm 1; thesis B, 7.1.2, with n times its moments.
"""

from dataclasses import dataclass, field

import numpy as np

from dpmcmc.mechanisms.sums import Floats, matrix_of, svec
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.regression.fixed import Drawn, Prior
from dpmcmc.releases.regression.statistics import Noisy
from dpmcmc.releases.regression.wishart import gammas, precisions

LEAST_VALUE = 1e-9  # eigenvalue that drawn sums keep, over their largest


@dataclass
class Gibbs:
    """The state of the chains. theta: (B, d). variance: (B,). covariance: (B, d, d), of covariates.

    mean: (B, d). upper: (B, d, d), upper root of the precision of theta over 1 / variance.
    """

    noisy: Noisy
    prior: Prior
    random: RandomSource
    theta: Floats = field(init=False)
    variance: Floats = field(init=False)
    covariance: Floats = field(init=False)
    mean: Floats = field(init=False)
    upper: Floats = field(init=False)

    def __post_init__(self) -> None:
        if self.noisy.squares is None:
            raise ValueError("the squares of the responses must have been released")
        d = len(self.prior.mean)
        first = np.concatenate([self.noisy.gram, self.noisy.moments[..., None]], axis=-1)
        last = np.concatenate([self.noisy.moments, self.noisy.squares[..., None]], axis=-1)
        self._flat = svec(np.concatenate([first, last[..., None, :]], axis=-2))
        self._variances = self._noise(d)
        self._draw_parameters(_made_positive(matrix_of(self._flat.sum(axis=1), d + 1)))

    def _noise(self, d: int) -> Floats:
        """Return the variances of the noise of the sums, as a flat vector."""
        sds = np.full((d + 1, d + 1), self.noisy.sds[0] * self.noisy.cross)
        np.fill_diagonal(sds, self.noisy.sds[0])
        sds[:d, d] = sds[d, :d] = self.noisy.sds[1]
        sds[d, d] = self.noisy.sds[2]
        return svec(sds) ** 2

    def step(self) -> None:
        """Draw the sums given the parameters, then the parameters given the sums."""
        self._draw_parameters(_made_positive(self._sums()))

    def _sums(self) -> Floats:
        """Return draws (B, d + 1, d + 1) of the exact sums, added over holders."""
        joint = self._joint()
        root, rows = np.linalg.cholesky(joint), self.noisy.rows
        shape = self.noisy.gram.shape[:2]
        upper = self.random.normals((*shape, *joint.shape[1:])) * np.sqrt(rows)[:, None, None]
        turned = root[:, None] @ _even(upper) @ np.swapaxes(root, -1, -2)[:, None]
        drawn = svec(joint)[:, None] * rows[:, None] + svec(turned)
        errors = np.sqrt(self._variances) * self.random.normals(drawn.shape)
        away = self._flat - drawn - errors
        fourth, sums = _fourth(joint), drawn
        for same in np.unique(rows):
            which = rows == same
            covariance = same * fourth + np.eye(fourth.shape[-1]) * self._variances
            solved = np.linalg.solve(covariance, np.swapaxes(away[:, which], -1, -2))
            sums[:, which] += np.swapaxes(same * fourth @ solved, -1, -2)
        return matrix_of(sums.sum(axis=1), joint.shape[-1])

    def _joint(self) -> Floats:
        """Return the covariance (B, d + 1, d + 1) of a row (x, y)."""
        with_y = self.covariance @ self.theta[..., None]
        of_y = (self.theta[:, None] @ with_y)[..., 0] + self.variance[:, None]
        last = np.concatenate([np.swapaxes(with_y, -1, -2), of_y[..., None]], axis=-1)
        return np.concatenate([np.concatenate([self.covariance, with_y], axis=-1), last], axis=-2)

    def _draw_parameters(self, sums: Floats) -> None:
        """Draw the parameters given sums (B, d + 1, d + 1): normal inverse gamma and Wishart."""
        prior, rows, d = self.prior, float(self.noisy.rows.sum()), len(self.prior.mean)
        gram, moments, squares = sums[:, :d, :d], sums[:, :d, d], sums[:, d, d]
        inverse = precisions(prior.spread + gram, prior.degrees + rows, self.random)
        self.covariance = np.asarray(np.linalg.inv(inverse), np.float64)
        precision = prior.precision + gram
        weighted = moments + prior.precision @ prior.mean
        mean = np.linalg.solve(precision, weighted[..., None])[..., 0]
        by_prior = float(prior.mean @ prior.precision @ prior.mean)
        residual = np.maximum(squares + by_prior - (weighted * mean).sum(axis=-1), 0.0)
        shape = np.full(len(residual), prior.shape + 0.5 * rows)
        self.variance = (prior.scale + 0.5 * residual) / gammas(shape, self.random)
        self.mean = np.asarray(mean, np.float64)
        self.upper = np.asarray(np.swapaxes(np.linalg.cholesky(precision), -1, -2), np.float64)
        normals = np.linalg.solve(self.upper, self.random.normals((*mean.shape, 1)))[..., 0]
        self.theta = mean + np.sqrt(self.variance)[:, None] * normals


def _even(upper: Floats) -> Floats:
    """Return symmetric matrices with variance 2 on the diagonal and 1 off it."""
    return np.asarray((upper + np.swapaxes(upper, -1, -2)) / np.sqrt(2.0))


def _fourth(joint: Floats) -> Floats:
    """Return the covariance of svec(w w') for rows w ~ N(0, joint), by Isserlis' theorem."""
    rows, columns = np.triu_indices(joint.shape[-1])
    size = np.where(rows == columns, 1.0, np.sqrt(2.0))
    first = joint[:, rows[:, None], rows] * joint[:, columns[:, None], columns]
    second = joint[:, rows[:, None], columns] * joint[:, columns[:, None], rows]
    return np.asarray((first + second) * size[:, None] * size)


def _made_positive(sums: Floats) -> Floats:
    """Return the nearest positive definite matrices of sums."""
    values, vectors = np.linalg.eigh(sums)
    values = np.maximum(values, LEAST_VALUE * values[..., -1:])
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def walk(noisy: Noisy, prior: Prior, steps: int, warmup: int, random: RandomSource) -> Drawn:
    """Return the states after warm-up, one chain for each of B noisy releases.

    The prior of coefficients is conjugate: N(mean, variance times the inverse of precision).
    Raises ValueError where y'y was not released.
    """
    chains, thetas, variances = Gibbs(noisy, prior, random), [], []
    for at in range(steps):
        chains.step()
        if at >= warmup:
            thetas.append(chains.theta)
            variances.append(chains.variance)
    return Drawn(np.array(thetas), np.array(variances))
