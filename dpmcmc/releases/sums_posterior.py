"""The stored release of noisy sums: posteriors under other priors, and whether to believe them.

All of it is a function of released numbers: nothing here reads a row or costs anything.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.families.target import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Stored
from dpmcmc.releases.regression import mixtures
from dpmcmc.releases.regression.fixed import nearest
from dpmcmc.releases.regression.mixtures import METHODS, Mixture, left_over, noise_of, squares_left
from dpmcmc.releases.regression.statistics import Noisy

LEAST_CLEAR = 4.0  # least eigenvalue of X'X over the largest of its noise
MAX_RHAT = 1.05  # of the chains that found the mixture's parts
# squares that are left over the noise of their sum, from which the rows and not the prior say how
# small residuals can be
CLEAR_SQUARES = 4.0
MAX_IGNORED = 0.1  # part of the coefficients' variance that a method leaves out
LEAST_FACTOR = 1e-9  # of the largest eigenvalue


@dataclass(frozen=True, slots=True)
class Conditional:
    """A mixture of normals of coefficients, each with a log sigma; see mixtures.Mixture.

    start: (p,) that positions are measured from. known: whether sigma is no parameter.
    """

    mixture: Mixture
    start: Floats
    known: bool
    release: Stored | None = None

    @property
    def _d(self) -> int:
        return int(self.mixture.means.shape[1])

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, d), roots (k, d, d)) of the coefficients."""
        return self.mixture.means + self.start[: self._d], self.mixture.roots

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, p)."""
        which = random.integers(len(self.mixture.means), (chains * length,))
        means, roots = self.parts()
        normals = random.normals((len(which), self._d, 1))
        found = means[which] + (roots[which] @ normals)[..., 0]
        return self.completed(found, which, random).reshape(chains, length, -1)

    def completed(self, coefficients: Floats, which: Any, _: RandomSource) -> Floats:
        """Return positions (n, p): coefficients (n, d) of parts, and their log sigma."""
        if self.known:
            return coefficients
        logs = self.start[-1] + 0.5 * np.log(self.mixture.variances[which])
        return np.column_stack((coefficients, logs))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """A stored release. noisy: of one holder or several. method: of mixtures.METHODS.

    start: (p,), that positions are measured from. known: whether the variance of the residuals is
    1. ones: whether the first column is all ones. found: under the job's prior, the mean (d,) of
    the coefficients and the chains' R-hat.
    """

    noisy: Noisy
    method: str
    start: Floats
    known: bool
    ones: bool
    found: tuple[tuple[float, ...], float] = ((), 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""
        squares = self.noisy.squares
        return {
            "gram": self.noisy.gram.tolist(),
            "moments": self.noisy.moments.tolist(),
            "squares": None if squares is None else squares.tolist(),
            "sds": list(self.noisy.sds),
            "rows": self.noisy.rows.tolist(),
            "method": self.method,
            "start": self.start.tolist(),
            "known": self.known,
            "ones": self.ones,
            "found": [list(self.found[0]), self.found[1] if math.isfinite(self.found[1]) else None],
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> "Sums":
        """Return what to_dict made this of."""
        gram, moments, squares, rows = (
            np.array(told[key], np.float64) for key in ("gram", "moments", "squares", "rows")
        )
        first, second, third = told["sds"]
        noisy = Noisy(gram, moments, squares, (first, second, third), rows)
        means, r_hat = told["found"]
        found = tuple(means), math.inf if r_hat is None else float(r_hat)
        start = np.array(told["start"], np.float64)
        return cls(noisy, told["method"], start, told["known"], told["ones"], found)

    def moments(self) -> tuple[Floats, float]:
        """Return (mean of x x^T (d, d), sd of its noise); a direction below the noise has that."""
        rows, edge = float(self.noisy.rows.sum()), self.edge
        values, vectors = np.linalg.eigh(self.noisy.total.gram[0])
        return (vectors * np.maximum(values, edge)) @ vectors.T / rows, edge / rows

    @property
    def edge(self) -> float:
        """About the largest eigenvalue of the noise of X'X."""
        return math.sqrt(2.0 * self.noisy.gram.shape[-1]) * self.noisy.total.sds[0]

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> Conditional:
        """Return the posterior under independent normal priors of positions (p,)."""
        d = self.noisy.gram.shape[-1]
        log_variance = None
        if not self.known:
            log_variance = 2.0 * float(mean[d] - self.start[d]), 2.0 * float(precision[d]) ** -0.5
        prior = mixtures.prior_of(mean[:d] - self.start[:d], precision[:d], log_variance)
        made = METHODS[self.method](self.noisy, prior, self.ones, random)
        told = tuple(made.means.mean(axis=0).tolist()), made.r_hat
        return Conditional(made, self.start, self.known, replace(self, found=told))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on noisy sums, a dpmcmc.releases.base.Judgement."""

    reliable: bool
    privacy_share: float
    sentence: str


def judge(release: Sums, _: tuple[Floats, Floats] | None) -> Judgement:
    """Judge a release by its own numbers: free."""
    theta, r_hat = np.array(release.found[0]), release.found[1]
    total = release.noisy.total
    values, vectors = nearest(total.gram[0])
    values = np.maximum(values, LEAST_FACTOR * max(float(values[-1]), release.edge))
    variance = 1.0 if release.known else left_over(release.noisy, theta)
    noise = noise_of(total, theta)
    own = np.einsum("dk,k,dk->d", vectors, variance / values, vectors)
    more = np.einsum("dk,k,dk->d", vectors, noise / values**2, vectors)
    share = float(np.mean(more / (own + more)))
    problem = _problem(release, theta, values[0], own + more, vectors, values, r_hat)
    if problem:
        return Judgement(False, share, problem)
    return Judgement(True, share, "the sums stand out of their noise; intervals include it")


def _problem(
    release: Sums,
    theta: Floats,
    least: float,
    whole: Floats,
    vectors: Floats,
    values: Floats,
    r_hat: float,
) -> str:
    """Return what is wrong, or nothing."""
    if not r_hat <= MAX_RHAT:
        return f"the chains given the sums have not mixed (R-hat {r_hat:.3f})"
    if least < LEAST_CLEAR * release.edge:
        return "some direction of the columns does not stand out of the noise of X'X"
    left, noise = squares_left(release.noisy, theta)
    if not (release.known or left > CLEAR_SQUARES * noise):
        return (
            "the noise of y'y hides how large residuals are (log_sigma): declare narrower bounds of"
            " the response, take a larger budget, or give noise_scale where it is known"
        )
    if release.method == "mcmc_fixeds":
        total = release.noisy.total
        left_out = noise_of(total, theta) - total.sds[1] ** 2
        ignored = np.einsum("dk,k,dk->d", vectors, left_out / values**2, vectors)
        if float((ignored / whole).max()) > MAX_IGNORED:
            return "the method takes X'X to be exact, and its noise counts here"
    return ""
