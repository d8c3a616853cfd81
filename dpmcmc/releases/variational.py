"""The stored release of `dp_vi`: a noisy score and slope, and normal posteriors given them.

All of it is a function of released numbers: nothing here reads a row or costs anything.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import chdtri

from dpmcmc.families.target import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Normal
from dpmcmc.releases.matrices import within
from dpmcmc.releases.quadratic_steps import shrunk

SIGNIFICANCE = 0.001  # probability of such a difference of the last looks by noise alone
# part of a slope by which it may change between them, as likelihoods are not quadratic
NONQUADRATIC_CHANGE = 0.05
MAX_LAST_STEP = 0.2  # last step, in sds of one row, beyond which the place was not found
# square of the last step, about the error of a Newton step where a likelihood bends, in sds of the
# posterior
MAX_BEND = 0.5
FIRST_BEND = 4.0  # times that, of the step before, which only the first of two looks is moved by
MAX_SLOPE_NOISE = 0.5  # noise of the slope over its median, from which on nothing is promised
SMALLEST_DIVISOR = 1e-200


@dataclass(frozen=True, slots=True)
class Look:
    """What a round released. place: (d,); place + root @ u are positions; all else is by u.

    score: (d,) of the log likelihood; noise: (d, d), a root of the covariance of its noise. slope:
    (d, d), minus that of the score. slope_sd: of the noise of its diagonal; off it sqrt(2) smaller.
    """

    place: Floats
    root: Floats
    score: Floats
    noise: Floats
    slope: Floats
    slope_sd: float

    @property
    def edge(self) -> float:
        """About the largest eigenvalue of the slope's noise."""
        return math.sqrt(2.0 * len(self.score)) * self.slope_sd


def raised(matrix: Floats, least: float) -> Floats:
    """Return B, B^T matrix B = 1, with eigenvalues below `least` raised to it."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, max(least, 1e-12 * float(np.abs(values).max()), SMALLEST_DIVISOR))
    return np.asarray(vectors / np.sqrt(values))


def pooled(first: Look, last: Look, weight: float, most: Floats | None = None) -> "Variational":
    """Return what is stored of two looks with the same coordinates and the same noise.

    most: (d,), no slope of all rows by positions is larger than this diagonal; None where that is
    not known. Of few rows noise is, and would pass for what they say.
    """
    slope_sd = math.hypot(first.slope_sd, last.slope_sd) / 2.0
    slope = shrunk(0.5 * (first.slope + last.slope), slope_sd)[0]
    values, vectors = np.linalg.eigh(slope)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    cut = None if most is None else within(positive, last.root, most)
    slope = slope if cut is None else cut
    move = np.linalg.solve(last.root, last.place - first.place)
    expected = first.score - slope @ move
    size = np.abs(move @ slope) * NONQUADRATIC_CHANGE
    unsure = slope_sd**2 * float(move @ move)
    noise = first.noise @ first.noise.T + last.noise @ last.noise.T + unsure * np.eye(len(move))
    apart = last.score - expected
    surprise = float(apart @ np.linalg.solve(noise + slope + np.diag(size**2), apart))
    width = math.sqrt((1.0 + 0.25 * float(np.trace(noise)) / (len(move) * weight)) / weight)
    bend = float(move @ move) / (FIRST_BEND * MAX_BEND * width)
    return Variational(
        place=last.place,
        root=last.root,
        score=0.5 * (last.score + expected),
        noise=0.25 * noise,
        slope=slope,
        slope_sd=slope_sd,
        weight=weight,
        jump=max(surprise / float(chdtri(len(move), SIGNIFICANCE)), bend),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Variational:
    """A stored release. place, root, score, slope, slope_sd: see Look, of both looks together.

    noise: (d, d), covariance of the score's noise. weight: rows times tempering. jump: difference
    of the looks, squared, over the most that noise explains, or the square of the step between
    them over the most that a line is told by, whichever is larger.
    """

    place: Floats
    root: Floats
    score: Floats
    noise: Floats
    slope: Floats
    slope_sd: float
    weight: float
    jump: float

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> "Variational":
        """Return what to_dict made this of."""
        read: dict[str, Any] = {
            k: np.array(v, np.float64) if isinstance(v, list) else v for k, v in told.items()
        }
        return cls(**read)

    def moments(self) -> None:
        """Return None: no second moments of a design are released."""

    @property
    def edge(self) -> float:
        """About the largest eigenvalue of the slope's noise."""
        return math.sqrt(2.0 * len(self.score)) * self.slope_sd

    def posterior(self, mean: Floats, precision: Floats, _: RandomSource) -> Normal:
        """Return the posterior under independent normal priors. mean, precision: (d,)."""
        return self.given(mean, precision)

    def given(self, mean: Floats, precision: Floats) -> Normal:
        """Return the same, which nothing random is in.

        The score is N(slope @ (mode - place), slope + noise) over rows and noise, see the proof.
        """
        values, vectors = np.linalg.eigh(self.slope)
        least = 1e-6 * min(self.weight, max(float(values[-1]), SMALLEST_DIVISOR))
        slope = (vectors * np.maximum(values, least)) @ vectors.T
        own = self.root.T @ (precision[:, None] * self.root)
        pull = self.root.T @ (precision * (mean - self.place))
        step = np.linalg.solve(slope + own, self.score + pull)
        noise = self.noise + self.slope_sd**2 * float(step @ step) * np.eye(len(step))
        gain = np.linalg.solve(slope + noise, slope).T
        root = raised(gain @ slope + own, SMALLEST_DIVISOR)
        found = root @ (root.T @ (gain @ self.score + pull))
        return Normal(self.place + self.root @ found, self.root @ root, self)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a fit, a dpmcmc.releases.base.Judgement."""

    reliable: bool
    privacy_share: float
    sentence: str


def judge(release: Variational, _: tuple[Floats, Floats] | None) -> Judgement:
    """Judge a release by its own numbers: free."""
    values, vectors = np.linalg.eigh(release.slope)
    safe = np.maximum(values, max(release.edge, SMALLEST_DIVISOR))
    step = (vectors.T @ release.score) / safe
    ratio = np.einsum("dk,de,ek->k", vectors, release.noise, vectors) / safe
    share = float(np.mean(ratio / (1.0 + ratio)))
    away = float(np.linalg.norm(step))
    width = math.sqrt((1.0 + float(np.mean(ratio))) / release.weight)
    if release.jump > 1.0 or away > min(MAX_LAST_STEP, math.sqrt(MAX_BEND * width)):
        told = "the last looks at the rows disagree, or were far apart: it has not converged"
        return Judgement(False, share, told)
    if release.edge > MAX_SLOPE_NOISE * float(np.median(values)) or values[0] < release.edge:
        told = "with this budget the curvature does not stand out of the noise"
        return Judgement(False, share, told)
    told = f"privacy makes up {100.0 * share:.0f} % of the variance of these parameters"
    return Judgement(True, share, told)
