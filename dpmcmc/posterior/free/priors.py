"""Priors of single coefficients, for posteriors from a stored release.

Each is a scale mixture of normals, within bounds or without: its variance can be drawn given the
coefficient, as the Gibbs sampler in dpmcmc/posterior/free/walk.py does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, ndtr, stdtr

from dpmcmc.base.errors import SpecError, near
from dpmcmc.inputs.spec import NormalPrior
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Kind = Literal["normal", "laplace", "student_t", "cauchy", "uniform"]
LARGEST_NUMBER, LEAST_SCALE, MOST_SCALE = 1e30, 1e-6, 1e6  # of numbers that are asked about
LEAST_DF, MOST_DF = 1.0, 1e4
LEAST_MASS = 1e-100  # of a prior between its bounds
# of a scale: a Laplace prior's variance is drawn as if nothing were nearer to its peak
MIN_SCALE_RATIO = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class CoefficientPrior:
    """A prior of one standardised coefficient.

    Parameters
    ----------
    kind
        normal, laplace, student_t, cauchy or uniform.
    loc
        Centre of the distribution.
    scale
        Scale of the distribution, for a normal its sd; not of uniform.
    df
        Degrees of freedom of student_t.
    lower, upper
        Bounds; the prior is truncated to them. uniform takes bounds alone; without one of them it
        is improper: it gives draws, but no Bayes factor. lower=0 is the positive half of any kind.

    Examples
    --------
    >>> CoefficientPrior(kind="laplace", scale=1.0, lower=0.0)
    """

    kind: Kind
    loc: float = 0.0
    scale: float | None = None
    df: float | None = None
    lower: float | None = None
    upper: float | None = None

    @property
    def low(self) -> float:
        """The lower bound; -inf without one."""
        return -math.inf if self.lower is None else self.lower

    @property
    def high(self) -> float:
        """The upper bound; inf without one."""
        return math.inf if self.upper is None else self.upper

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return self.lower is not None or self.upper is not None

    @property
    def plain(self) -> bool:
        """Whether the prior is normal, without bounds and with a fixed variance."""
        return self.kind == "normal" and not self.bounded

    @property
    def proper(self) -> bool:
        """Whether the prior is proper: a uniform one without both bounds is not."""
        return self.kind != "uniform" or (self.lower is not None and self.upper is not None)

    def within(self, unit: float, shift: float) -> "CoefficientPrior":
        """Return the prior of t, if this is the prior of shift + unit * t."""

        def moved(end: float | None) -> float | None:
            return None if end is None else (end - shift) / unit

        size = None if self.scale is None else self.scale / unit
        loc = 0.0 if self.kind == "uniform" else (self.loc - shift) / unit
        return replace(self, loc=loc, scale=size, lower=moved(self.lower), upper=moved(self.upper))

    def log_density(self, value: float) -> float:
        """Return ln of the density, -inf outside of the bounds; of a proper prior."""
        if not self.low <= value <= self.high:
            return -math.inf
        if self.kind == "uniform":
            return -math.log(self.high - self.low)
        scale = self.scale or 1.0
        return self._log_unit((value - self.loc) / scale) - math.log(scale * self.mass())

    def mass(self) -> float:
        """Return the probability that the untruncated distribution has between the bounds."""
        if self.kind == "uniform":
            return 1.0
        low, high = ((end - self.loc) / (self.scale or 1.0) for end in (self.low, self.high))
        if low > 0.0:  # the upper tail by the lower one, which does not round to 1
            low, high = -high, -low
        return self._below(high) - self._below(low)

    def _log_unit(self, z: float) -> float:
        """Return ln of the density with loc 0 and scale 1, without bounds."""
        if self.kind == "normal":
            return -0.5 * (z * z + math.log(2.0 * math.pi))
        if self.kind == "laplace":
            return -abs(z) - math.log(2.0)
        half = 0.5 * self.freedom
        top = float(gammaln(half + 0.5) - gammaln(half)) - 0.5 * math.log(2.0 * math.pi * half)
        return top - (half + 0.5) * math.log1p(z * z / (2.0 * half))

    def _below(self, z: float) -> float:
        """Return the probability below z, with loc 0 and scale 1."""
        if self.kind == "normal":
            return float(ndtr(z))
        if self.kind == "laplace":
            return 0.5 * math.exp(z) if z < 0.0 else 1.0 - 0.5 * math.exp(-z)
        return float(stdtr(self.freedom, z))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of student_t; a cauchy has 1."""
        return self.df or 1.0


def checked(prior: NormalPrior | CoefficientPrior, pointer: str) -> CoefficientPrior:
    """Return a valid prior. Raises SpecError at the field that is not."""
    if isinstance(prior, NormalPrior):
        loc = getattr(prior, "loc", 0.0)
        prior = CoefficientPrior(kind="normal", loc=loc, scale=prior.scale)
    if not isinstance(prior, CoefficientPrior) or prior.kind not in get_args(Kind):
        kinds = get_args(Kind)
        guess = near(str(getattr(prior, "kind", "")), kinds)
        raise SpecError(f"{pointer}/kind", f"must be one of {', '.join(kinds)}{guess}")
    check_number(prior.loc, f"{pointer}/loc")
    _check_scale(prior, pointer)
    _check_df(prior, pointer)
    _check_bounds(prior, pointer)
    return prior


def _check_scale(prior: CoefficientPrior, pointer: str) -> None:
    for field, value in (("scale", prior.scale), ("df", prior.df)):
        if value is not None:
            check_number(value, f"{pointer}/{field}")
    if prior.kind == "uniform":
        if prior.scale is not None or prior.loc != 0.0:
            field = "loc" if prior.scale is None else "scale"
            raise SpecError(f"{pointer}/{field}", "a uniform prior takes lower and upper alone")
        return
    if prior.scale is None or not LEAST_SCALE <= prior.scale <= MOST_SCALE:
        raise SpecError(f"{pointer}/scale", f"must be between {LEAST_SCALE:g} and {MOST_SCALE:g}")


def _check_df(prior: CoefficientPrior, pointer: str) -> None:
    if prior.kind != "student_t":
        if prior.df is not None:
            raise SpecError(f"{pointer}/df", "belongs to student_t alone")
        return
    if prior.df is None or not LEAST_DF <= prior.df <= MOST_DF:
        raise SpecError(f"{pointer}/df", f"must be between {LEAST_DF:g} and {MOST_DF:g}")


def _check_bounds(prior: CoefficientPrior, pointer: str) -> None:
    for name, end in (("lower", prior.lower), ("upper", prior.upper)):
        if end is not None:
            check_number(end, f"{pointer}/{name}")
    if not prior.high - prior.low >= LEAST_SCALE:
        raise SpecError(f"{pointer}/upper", f"must be above lower, by {LEAST_SCALE:g} or more")
    if prior.bounded and not prior.mass() >= LEAST_MASS:
        raise SpecError(
            f"{pointer}/lower", "the prior has next to nothing between its bounds: move one of them"
        )


def check_number(value: float, pointer: str) -> None:
    """Raise SpecError unless a value is a number of at most LARGEST_NUMBER."""
    if not isinstance(value, Real) or isinstance(value, bool) or not abs(value) <= LARGEST_NUMBER:
        raise SpecError(pointer, f"must be a number within +-{LARGEST_NUMBER:g}")


def half(prior: NormalPrior | CoefficientPrior, pointer: str) -> tuple[float, float]:
    """Return scale and degrees of freedom of the half above 0 of a prior, 0 of a normal one's.

    Raises SpecError where an sd cannot have it.
    """
    own = checked(prior, pointer)
    ends = own.lower in (None, 0.0) and own.upper is None
    if own.kind not in ("normal", "student_t", "cauchy") or own.loc != 0.0 or not ends:
        message = "must be normal, student_t or cauchy with loc 0: the half above 0 is taken"
        raise SpecError(f"{pointer}/kind", message)
    return own.scale or 1.0, 0.0 if own.kind == "normal" else own.freedom


class Together:
    """Priors of several coefficients as arrays (a,), in units of their likelihoods' sds."""

    def __init__(self, priors: Sequence[CoefficientPrior], units: Floats) -> None:
        scaled = [
            prior.within(unit, 0.0) for prior, unit in zip(priors, units.tolist(), strict=True)
        ]
        self.loc = np.array([prior.loc for prior in scaled])
        self.low = np.array([prior.low for prior in scaled])
        self.high = np.array([prior.high for prior in scaled])
        self.bounded = np.array([prior.bounded for prior in scaled])
        self.placed = np.array([prior.kind != "uniform" for prior in scaled])
        self._own = scaled

    def precisions(self, values: Floats, random: RandomSource) -> Floats:
        """Return draws (c, a) of the normals' precisions given coefficients (c, a)."""
        drawn = [_precision(prior, values[:, k], random) for k, prior in enumerate(self._own)]
        return np.stack(drawn, axis=1)


def _precision(prior: CoefficientPrior, values: Floats, random: RandomSource) -> Floats:
    """Return draws (c,). Laplace: Park and Casella 2008. Student's t: a gamma mixture."""
    if prior.kind == "uniform":
        return np.zeros(len(values))
    scale, deviation = prior.scale or 1.0, values - prior.loc
    if prior.kind == "normal":
        return np.full(len(values), scale**-2.0)
    if prior.kind == "laplace":
        mean = 1.0 / (scale * np.maximum(np.abs(deviation), MIN_SCALE_RATIO * scale))
        return _inverse_gaussian(mean, scale**-2.0, random)
    df = prior.freedom
    gamma = gammaincinv(0.5 * (df + 1.0), random.uniforms(deviation.shape))
    return np.asarray(2.0 * gamma / (df * scale * scale + deviation * deviation))


def _inverse_gaussian(mean: Floats, shape: float, random: RandomSource) -> Floats:
    """Return draws (c,). Source: Michael, Schucany and Haas 1976, with the roots' stable form."""
    half = 0.5 * mean * random.normals(mean.shape) ** 2 / shape
    small = mean / (1.0 + half + np.sqrt(half * (2.0 + half)))
    large = random.uniforms(mean.shape) * (mean + small) > mean
    return np.where(large, mean * (mean / small), small)
