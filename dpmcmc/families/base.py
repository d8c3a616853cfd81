"""What a regression says of single rows, so that one release suits all families.

Nothing here is trusted with privacy: whatever a family returns is cut to its caps where the sums
are made, see dpmcmc/releases/joint_sums.py. A family's duty is that the cut statistics mean what
they say: under the model at the position where it is asked, `psi` has mean 0 given the covariates.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NODES, WEIGHTS = np.array([0.0, np.sqrt(3.0), -np.sqrt(3.0)]), np.array([2.0, 0.5, 0.5]) / 3.0
TINY = 1e-300
NONE: Floats = np.zeros((0, 0, 0))


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how rows are asked. All arrays over the rows of a block, except the last two.

    eta: (k, m) linear predictors. reach: (m,) length of the covariates in the coordinates of the
    release. spread: (m,) sd of a predictor under the posterior, 0 where the mode is looked for.
    most: largest |psi| * reach that counts in full. curved: largest slope * reach^2, or (m,) each
    row's own. scale: of the residuals, what a family makes of it. cut: of the scale statistic.
    Where a row has several predictors, in place of reach and spread: inner: (k, k, m), the squared
    length of what psi adds to the score is psi @ inner @ psi. cover: (k, k, m) covariances of the
    predictors, empty where the mode is looked for.
    """

    eta: Floats
    reach: Floats
    spread: Floats
    most: float
    curved: float | Floats
    scale: float
    cut: float
    inner: Floats = field(default_factory=lambda: NONE)
    cover: Floats = field(default_factory=lambda: NONE)


@dataclass(frozen=True, slots=True)
class Terms:
    """What rows say there. psi: (k, m), derivative of the log likelihood, weighted and cut.

    root: (k, k, m), root @ root.T is minus the slope of the expected psi in eta. noise: the same of
    the variance of psi under the model. square: (m,) within [0, cut^2], the cut squared residual;
    zeros where a family has no scale.
    """

    psi: Floats
    root: Floats
    noise: Floats
    square: Floats


class Family(Protocol):
    """One regression. How many predictors a row has, it reads off `Place.eta`.

    scaled: whether residuals have a scale. additive: whether
    that scale is an sd in units of the predictor, so that a slope is 1 / scale^2. longest: change
    of a predictor that one step may make. pilot: whether the way begins with a linear regression of
    the log of the response. level: slope of a row to begin with, without a pilot, of one predictor.
    """

    scaled: bool
    additive: bool
    longest: float
    pilot: bool
    level: float

    def terms(self, y: Floats, place: Place) -> Terms:
        """Return what rows with responses y (m,) say."""


def single(psi: Floats, slope: Floats, variance: Floats, square: Floats | None = None) -> Terms:
    """Return the terms of a family with one predictor a row."""
    root, noise = (np.sqrt(np.maximum(part, 0.0))[None, None] for part in (slope, variance))
    return Terms(psi[None], root, noise, np.zeros_like(psi) if square is None else square)


def nodes_of(place: Place) -> list[tuple[Floats, float]]:
    """Return (predictors (m,), weight): averages over them are those over the posterior.

    Exact up to the third degree of a normal spread.
    """
    eta = place.eta[0]
    if not place.spread.any():
        return [(eta, 1.0)]
    return [
        (eta + node * place.spread, weight) for node, weight in zip(NODES, WEIGHTS, strict=True)
    ]
