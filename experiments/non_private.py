"""Random walk Metropolis-Hastings and HMC on the banana model, without any privacy.

For experiments and tests only: they show what clipping alone does; nothing here may be served.
The model's log likelihood ratio is affine in a row, so that unclipped sums and gradients follow
from the column means; only a clipped sum has to visit the rows.
Source: thesis A, sections 2.3 and 7.2 (Definition 8, Theorem 5; Neal 2012 for the leapfrog).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpmcmc.families.banana import (
    Banana,
    bend,
    draw_posterior,
    exact_posterior,
    simulate,
    straighten,
)

BLOCK = 1024
DIVERGED = 1e50  # a position or momentum that no trajectory comes back from


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def clipped_sum(columns, weights, middle, bound):
    """Sum of weights . (x - middle) over rows, clipped to +-bound each; and how many were clipped.

    columns: (d, n); weights, middle: (d,).
    """
    d, n = columns.shape
    ratios = np.empty(BLOCK)
    total, clipped = 0.0, 0.0
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        ratios[:] = 0.0
        for j in range(d):
            weight, centre = weights[j], middle[j]
            block = columns[j, start : start + count]
            for i in range(count):
                ratios[i] += weight * (block[i] - centre)
        for i in range(count):
            ratio = min(max(ratios[i], -bound), bound)
            total += ratio
            clipped += 1.0 if ratio != ratios[i] else 0.0
    return total, clipped


@dataclass(frozen=True)
class Problem:
    """A banana model with its data. columns: (d, n)."""

    banana: Banana
    columns: np.ndarray

    @classmethod
    def simulated(cls, dimensions, rows, random):
        """The thesis' constants and data simulated at theta = (0, 3, 0, ...)."""
        banana = Banana.thesis(dimensions)
        truth = np.zeros(dimensions)
        truth[1] = 3.0
        data = simulate(banana, truth, rows, random=random)
        return cls(banana, np.ascontiguousarray(data.T))

    @property
    def rows(self):
        """The number of rows."""
        return self.columns.shape[1]

    @property
    def means(self):
        """Column means (d,)."""
        return self.columns.mean(axis=1)

    def exact(self, draws, random, tempering=1.0):
        """Independent draws (draws, d) of the exact posterior."""
        return draw_posterior(
            self.banana, self.means, self.rows, draws, random=random, tempering=tempering
        )

    def near(self, random, tempering=1.0):
        """A position (d,): one posterior sd from the posterior mean in every straight direction."""
        mean, variances = exact_posterior(self.banana, self.means, self.rows, tempering)
        sides = random.choice([-1.0, 1.0], size=len(mean))
        return bend(self.banana, mean + sides * np.sqrt(variances))


class Target:
    """The log posterior of a problem, its ratios with each row's part clipped."""

    def __init__(self, problem, slope=np.inf):
        """slope: a row's ratio is clipped to +-slope |theta - theta'|; infinite for no clipping."""
        self.banana, self.columns, self.slope = problem.banana, problem.columns, slope
        self.rows, self.means = problem.rows, problem.means
        self.precisions = 1.0 / np.array(problem.banana.variances)
        self.visited = self.clipped = 0.0

    def log_ratio(self, here, there):
        """Clipped log likelihood ratio plus log prior ratio, from here to there (d,) each."""
        before, after = straighten(self.banana, here), straighten(self.banana, there)
        weights, middle = self.precisions * (after - before), 0.5 * (after + before)
        prior = -((after - before) @ middle) / self.banana.prior_variance
        bound = self.slope * np.linalg.norm(there - here)
        if np.isinf(bound):
            return prior + self.rows * (weights @ (self.means - middle))
        total, clipped = clipped_sum(self.columns, weights, middle, bound)
        self.visited += self.rows
        self.clipped += clipped
        return prior + total

    def gradient(self, theta):
        """Gradient (d,) of the log posterior, not clipped: theta ~ Ban(0, prior_variance I)."""
        straight = straighten(self.banana, theta)
        score = self.rows * self.precisions * (self.means - straight)
        score -= straight / self.banana.prior_variance
        score[0] += 2.0 * self.banana.a * (theta[0] - self.banana.m) * score[1]
        return score

    def share_clipped(self):
        """The share of the ratios seen since the last call that were clipped."""
        share = self.clipped / self.visited if self.visited else 0.0
        self.visited = self.clipped = 0.0
        return share


def rwmh(target, start, draws, random, *, scale):
    """Random walk Metropolis-Hastings with normal proposals: (draws, d), acceptance rate."""
    chain, here, accepted = np.empty((draws, len(start))), np.array(start), 0
    moves = scale * random.standard_normal(chain.shape)
    thresholds = np.log(random.uniform(size=draws))
    for step in range(draws):
        there = here + moves[step]
        if thresholds[step] < target.log_ratio(here, there):
            here, accepted = there, accepted + 1
        chain[step] = here
    return chain, accepted / draws


def hmc(target, start, draws, random, *, step_size, leapfrogs):
    """HMC with a unit mass matrix: (draws, d), acceptance rate. Gradients are never clipped.

    Each trajectory's step size is step_size times a uniform in [0.8, 1.2], so that no
    direction of the target has the trajectory's length as its period. A trajectory that diverges
    is rejected unseen.
    """
    chain, here, accepted = np.empty((draws, len(start))), np.array(start), 0
    slope = target.gradient(here)
    for step in range(draws):
        first = random.standard_normal(len(here))
        size = step_size * random.uniform(0.8, 1.2)
        there, momentum, there_slope = here.copy(), first.copy(), slope
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(leapfrogs):
                momentum = momentum + 0.5 * size * there_slope
                there = there + size * momentum
                there_slope = target.gradient(there)
                momentum = momentum + 0.5 * size * there_slope
        if not np.abs(np.concatenate((there, momentum))).max() < DIVERGED:
            chain[step] = here
            continue
        kinetic = 0.5 * (first @ first - momentum @ momentum)
        if np.log(random.uniform()) < target.log_ratio(here, there) + kinetic:
            here, slope, accepted = there, there_slope, accepted + 1
        chain[step] = here
    return chain, accepted / draws
