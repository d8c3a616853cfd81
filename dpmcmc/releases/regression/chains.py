"""Markov chains on noisy sums of squares: MCMC-normalX and MCMC-fixedS.

Functions of released numbers: free. One chain for each leading index of the sums, all moved at
once. Source: thesis B, Algorithms 14 to 17; adaptation: Andrieu and Thoms 2008, Algorithm 4,
during the warm-up alone, so that what is kept is of one Markov kernel.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.regression.fixed import Drawn, Prior, nearest
from dpmcmc.releases.regression.statistics import Noisy
from dpmcmc.releases.regression.wishart import moved, precisions

TARGET_GRAM, TARGET_VARIANCE = 0.234, 0.44  # acceptance: of matrices, of a number
FIRST_DEGREES, FIRST_STEP = 6.0, 0.5  # log of the proposal's; of a variance, in its own size
FIRST_RATE, RATE, DEGREES = 4.0, 0.6, (0.0, 30.0)  # of adaptation, and its ends
LEAST_VALUE = 1e-6  # of a first matrix' eigenvalues, over the largest


@dataclass
class Chains:
    """The state of B chains over J holders and d coefficients.

    gram: (B, J, d, d). theta: (B, d). variance: (B,). log_degrees: (B, J), of the Wishart
    proposal beyond d. log_step: (B,), of a variance. moving: whether X'X is updated, which takes
    covariates to be normal (Algorithm 16), or held at its estimate (Algorithm 17).
    """

    noisy: Noisy
    prior: Prior
    random: RandomSource
    moving: bool
    gram: Floats = field(init=False)
    theta: Floats = field(init=False)
    variance: Floats = field(init=False)
    log_degrees: Floats = field(init=False)
    log_step: Floats = field(init=False)
    steps: int = field(init=False, default=0)
    accepted: Floats = field(init=False)

    def __post_init__(self) -> None:
        values, vectors = nearest(self.noisy.gram)
        if self.moving:
            values = np.maximum(values, LEAST_VALUE * values[..., -1:] + self.noisy.sds[0])
        self.gram = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        count, holders = self.gram.shape[:2]
        self.theta = np.broadcast_to(self.prior.mean, (count, len(self.prior.mean))).copy()
        self.variance = np.full(count, self.prior.scale / (self.prior.shape + 1.0))
        self.log_degrees = np.full((count, holders), FIRST_DEGREES)
        self.log_step = np.full(count, np.log(FIRST_STEP))
        self.accepted = np.zeros((count, holders))

    def step(self, *, adapt: bool) -> None:
        """Update all variables once. adapt: whether step sizes are tuned, in the warm-up."""
        self.steps += 1
        if self.moving:
            self._move_gram(adapt=adapt)
        self._draw_theta()
        self._move_variance(adapt=adapt)

    def _move_gram(self, *, adapt: bool) -> None:
        """Update X'X of all holders (Algorithm 14), given the covariates' covariance."""
        d, rows = self.gram.shape[-1], self.noisy.rows
        spread = self.prior.spread + self.gram.sum(axis=1)
        precision = precisions(spread, self.prior.degrees + float(rows.sum()), self.random)
        degrees = d + np.exp(self.log_degrees)
        proposal, log_size, log_ratio = moved(self.gram, degrees, self.random)
        log_ratio += 0.5 * (rows - d - 1.0) * log_size
        log_ratio -= 0.5 * np.einsum("bde,bjde->bj", precision, proposal - self.gram)
        log_ratio += self.log_likelihood(proposal) - self.log_likelihood(self.gram)
        chance, taken = decided(log_ratio, self.random)
        self.gram = np.where(taken[..., None, None], proposal, self.gram)
        self.accepted += taken
        if adapt:
            self.log_degrees -= self.rate() * (chance - TARGET_GRAM)
            self.log_degrees = np.clip(self.log_degrees, *DEGREES)

    def _draw_theta(self) -> None:
        """Draw theta from its conditional: Proposition 3."""
        mean, upper = self.conditional()
        normals = self.random.normals(mean.shape)
        self.theta = (mean + np.linalg.solve(upper, normals))[..., 0]

    def conditional(self) -> tuple[Floats, Floats]:
        """Return theta's conditional mean (B, d, 1) and precision root (B, d, d): Proposition 3."""
        inner = np.linalg.solve(self._total(self.gram, self.variance), self.gram)
        precision = (self.gram @ inner).sum(axis=1) + self.prior.precision
        weighted = np.einsum("bjde,bjd->be", inner, self.noisy.moments)
        weighted = weighted + self.prior.precision @ self.prior.mean
        precision = 0.5 * (precision + np.swapaxes(precision, -1, -2))
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, weighted[..., None])
        return mean, np.swapaxes(root, -1, -2)

    def _move_variance(self, *, adapt: bool) -> None:
        """Update the residual variance: Algorithm 15."""
        step = np.exp(self.log_step) * self.random.normals(self.variance.shape)
        proposal = self.variance + step * self.prior.scale / (self.prior.shape + 1.0)
        positive, proposal = proposal > 0.0, np.where(proposal > 0.0, proposal, self.variance)
        log_ratio = self._log_variance(proposal) - self._log_variance(self.variance)
        chance, taken = decided(np.where(positive, log_ratio, -np.inf), self.random)
        self.variance = np.where(taken, proposal, self.variance)
        if adapt:
            self.log_step += self.rate() * (chance - TARGET_VARIANCE)

    def rate(self) -> float:
        """Return the decreasing adaptation rate of this step."""
        return float(FIRST_RATE * (self.steps + 1.0) ** -RATE)

    def log_likelihood(self, gram: Floats) -> Floats:
        """Return the log density (B, J) of what was released, given X'X and the parameters."""
        return self._log_gram(gram) + self._log_moments(gram, self.variance)

    def _log_gram(self, gram: Floats) -> Floats:
        """Return the log density (B, J) of the released X'X given the real one."""
        away = ((self.noisy.gram - gram) / self.noisy.sds[0]) ** 2
        diagonal = np.einsum("...dd->...", away)
        across = (away.sum(axis=(-1, -2)) - diagonal) / (2.0 * self.noisy.cross**2)
        return np.asarray(-0.5 * (diagonal + across))

    def _log_moments(self, gram: Floats, variance: Floats) -> Floats:
        """Return the log density (B, J) of the released X'y given theta."""
        root = np.linalg.cholesky(self._total(gram, variance))
        away = self.noisy.moments - np.einsum("bjde,be->bjd", gram, self.theta)
        errors = np.linalg.solve(root, away[..., None])[..., 0]
        sizes = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.asarray(-0.5 * (errors**2).sum(axis=-1) - sizes)

    def _log_variance(self, variance: Floats) -> Floats:
        """Return the log density (B,) of the residual variance given the rest."""
        prior = -(self.prior.shape + 1.0) * np.log(variance) - self.prior.scale / variance
        return np.asarray(prior + self._log_moments(self.gram, variance).sum(axis=1))

    def _total(self, gram: Floats, variance: Floats) -> Floats:
        """Return the covariance (B, J, d, d) of the released X'y: variance * X'X + noise."""
        noise = self.noisy.sds[1] ** 2 * np.eye(gram.shape[-1])
        return np.asarray(variance[:, None, None, None] * gram + noise)

    def walk(self, steps: int, warmup: int, thin: int) -> Drawn:
        """Return every thin-th state after warm-up."""
        thetas, variances = [], []
        for at in range(steps):
            self.step(adapt=at < warmup)
            if at >= warmup and (at - warmup) % thin == 0:
                thetas.append(self.theta)
                variances.append(self.variance)
        return Drawn(np.array(thetas), np.array(variances))


def decided(log_ratio: Floats, random: RandomSource) -> tuple[Floats, NDArray[np.bool_]]:
    """Return acceptance probabilities and decisions; a NaN ratio is rejected."""
    chance = np.exp(np.minimum(np.nan_to_num(log_ratio, nan=-np.inf), 0.0))
    return chance, random.uniforms(chance.shape) < chance


def walk(
    noisy: Noisy,
    prior: Prior,
    steps: int,
    warmup: int,
    random: RandomSource,
    *,
    moving: bool,
    thin: int = 1,
) -> Drawn:
    """Return every thin-th state after warm-up, one chain for each of B noisy releases.

    noisy: with one leading axis. moving: MCMC-normalX, which takes covariates to be normal about 0;
    else MCMC-fixedS. Draws of a chain depend on each other.
    """
    return Chains(noisy, prior, random, moving).walk(steps, warmup, thin)
