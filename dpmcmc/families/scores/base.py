"""What a release needs of a family: the score of single rows, its slope and its variance.

Every model in dpmcmc/families names its family in the field `rows`.

Privacy does not depend on a family: dpmcmc/mechanisms/joint_sums.py clips whatever it returns. A
family must make sure that the clipped score `psi` has mean 0 given the covariates, under the model
at the position where it is evaluated.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NODES, WEIGHTS = np.array([0.0, np.sqrt(3.0), -np.sqrt(3.0)]), np.array([2.0, 0.5, 0.5]) / 3.0
TINY = 1e-300
UNCUT = 1e12  # a clip that cuts nothing
NONE: Floats = np.zeros((0, 0, 0))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The points at which scores are evaluated, and their clips, for all rows of a block.

    eta: (k, m) linear predictors. row_norm: (m,) norm of the covariates in the coordinates of the
    release. spread: (m,) sd of a predictor under the posterior, 0 where the mode is sought. most:
    largest |psi| * row_norm that is not clipped. curved: largest slope * row_norm^2 that is not
    weighted down, or (m,) one for each row; UNCUT for both where nothing is. scale: of the
    residuals. cut: of the scale statistic.
    With several predictors of a row, in place of row_norm and spread: inner: (k, k, m), so that the
    squared norm of the score of psi is psi @ inner @ psi. cover: (k, k, m) covariances of the
    predictors, empty where the mode is sought.
    """

    eta: Floats
    row_norm: Floats
    spread: Floats
    most: float
    curved: float | Floats
    scale: float
    cut: float
    inner: Floats = field(default_factory=lambda: NONE)
    cover: Floats = field(default_factory=lambda: NONE)

    @property
    def shared(self) -> float:
        """Return the last predictor, equal in all rows that count and 0 in the others."""
        last = self.eta[-1]
        return float(last[np.abs(last).argmax()]) if last.size else 0.0


@dataclass(frozen=True, slots=True)
class Terms:
    """The statistics of rows. psi: (k, m), derivative of the log likelihood, weighted and clipped.

    root: (k, k, m), root @ root.T is minus the slope of the expected psi in eta. noise: the same of
    the variance of psi under the model. square: (m,) within [0, cut^2], the cut squared residual;
    zeros where a family has no scale. minus: (k, k, m), minus @ minus.T is to be taken off the
    slope, where one row's may be negative; empty elsewhere.
    """

    psi: Floats
    root: Floats
    noise: Floats
    square: Floats
    minus: Floats = field(default_factory=lambda: NONE)


Link = Literal["identity", "log", "logit", "softmax", "cumulative", "hurdle"]


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance function of a response of mean m at unit scale: m^power (1 + m / size).

    Source: Morris 1982, natural exponential families with quadratic variance functions.
    """

    power: float
    size: float = np.inf

    @property
    def proportional(self) -> bool:
        """Return whether the sd is proportional to the mean, so that no response is 0."""
        return self.power == 2.0


BINOMIAL = Variance(1.0, -1.0)


SEVERAL = ("softmax", "cumulative", "hurdle")  # links of responses with several predictors


class Family(Protocol):
    """One regression's link, scale and score. A row has as many predictors as `Evaluation.eta`.

    link: maps the mean of a response to its predictor; that of "identity" may have a scale, which
    is the sd of the residual in units of the predictor. has_scale: whether residuals have a scale,
    which is estimated. log_scale: whether the log of a scale is a predictor of its own, behind that
    of the mean: one coefficient for all rows, which neither covariates nor offsets move. quadratic:
    whether the log likelihood is quadratic in the predictor. variance: of a response, given its
    mean and a scale of 1.
    """

    link: Link
    has_scale: bool
    log_scale: bool
    quadratic: bool
    variance: Variance

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return the statistics of rows with responses y (m,), see Terms."""


class ScaleFamily(Family, Protocol):
    """A family whose scale's logarithm is a parameter, orthogonal to the predictor or not.

    information: of a row about its predictor and about the log scale, under the model, where the
    scale is 1. sharpest: most information of a row about either, with any response. normal_scale:
    about the sd that a fit of normal residuals finds where the scale is 1. symmetric: whether
    residuals are, so that under the model predictor and log scale hang not together.
    """

    information: tuple[float, float]
    sharpest: float
    normal_scale: float
    symmetric: bool

    def longest(self, squares: Floats) -> Floats:
        """Return (m,), the norm of the longest possible score of a row where the scale is 1.

        squares: (2, m), squared lengths of what units of both derivatives add to it.
        """


class SkewedFamily(ScaleFamily, Protocol):
    """A family with a log scale whose information is correlated with that of the predictor."""

    def farthest(self, inner: Floats, ends: tuple[float, float], sd: float) -> float:
        """Return the norm of the longest score of a row with a residual between `ends`, in sds.

        inner: (2, 2), inner products of what units of both derivatives add. sd: the scale.
        """


class ShapedFamily(Family, Protocol):
    """A family with a shape parameter that is no unit of its predictors, such as a dispersion.

    symmetric: as of a ScaleFamily.
    """

    symmetric: bool

    def known(self) -> Family | None:
        """Return the family with the scale fixed, by which the path to the mode starts.

        None where that is the linear regression of responses as the link has them.
        """

    def scale_of(self, mean: float, dispersion: float) -> float:
        """Return an estimate of the scale, from the residual sd relative to `known` at this mean.

        By the sd of residuals where that is the linear one.
        """

    def mean_of(self, eta: Floats) -> Floats:
        """Return mean responses at predictors eta."""

    def expected(self, mean: Floats, scale: float) -> Floats:
        """Return (2, m), expected information of a row about its predictor and log scale."""

    def tails(self, mean: float, scale: float, beyond: float) -> tuple[float, float]:
        """Return responses below and above which a share `beyond` lies, at this mean."""

    def largest_information(self, most: float) -> tuple[float, float]:
        """Return a row's largest information about predictor and scale. most: largest response."""

    def score(self, y: Floats, mean: Floats, scale: float) -> Floats:
        """Return (2, m), unclipped derivatives of the log likelihood by predictor and log scale."""


def is_additive(family: Family) -> bool:
    """Return whether the scale is the residual sd, in units of the predictor.

    Those of a family with sds in proportion to its means are relative ones, as those of a log are.
    """
    return family.link == "identity" or family.variance.proportional


def is_measured(family: Family) -> bool:
    """Return whether a scale is estimated and predictors are measured in units of it."""
    return family.log_scale and family.link == "identity"


def is_apart(family: Family) -> bool:
    """Return whether a scale is estimated that is no unit of the predictors: see ShapedFamily.

    Such as the size of counts that vary more than Poisson ones.
    """
    return family.log_scale and family.link != "identity"


def is_skewed(family: Family) -> bool:
    """Return whether an estimated scale's information is correlated with that of predictors."""
    return family.log_scale and not cast("ScaleFamily", family).symmetric


def single(psi: Floats, slope: Floats, variance: Floats, square: Floats | None = None) -> Terms:
    """Return the statistics of rows of a family with one predictor a row."""
    root, noise = (np.sqrt(np.maximum(part, 0.0))[None, None] for part in (slope, variance))
    return Terms(psi[None], root, noise, np.zeros_like(psi) if square is None else square)


def nodes_of(at: Evaluation) -> list[tuple[Floats, float]]:
    """Return quadrature nodes (predictors (m,), weight) for averages over the posterior.

    Exact up to the third degree of a normal spread.
    """
    eta = at.eta[0]
    if not at.spread.any():
        return [(eta, 1.0)]
    return [(eta + node * at.spread, weight) for node, weight in zip(NODES, WEIGHTS, strict=True)]
