"""MCMC-normalX with an intercept: covariates are normal about an unknown mean.

Functions of released numbers: free. X'X is then made of the rows' number, which is public, their
mean and their scatter about it, which are independent. Source: thesis B, 5.2.4.2, with a flat
prior of the covariates' mean, which it takes to be known.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.regression.chains import DEGREES, LEAST_VALUE, TARGET_GRAM, Chains, decided
from dpmcmc.releases.regression.fixed import Drawn, Prior, nearest
from dpmcmc.releases.regression.statistics import Noisy
from dpmcmc.releases.regression.wishart import moved, precisions


def with_known_rows(noisy: Noisy) -> Noisy:
    """Return the sums with the known number of rows as entry of the intercept."""
    gram = noisy.gram.copy()
    gram[..., 0, 0] = noisy.rows
    return replace(noisy, gram=gram)


@dataclass
class WithIntercept(Chains):
    """The state of the chains, see Chains. The prior's spread is of the other d - 1 columns.

    scatter: (B, J, d - 1, d - 1). middle: (B, J, d - 1), the holders' means. mean: (B, d - 1), of
    the covariates. log_move: (B, J), of a middle's proposal, in sds of its noise.
    """

    scatter: Floats = field(init=False)
    middle: Floats = field(init=False)
    mean: Floats = field(init=False)
    log_move: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.noisy = with_known_rows(self.noisy)
        super().__post_init__()
        rows = self.noisy.rows[:, None]
        self.middle = self.noisy.gram[..., 0, 1:] / rows
        outer = self.middle[..., :, None] * self.middle[..., None, :] * rows[..., None]
        values, vectors = nearest(self.noisy.gram[..., 1:, 1:] - outer)
        values = np.maximum(values, LEAST_VALUE * values[..., -1:] + self.noisy.sds[0])
        self.scatter = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        self.mean = self.middle.mean(axis=1)
        self.log_move = np.zeros(self.middle.shape[:2])
        self.gram = self._gram_of(self.scatter, self.middle)

    def _gram_of(self, scatter: Floats, middle: Floats) -> Floats:
        """Return X'X (B, J, d, d), composed of scatter matrices and means."""
        rows, gram = self.noisy.rows[:, None], np.empty_like(self.noisy.gram)
        gram[..., 0, 0] = self.noisy.rows
        gram[..., 0, 1:] = gram[..., 1:, 0] = rows * middle
        outer = middle[..., :, None] * middle[..., None, :]
        gram[..., 1:, 1:] = scatter + rows[..., None] * outer
        return gram

    def _move_gram(self, *, adapt: bool) -> None:
        """Draw the covariates' covariance and mean, then update scatters and means of holders."""
        rows, away = self.noisy.rows, self.middle - self.mean[:, None]
        spread = self.prior.spread + self.scatter.sum(axis=1)
        spread = spread + np.einsum("j,bjd,bje->bde", rows, away, away)
        total = float(rows.sum())
        precision = precisions(spread, self.prior.degrees + total, self.random)
        root = np.linalg.cholesky(precision * total)
        normals = self.random.normals((*self.mean.shape, 1))
        off = np.linalg.solve(np.swapaxes(root, -1, -2), normals)[..., 0]
        self.mean = np.einsum("j,bjd->bd", rows, self.middle) / total + off
        self._move_scatter(precision, adapt=adapt)
        self._move_middle(precision, adapt=adapt)

    def _move_scatter(self, precision: Floats, *, adapt: bool) -> None:
        """Update the holders' scatter matrices. precision: of the covariates."""
        d, rows = self.scatter.shape[-1], self.noisy.rows
        degrees = d + np.exp(self.log_degrees)
        proposal, log_size, log_ratio = moved(self.scatter, degrees, self.random)
        log_ratio += 0.5 * (rows - d - 2.0) * log_size  # rows - 1 degrees of freedom
        log_ratio -= 0.5 * np.einsum("bde,bjde->bj", precision, proposal - self.scatter)
        gram = self._gram_of(proposal, self.middle)
        log_ratio += self.log_likelihood(gram) - self.log_likelihood(self.gram)
        chance, taken = decided(log_ratio, self.random)
        self.scatter = np.where(taken[..., None, None], proposal, self.scatter)
        self.gram = np.where(taken[..., None, None], gram, self.gram)
        self.accepted += taken
        if adapt:
            self.log_degrees -= self.rate() * (chance - TARGET_GRAM)
            self.log_degrees = np.clip(self.log_degrees, *DEGREES)

    def _move_middle(self, precision: Floats, *, adapt: bool) -> None:
        """Update the holders' means. precision: of the covariates."""
        rows = self.noisy.rows
        size = np.exp(self.log_move) * self.noisy.sds[0] / rows
        proposal = self.middle + size[..., None] * self.random.normals(self.middle.shape)
        gram = self._gram_of(self.scatter, proposal)
        away, was = proposal - self.mean[:, None], self.middle - self.mean[:, None]
        change = np.einsum("bde,bjd,bje->bj", precision, away, away)
        change -= np.einsum("bde,bjd,bje->bj", precision, was, was)
        log_ratio = self.log_likelihood(gram) - self.log_likelihood(self.gram)
        chance, taken = decided(log_ratio - 0.5 * rows * change, self.random)
        self.middle = np.where(taken[..., None], proposal, self.middle)
        self.gram = np.where(taken[..., None, None], gram, self.gram)
        if adapt:
            self.log_move += self.rate() * (chance - TARGET_GRAM)


def walk(
    noisy: Noisy, prior: Prior, steps: int, warmup: int, random: RandomSource, *, thin: int = 1
) -> Drawn:
    """Return every thin-th state after warm-up, see chains.walk. First column: all ones."""
    return WithIntercept(noisy, prior, random, True).walk(steps, warmup, thin)
