"""The posterior of a log-linear model given noisy marginals, and draws from it.

The counts of n rows are normal about n mu(theta) with covariance n Sigma(theta) (central limit
theorem), and the released counts add noise of sd sigma: y ~ N(n mu(theta), n Sigma + sigma^2 I).
The prior of theta is N(0, PRIOR_SD^2) in each entry. Sigma is held at the mode. Draws are by
Hamiltonian Monte Carlo, in the coordinates of the curvature at the mode. All of it is made of what
was known. Source: Räisä et al. 2023 (NAPSU-MQ).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

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


@dataclass(frozen=True, eq=False)
class Known:
    """What was released of a log-linear model. counts: (entries,), noisy. sd: of their noise.

    rows: how many there are, public.
    """

    model: LogLinear
    counts: Floats
    sd: float
    rows: int


def mode(known: Known) -> Floats:
    """Return the mode of the posterior."""
    theta = _smooth(known)
    for _ in range(STEPS):
        inverse = np.asarray(np.linalg.inv(_spread(known, theta)), np.float64)
        log_density = _log_density(known, inverse)
        p = known.model.probabilities(theta)
        slope = known.rows * known.model.covariance(p)
        gradient = slope @ inverse @ _residual(known, p) - theta / PRIOR_SD**2
        precision = slope @ inverse @ slope + np.eye(len(theta)) / PRIOR_SD**2
        step = np.asarray(np.linalg.solve(precision, gradient), np.float64)
        theta, gain = _uphill(log_density, theta, step)
        if gain < CLOSE:
            break
    return theta


def _smooth(known: Known) -> Floats:
    """Return parameters to start from: of the greatest entropy, residuals penalised. Convex."""
    model, n = known.model, known.rows
    theta = np.zeros(len(known.counts))

    def log_density(theta: Floats) -> float:
        logits = model.by_cell @ theta
        top = float(logits.max())
        total = math.log(float(np.exp(logits - top).sum())) + top
        return float(known.counts @ theta) - n * total - 0.5 * penalty * float(theta @ theta)

    penalty = max(RIDGE, known.sd)
    for _ in range(STEPS):
        p = model.probabilities(theta)
        gradient = _residual(known, p) - penalty * theta
        precision = n * model.covariance(p) + penalty * np.eye(len(theta))
        step = np.asarray(np.linalg.solve(precision, gradient), np.float64)
        theta, gain = _uphill(log_density, theta, step)
        if gain < CLOSE:
            break
    return theta


def _residual(known: Known, p: Floats) -> Floats:
    return np.asarray(known.counts - known.rows * (known.model.by_entry @ p))


def _spread(known: Known, theta: Floats) -> Floats:
    covariance = known.model.covariance(known.model.probabilities(theta))
    return known.rows * covariance + known.sd**2 * np.eye(len(theta))


def _log_density(known: Known, inverse: Floats) -> Callable[[Floats], float]:
    def log_density(theta: Floats) -> float:
        residual = _residual(known, known.model.probabilities(theta))
        return -0.5 * float(residual @ inverse @ residual + theta @ theta / PRIOR_SD**2)

    return log_density


def _uphill(
    log_density: Callable[[Floats], float], theta: Floats, step: Floats
) -> tuple[Floats, float]:
    """Return a point along the step where the density is higher, and the gain of its logarithm."""
    before = log_density(theta)
    for k in range(MAX_STEP_HALVINGS):
        after = log_density(theta + 0.5**k * step)
        if after > before:
            return theta + 0.5**k * step, after - before
    return theta, 0.0


class Walk:
    """Chains of Hamiltonian Monte Carlo, side by side, in whitened coordinates about the mode."""

    def __init__(self, known: Known, chains: int, random: RandomSource) -> None:
        self.known, self.random = known, random
        self.centre, self.step_size = mode(known)[:, None], FIRST_STEP
        self._whiten(self.centre)
        self.z = START_SPREAD * random.normals((len(self.centre), chains))
        self.log_density, self.gradient = self._at(self.z)

    def _whiten(self, thetas: Floats) -> None:
        """Take the released counts' covariance, and coordinates, at these points (entries, k)."""
        model, n = self.known.model, self.known.rows
        slopes = [n * model.covariance(p) for p in model.probabilities(thetas).T]
        spread = sum(slopes) / len(slopes) + self.known.sd**2 * np.eye(len(thetas))
        self.factor = cho_factor(spread)
        precision = sum(slope @ cho_solve(self.factor, slope) for slope in slopes) / len(slopes)
        self.root = cholesky(precision + np.eye(len(thetas)) / PRIOR_SD**2)  # upper

    def theta(self, z: Floats) -> Floats:
        """Return parameters (entries, chains) of whitened coordinates."""
        return np.asarray(self.centre + solve_triangular(self.root, z))

    def _at(self, z: Floats) -> tuple[Floats, Floats]:
        """Return log densities (chains,) and gradients in z."""
        model, n = self.known.model, self.known.rows
        theta = self.theta(z)
        p = model.probabilities(theta)
        residual = self.known.counts[:, None] - n * (model.by_entry @ p)
        weighed = cho_solve(self.factor, residual)
        along = model.by_cell @ weighed
        gradient = n * (model.by_entry @ (p * (along - (p * along).sum(axis=0))))
        gradient -= theta / PRIOR_SD**2
        log_density = -0.5 * (
            (residual * weighed).sum(axis=0) + (theta**2).sum(axis=0) / PRIOR_SD**2
        )
        return log_density, solve_triangular(self.root, gradient, trans="T")

    def move(self) -> Floats:
        """Make one trajectory of each chain. Return the probabilities of acceptance."""
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
        taken = self.random.uniforms(accept.shape) < accept
        self.z = np.where(taken, z, self.z)
        self.gradient = np.where(taken, gradient, self.gradient)
        self.log_density = np.where(taken, log_density, self.log_density)
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
        for k in range(moves):
            rate = float(self.move().mean())
            self.step_size *= math.exp((rate - WANTED) / math.sqrt(k + 1.0))


def draws(known: Known, count: int, moves: int, random: RandomSource) -> tuple[Floats, float]:
    """Return probabilities of cells (count, cells), drawn from the posterior, and an R-hat.

    moves: of each of CHAINS chains after its warm-up, at least count / CHAINS. The R-hat is the
    largest of those of the marginals' probabilities. Free: made of what was known.
    """
    walk = Walk(known, CHAINS, random)
    walk.warm_up(WARM)
    wanted = -(-count // CHAINS)
    apart, seen = max(1, moves // wanted), []
    found: list[Floats] = []
    for k in range(apart * wanted):
        walk.move()
        p = known.model.probabilities(walk.theta(walk.z))
        seen.append(known.model.by_entry @ p)
        if k % apart == apart - 1:
            found.append(p.T)
    return np.concatenate(found)[:count], r_hat(np.stack(seen))


def r_hat(seen: Floats) -> float:
    """Return the largest split R-hat of draws (draw, quantity, chain) (Vehtari et al. 2021)."""
    half = len(seen) // 2
    halves = np.concatenate((seen[:half], seen[half : 2 * half]), axis=2)
    inside, means = halves.var(axis=0, ddof=1).mean(axis=1), halves.mean(axis=0)
    ratio = means.var(axis=1, ddof=1) / np.maximum(inside, 1e-300)
    return float(np.sqrt((half - 1.0) / half + ratio).max())
