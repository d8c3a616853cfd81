"""The posterior of a log-linear model given noisy marginals, and draws from it.

The counts of n rows are normal about n mu(theta) with covariance n Sigma(theta) (central limit
theorem), and the released counts add noise of sd sigma: y ~ N(n mu(theta), n Sigma + sigma^2 I).
The prior of theta is N(0, PRIOR_SD^2) in each entry. Sigma is held at the mode. Draws are by
Hamiltonian Monte Carlo, in the coordinates of the curvature at the mode. All of it is
post-processing of released counts. Source: Räisä et al. 2023 (NAPSU-MQ).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import ndtri

from dpmcmc.base.loading import loaded
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.synthetic.loglinear import LogLinear

Floats = NDArray[np.float64]
PRIOR_SD = 2.0  # wide: a log odds ratio has twice that or more
RIDGE, STEPS, CLOSE = 1.0, 60, 1e-2  # of the search for the mode
MAX_STEP_HALVINGS = 30
FIRST_STEP, WANTED = 0.3, 0.8  # step size of HMC and its rate of acceptance
START_SPREAD = 0.1  # of the sds at the mode
SHORTEST, LONGEST = 6, 18  # leapfrog steps of a trajectory
CHAINS, WARM = 4, 60  # moves of each warm-up
PASSES = 3  # while chains do not agree, each twice as long as the one before
MAX_RHAT = 1.2  # largest R-hat of a cell of the marginals that counts as mixed
MOST_COMPARED = 1000  # moves that an R-hat is of, evenly spaced, so that it fits into memory


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """What was released of a log-linear model. counts: (entries,), noisy. sd: of their noise.

    rows: how many there are, public.
    """

    model: LogLinear
    counts: Floats
    sd: float
    rows: int


def mode(noisy: NoisyMarginals) -> Floats:
    """Return the mode of the posterior."""
    theta = _smooth(noisy)
    for _ in range(STEPS):
        inverse = np.asarray(np.linalg.inv(_spread(noisy, theta)), np.float64)
        log_density = _log_density(noisy, inverse)
        p = noisy.model.probabilities(theta)
        slope = noisy.rows * noisy.model.covariance(p)
        gradient = slope @ inverse @ _residual(noisy, p) - theta / PRIOR_SD**2
        precision = slope @ inverse @ slope + np.eye(len(theta)) / PRIOR_SD**2
        step = np.asarray(np.linalg.solve(precision, gradient), np.float64)
        theta, gain = _uphill(log_density, theta, step)
        if gain < CLOSE:
            break
    return theta


def _smooth(noisy: NoisyMarginals) -> Floats:
    """Return a first estimate of theta: ridge-penalised maximum entropy, a convex problem."""
    model, n = noisy.model, noisy.rows
    theta = np.zeros(len(noisy.counts))

    def log_density(theta: Floats) -> float:
        """Return the penalised log likelihood at theta."""
        logits = model.by_cell @ theta
        top = float(logits.max())
        total = math.log(float(np.exp(logits - top).sum())) + top
        return float(noisy.counts @ theta) - n * total - 0.5 * penalty * float(theta @ theta)

    penalty = max(RIDGE, noisy.sd)
    for _ in range(STEPS):
        p = model.probabilities(theta)
        gradient = _residual(noisy, p) - penalty * theta
        precision = n * model.covariance(p) + penalty * np.eye(len(theta))
        step = np.asarray(np.linalg.solve(precision, gradient), np.float64)
        theta, gain = _uphill(log_density, theta, step)
        if gain < CLOSE:
            break
    return theta


def _residual(noisy: NoisyMarginals, p: Floats) -> Floats:
    """Return released counts minus expected ones."""
    return np.asarray(noisy.counts - noisy.rows * (noisy.model.by_entry @ p))


def _spread(noisy: NoisyMarginals, theta: Floats) -> Floats:
    """Return the covariance of released counts: of rows and noise."""
    covariance = noisy.model.covariance(noisy.model.probabilities(theta))
    return noisy.rows * covariance + noisy.sd**2 * np.eye(len(theta))


def _log_density(noisy: NoisyMarginals, inverse: Floats) -> Callable[[Floats], float]:
    """Return the log density of theta for a fixed covariance."""

    def log_density(theta: Floats) -> float:
        """Return the log density at theta."""
        residual = _residual(noisy, noisy.model.probabilities(theta))
        return -0.5 * float(residual @ inverse @ residual + theta @ theta / PRIOR_SD**2)

    return log_density


def _uphill(
    log_density: Callable[[Floats], float], theta: Floats, step: Floats
) -> tuple[Floats, float]:
    """Return a theta along the step with a higher density, and the gain of the log density."""
    before = log_density(theta)
    for k in range(MAX_STEP_HALVINGS):
        after = log_density(theta + 0.5**k * step)
        if after > before:
            return theta + 0.5**k * step, after - before
    return theta, 0.0


class Walk:
    """Chains of Hamiltonian Monte Carlo, side by side, in whitened coordinates about the mode."""

    def __init__(self, noisy: NoisyMarginals, chains: int, random: RandomSource) -> None:
        self.noisy, self.random = noisy, random
        self.centre, self.step_size = mode(noisy)[:, None], FIRST_STEP
        self._whiten(self.centre)
        self.z = START_SPREAD * random.normals((len(self.centre), chains))
        self.log_density, self.gradient = self._at(self.z)

    def _whiten(self, thetas: Floats) -> None:
        """Set the counts' covariance and whitened coordinates, averaged over (entries, k)."""
        model, n = self.noisy.model, self.noisy.rows
        slopes = [n * model.covariance(p) for p in model.probabilities(thetas).T]
        spread = sum(slopes) / len(slopes) + self.noisy.sd**2 * np.eye(len(thetas))
        factor, eye = cho_factor(spread), np.eye(len(thetas))
        precision = sum(slope @ cho_solve(factor, slope) for slope in slopes) / len(slopes)
        self.root = cholesky(precision + eye / PRIOR_SD**2)  # upper
        # products with small inverses take a tenth of the time of the solves that they replace
        self.unroot, self.inverse = solve_triangular(self.root, eye), cho_solve(factor, eye)

    def theta(self, z: Floats) -> Floats:
        """Return parameters (entries, chains) of whitened coordinates."""
        return np.asarray(self.centre + self.unroot @ z)

    def _at(self, z: Floats) -> tuple[Floats, Floats]:
        """Return log densities (chains,) and gradients in z."""
        model, n = self.noisy.model, self.noisy.rows
        theta = self.theta(z)
        p = model.probabilities(theta)
        residual = self.noisy.counts[:, None] - n * (model.by_entry @ p)
        weighed = self.inverse @ residual
        along = model.by_cell @ weighed
        gradient = n * (model.by_entry @ (p * (along - (p * along).sum(axis=0))))
        gradient -= theta / PRIOR_SD**2
        log_density = -0.5 * (
            (residual * weighed).sum(axis=0) + (theta**2).sum(axis=0) / PRIOR_SD**2
        )
        return log_density, self.unroot.T @ gradient

    def move(self) -> Floats:
        """Make one HMC step of each chain. Return the acceptance probabilities (chains,)."""
        momentum = self.random.normals(self.z.shape)
        length = SHORTEST + int(self.random.integers(LONGEST - SHORTEST + 1, (1,))[0])
        energy = self.log_density - 0.5 * (momentum**2).sum(axis=0)
        z, gradient, log_density = self.z, self.gradient, self.log_density
        for _ in range(length):
            momentum = momentum + 0.5 * self.step_size * gradient
            z = z + self.step_size * momentum
            log_density, gradient = self._at(z)
            momentum = momentum + 0.5 * self.step_size * gradient
        change = log_density - 0.5 * (momentum**2).sum(axis=0) - energy
        accept = np.exp(np.minimum(np.where(np.isfinite(change), change, -np.inf), 0.0))
        accepted = self.random.uniforms(accept.shape) < accept
        self.z = np.where(accepted, z, self.z)
        self.gradient = np.where(accepted, gradient, self.gradient)
        self.log_density = np.where(accepted, log_density, self.log_density)
        return np.asarray(accept)

    def warm_up(self, moves: int) -> None:
        """Move, and adapt the step size towards the wanted acceptance (Robbins and Monro 1951).

        Twice: the second time in coordinates of the mean curvature where the first time ended.
        """
        self._adapt(moves)
        theta = self.theta(self.z)
        self._whiten(theta)
        self.z, self.step_size = self.root @ (theta - self.centre), FIRST_STEP
        self.log_density, self.gradient = self._at(self.z)
        self._adapt(moves)

    def _adapt(self, moves: int) -> None:
        """Adapt the step size to the acceptance over some moves."""
        for k in range(moves):
            rate = float(self.move().mean())
            self.step_size *= math.exp((rate - WANTED) / math.sqrt(k + 1.0))


def draws(
    noisy: NoisyMarginals, count: int, moves: int, random: RandomSource
) -> tuple[Floats, float]:
    """Return parameters (count, entries), drawn from the posterior, and R-hat.

    Not the probabilities of all cells, which many tables of many cells have no memory for.

    moves: of each of CHAINS chains after its warm-up, at least count / CHAINS. Where the chains do
    not agree these moves count as warm-up and twice as many follow, PASSES times in all. The R-hat
    is the largest of the marginals' probabilities. Costs nothing.
    """
    walk = Walk(noisy, CHAINS, random)
    walk.warm_up(WARM)
    kept_moves = -(-count // CHAINS)
    for k in range(PASSES):
        thinning = max(1, 2**k * moves // kept_moves)
        thetas, marginals = _moved(walk, kept_moves, thinning)
        largest = r_hat(marginals)
        if largest <= MAX_RHAT:
            break
    return thetas[:count], largest


def _moved(walk: Walk, count: int, thinning: int) -> tuple[Floats, Floats]:
    """Return parameters, and probabilities of marginals, of chains that move.

    Parameters (chains * count, entries) after every `thinning` moves; probabilities (moves,
    entries, chains) after every move, or after as many as leave MOST_COMPARED.
    """
    model, kept, marginals = walk.noisy.model, [], []
    compared = -(-thinning * count // MOST_COMPARED)
    for k in range(1, thinning * count + 1):
        walk.move()
        theta = walk.theta(walk.z)
        if k % compared == 0:
            marginals.append(model.by_entry @ model.probabilities(theta))
        if k % thinning == 0:
            kept.append(theta.T)
    return np.concatenate(kept), np.stack(marginals)


def r_hat(draws: Floats) -> float:
    """Return the largest rank-normalised split R-hat of draws (draw, quantity, chain).

    Source: Vehtari et al. 2021.
    """
    half = len(draws) // 2
    halves = np.concatenate((draws[:half], draws[half : 2 * half]), axis=2)
    together = halves.transpose(1, 0, 2).reshape(halves.shape[1], -1)
    ranks = (
        loaded("scipy.stats").rankdata(together, axis=1).reshape(len(together), *halves.shape[::2])
    )
    halves = ndtri((ranks - 0.375) / (together.shape[1] + 0.25)).transpose(1, 0, 2)
    inside, means = halves.var(axis=0, ddof=1).mean(axis=1), halves.mean(axis=0)
    ratio = means.var(axis=1, ddof=1) / np.maximum(inside, 1e-300)
    return float(np.sqrt((half - 1.0) / half + ratio).max())
