"""Priors of single coefficients, for posteriors from a stored release.

Each is a scale mixture of normals, within bounds or without: its variance can be drawn given the
coefficient, as the Gibbs sampler in dpmcmc/posterior/free/walk.py does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, gammaln, ndtr, stdtr

from dpmcmc.base.errors import SpecError, near
from dpmcmc.inputs.spec import NormalPrior
from dpmcmc.inputs.written_priors import read_prior
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Kind = Literal[
    "normal", "laplace", "student_t", "cauchy", "uniform", "horseshoe", "spike_and_slab", "r2d2"
]  # fmt: skip
SELECTING = ("horseshoe", "spike_and_slab", "r2d2")  # priors of several coefficients together
LARGEST_NUMBER, LEAST_SCALE, MOST_SCALE = 1e30, 1e-6, 1e6  # of numbers that are asked about
LEAST_DF, MOST_DF = 1.0, 1e4
VARIANCES = (1e-12, 1e12)  # of a horseshoe's scales
USUAL_SCALE = 0.1  # of a horseshoe, over the sd of coefficients that act
LEAST_INCLUSION = 1e-9
# of r2d2: what applies by default, and limits of the share explained and of the other two numbers
MEAN_R2, PREC_R2, CONS_D2 = 0.5, 2.0, 0.5
LEAST_R2, LEAST_NUMBER, MOST_NUMBER = 1e-3, 1e-2, 1e3
OF_R2D2 = ("mean_r2", "prec_r2", "cons_d2")
LEAST_MASS = 1e-100  # of a prior between its bounds
# of a scale: a Laplace prior's variance is drawn as if nothing were nearer to its peak
MIN_SCALE_RATIO = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class CoefficientPrior:
    """A prior of one standardised coefficient.

    Parameters
    ----------
    kind
        normal, laplace, student_t, cauchy or uniform; horseshoe, spike_and_slab or r2d2, see there.
    loc
        Centre of the distribution.
    scale
        Scale of the distribution, for a normal its sd; not of uniform. Of horseshoe that of the
        common scale.
    df
        Degrees of freedom of student_t.
    lower, upper
        Bounds; the prior is truncated to them. uniform takes bounds alone; without one of them it
        is improper: it gives draws, but no Bayes factor. lower=0 is the positive half of any kind.
        None of horseshoe, spike_and_slab and r2d2.
    slab_sd, inclusion
        Of horseshoe and spike_and_slab, the latter of spike_and_slab alone: see there.
    mean_r2, prec_r2, cons_d2
        Of r2d2: see there.

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
    slab_sd: float | None = None
    inclusion: float | None = None
    mean_r2: float | None = None
    prec_r2: float | None = None
    cons_d2: float | None = None

    @property
    def selects(self) -> bool:
        """Return whether the prior is a joint one: horseshoe, spike and slab, or r2d2."""
        return self.kind in SELECTING

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
            """Return a bound on the new scale."""
            return None if end is None else (end - shift) / unit

        size = None if self.scale is None else self.scale / unit
        slab = None if self.slab_sd is None else self.slab_sd / unit
        loc = 0.0 if self.kind == "uniform" else (self.loc - shift) / unit
        low, high = moved(self.lower), moved(self.upper)
        return replace(self, loc=loc, scale=size, slab_sd=slab, lower=low, upper=high)

    def filled(self, sd: float) -> "CoefficientPrior":
        """Return a sparsity prior with all fields filled in. sd: see the field that it scales."""
        if self.kind == "r2d2":
            mean, prec = self.mean_r2 or MEAN_R2, self.prec_r2 or PREC_R2
            return replace(self, scale=sd, mean_r2=mean, prec_r2=prec)
        slab = self.slab_sd or sd
        scale = self.scale or USUAL_SCALE * slab if self.kind == "horseshoe" else None
        return replace(self, slab_sd=slab, scale=scale)

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


def horseshoe(scale: float | None = None, slab_sd: float | None = None) -> CoefficientPrior:
    """Return the regularised horseshoe prior, for sparse coefficients.

    Given tau and its own lambda a standardised coefficient is normal with variance 1 / (1 / (tau
    lambda)^2 + 1 / slab_sd^2): lambda is half Cauchy, and tau half Cauchy with `scale`, common to
    all that have this prior. Source: Piironen and Vehtari 2017; in the form of Nishimura and
    Suchard 2023.

    Parameters
    ----------
    scale
        Of tau: how far from 0 coefficients are that do not act. If None, a tenth of slab_sd.
    slab_sd
        Sd of coefficients that act. If None, that of the job's prior.

    Returns
    -------
    CoefficientPrior
        For `posterior`, by parameter or alone.

    Raises
    ------
    SpecError
        Not here, but where it is used: if a number is not above 0.

    Examples
    --------
    >>> fit.release.posterior(horseshoe(scale=0.1))
    """
    return CoefficientPrior(kind="horseshoe", scale=scale, slab_sd=slab_sd)


def spike_and_slab(
    inclusion: float | None = None, slab_sd: float | None = None
) -> CoefficientPrior:
    """Return the spike-and-slab prior: a coefficient is exactly 0, or normal.

    Parameters
    ----------
    inclusion
        Prior probability that a coefficient acts. If None, it is one number for all that have this
        prior, uniform between 0 and 1, and estimated with them.
    slab_sd
        Sd of standardised coefficients that act. If None, that of the job's prior.

    Returns
    -------
    CoefficientPrior
        For `posterior`, by parameter or alone.

    Raises
    ------
    SpecError
        Not here, but where it is used: if slab_sd is not above 0, or inclusion not between 0 and 1.

    Examples
    --------
    >>> fit.release.posterior(spike_and_slab(inclusion=0.1)).inclusion
    """
    return CoefficientPrior(kind="spike_and_slab", inclusion=inclusion, slab_sd=slab_sd)


def r2d2(
    mean_r2: float | None = None, prec_r2: float | None = None, cons_d2: float | None = None
) -> CoefficientPrior:
    """Return the R2-D2 prior, a prior on the share of variance that coefficients explain.

    R2 has a beta distribution, and its parts by coefficient a Dirichlet one. Coefficient j is
    normal with variance phi_j R2 / (1 - R2) s^2 / v_j: v_j is the variance of its column, as the
    release tells it, and s the residuals' sd, pi / sqrt(3) of log odds and 1 of logs of means.
    Source: Zhang, Naughton, Bondell and Reich 2022, in the parameters of brms.

    Parameters
    ----------
    mean_r2
        Prior mean of R2, 0.5 if left out.
    prec_r2
        Precision of that distribution, the sum of its two parameters, 2 if left out.
    cons_d2
        Concentration of the parts: the smaller, the fewer coefficients have most of it; no less
        than mean_r2 prec_r2 over the number of coefficients. If left out that or 0.5, the larger.

    Returns
    -------
    CoefficientPrior
        For `posterior`, by parameter or alone.

    Raises
    ------
    SpecError
        Not here, but where it is used: if a number is out of range.

    Examples
    --------
    >>> fit.release.posterior(r2d2(mean_r2=0.2))
    """
    return CoefficientPrior(kind="r2d2", mean_r2=mean_r2, prec_r2=prec_r2, cons_d2=cons_d2)


def of_text(text: str, pointer: str) -> CoefficientPrior:
    """Return a prior parsed from text such as "cauchy(0, 0.1)". Raises SpecError."""
    kind, numbers = read_prior(text, pointer)
    prior = CoefficientPrior(kind=cast("Kind", kind), **numbers)
    try:
        return checked(prior, pointer)
    except SpecError as error:  # a text has no members to point at
        member = error.pointer.removeprefix(pointer).strip("/")
        raise SpecError(pointer, f"{member} {error.message}") from None


def checked(prior: NormalPrior | CoefficientPrior, pointer: str) -> CoefficientPrior:
    """Return the prior if it is valid. Raises SpecError at the invalid field."""
    if isinstance(prior, NormalPrior):
        loc = getattr(prior, "loc", 0.0)
        prior = CoefficientPrior(kind="normal", loc=loc, scale=prior.scale)
    if not isinstance(prior, CoefficientPrior) or prior.kind not in get_args(Kind):
        kinds = get_args(Kind)
        guess = near(str(getattr(prior, "kind", "")), kinds)
        raise SpecError(f"{pointer}/kind", f"must be one of {', '.join(kinds)}{guess}")
    check_number(prior.loc, f"{pointer}/loc")
    _check_selecting(prior, pointer)
    _check_scale(prior, pointer)
    _check_df(prior, pointer)
    _check_bounds(prior, pointer)
    return prior


def _check_selecting(prior: CoefficientPrior, pointer: str) -> None:
    """Refuse invalid fields of a sparsity prior. Raises SpecError."""
    _check_r2d2(prior, pointer)
    if not prior.selects:
        for field in ("slab_sd", "inclusion"):
            if getattr(prior, field) is not None:
                raise SpecError(f"{pointer}/{field}", "belongs to horseshoe and spike_and_slab")
        return
    not_of = {
        "horseshoe": ("inclusion",),
        "spike_and_slab": ("scale",),
        "r2d2": ("scale", "slab_sd", "inclusion"),
    }
    others = ("lower", "upper", *not_of[prior.kind])
    for field in others:
        if getattr(prior, field) is not None:
            raise SpecError(f"{pointer}/{field}", f"is nothing that {prior.kind} has")
    if prior.loc != 0.0:
        raise SpecError(f"{pointer}/loc", f"must be 0: {prior.kind} draws coefficients to it")
    if prior.inclusion is not None:
        check_number(prior.inclusion, f"{pointer}/inclusion")
        if not LEAST_INCLUSION <= prior.inclusion <= 1.0 - LEAST_INCLUSION:
            raise SpecError(f"{pointer}/inclusion", "must be between 0 and 1, and neither")
    if prior.slab_sd is not None:
        check_number(prior.slab_sd, f"{pointer}/slab_sd")
        if not LEAST_SCALE <= prior.slab_sd <= MOST_SCALE:
            limits = f"{LEAST_SCALE:g} and {MOST_SCALE:g}"
            raise SpecError(f"{pointer}/slab_sd", f"must be between {limits}")


def _check_r2d2(prior: CoefficientPrior, pointer: str) -> None:
    """Refuse invalid fields of an R2-D2 prior. Raises SpecError."""
    limits = {
        "mean_r2": (LEAST_R2, 1.0 - LEAST_R2),
        "prec_r2": (LEAST_NUMBER, MOST_NUMBER),
        "cons_d2": (LEAST_NUMBER, MOST_NUMBER),
    }
    for field, (least, most) in limits.items():
        value = getattr(prior, field)
        if value is None:
            continue
        if prior.kind != "r2d2":
            raise SpecError(f"{pointer}/{field}", "belongs to r2d2")
        check_number(value, f"{pointer}/{field}")
        if not least <= value <= most:
            raise SpecError(f"{pointer}/{field}", f"must be between {least:g} and {most:g}")


def _check_scale(prior: CoefficientPrior, pointer: str) -> None:
    """Refuse a scale that is missing, not positive or too large. Raises SpecError."""
    for field, value in (("scale", prior.scale), ("df", prior.df)):
        if value is not None:
            check_number(value, f"{pointer}/{field}")
    if prior.kind == "uniform":
        if prior.scale is not None or prior.loc != 0.0:
            field = "loc" if prior.scale is None else "scale"
            raise SpecError(f"{pointer}/{field}", "a uniform prior takes lower and upper alone")
        return
    if prior.scale is None and prior.selects:
        return
    if prior.scale is None or not LEAST_SCALE <= prior.scale <= MOST_SCALE:
        raise SpecError(f"{pointer}/scale", f"must be between {LEAST_SCALE:g} and {MOST_SCALE:g}")


def _check_df(prior: CoefficientPrior, pointer: str) -> None:
    """Refuse degrees of freedom that are missing or out of range. Raises SpecError."""
    if prior.kind != "student_t":
        if prior.df is not None:
            raise SpecError(f"{pointer}/df", "belongs to student_t alone")
        return
    if prior.df is None or not LEAST_DF <= prior.df <= MOST_DF:
        raise SpecError(f"{pointer}/df", f"must be between {LEAST_DF:g} and {MOST_DF:g}")


def _check_bounds(prior: CoefficientPrior, pointer: str) -> None:
    """Refuse bounds that are not increasing numbers. Raises SpecError."""
    for name, end in (("lower", prior.lower), ("upper", prior.upper)):
        if end is not None:
            check_number(end, f"{pointer}/{name}")
    if not prior.high - prior.low >= LEAST_SCALE:
        raise SpecError(f"{pointer}/upper", f"must be above lower, by {LEAST_SCALE:g} or more")
    if prior.bounded and not prior.mass() >= LEAST_MASS:
        raise SpecError(
            f"{pointer}/lower", "almost all of the prior is outside its bounds: move one of them"
        )


def check_number(value: float, pointer: str) -> None:
    """Raise SpecError unless a value is a number of at most LARGEST_NUMBER."""
    if not isinstance(value, Real) or isinstance(value, bool) or not abs(value) <= LARGEST_NUMBER:
        raise SpecError(pointer, f"must be a number within +-{LARGEST_NUMBER:g}")


def half(prior: NormalPrior | CoefficientPrior, pointer: str) -> tuple[float, float]:
    """Return scale and degrees of freedom of a half prior above 0; 0 for a normal.

    Raises SpecError where an sd cannot have it.
    """
    parsed = checked(prior, pointer)
    ends = parsed.lower in (None, 0.0) and parsed.upper is None
    if parsed.kind not in ("normal", "student_t", "cauchy") or parsed.loc != 0.0 or not ends:
        message = "must be normal, student_t or cauchy with loc 0: the half above 0 is taken"
        raise SpecError(f"{pointer}/kind", message)
    return parsed.scale or 1.0, 0.0 if parsed.kind == "normal" else parsed.freedom


class Together:
    """Priors of several coefficients (a,) as arrays, in units of their likelihoods' sds.

    spikes: (s,) which of them may be at their loc exactly; slabs: (s,) precisions of these if not.
    """

    def __init__(self, priors: Sequence[CoefficientPrior], units: Floats) -> None:
        scaled = [
            prior.within(unit, 0.0) for prior, unit in zip(priors, units.tolist(), strict=True)
        ]
        self.loc = np.array([prior.loc for prior in scaled])
        self.low = np.array([prior.low for prior in scaled])
        self.high = np.array([prior.high for prior in scaled])
        self.bounded = np.array([prior.bounded for prior in scaled])
        self.placed = np.array([prior.kind != "uniform" for prior in scaled])
        kinds = np.array([prior.kind for prior in scaled])
        self.spikes = np.flatnonzero(kinds == "spike_and_slab")
        of_spikes = [scaled[k] for k in self.spikes]
        self.slabs = np.array([(prior.slab_sd or 1.0) ** -2.0 for prior in of_spikes])
        rates = [prior.inclusion for prior in of_spikes]
        self._rates = np.array([math.nan if rate is None else rate for rate in rates])
        self._parts = np.flatnonzero(kinds == "r2d2")
        self._explained = Explained([scaled[k] for k in self._parts]) if len(self._parts) else None
        self._few = np.flatnonzero(kinds == "horseshoe")
        self._shrinkage = Shrinkage([scaled[k] for k in self._few]) if len(self._few) else None
        self._own = scaled

    def precisions(self, values: Floats, random: RandomSource) -> Floats:
        """Return draws (c, a) of the normals' precisions given coefficients (c, a)."""
        drawn = [_precision(prior, values[:, k], random) for k, prior in enumerate(self._own)]
        precisions = np.stack(drawn, axis=1)
        if self._shrinkage is not None:
            precisions[:, self._few] = self._shrinkage.precisions(values[:, self._few], random)
        if self._explained is not None:
            precisions[:, self._parts] = self._explained.precisions(values[:, self._parts], random)
        return precisions

    def rates(self, included: NDArray[np.bool_], random: RandomSource) -> Floats:
        """Return (c, s) prior probabilities that coefficients act: those that are not given are one
        number, with a uniform prior, drawn given which coefficients act (c, s)."""
        rates = np.repeat(self._rates[None], len(included), axis=0)
        free = np.isnan(self._rates)
        acting = included[:, free].sum(axis=1)
        ends = acting + 1.0, free.sum() - acting + 1.0
        drawn = betaincinv(*ends, random.uniforms(acting.shape))
        rates[:, free] = np.clip(drawn, LEAST_INCLUSION, 1.0 - LEAST_INCLUSION)[:, None]
        return rates


class Shrinkage:
    """The scales of coefficients (a,) with a horseshoe prior, across steps of each chain.

    Variances have inverse gamma distributions given auxiliary ones. Source: Makalic and Schmidt
    2016. A slab's normal density multiplies all of the prior, so that it changes none of them.
    """

    def __init__(self, priors: Sequence[CoefficientPrior]) -> None:
        self._loc = np.array([prior.loc for prior in priors])
        self._scale = np.array([prior.scale or 1.0 for prior in priors])
        self._slab = np.array([(prior.slab_sd or 1.0) ** -2.0 for prior in priors])
        self._local: Floats | None = None
        self._common: Floats = np.ones(1)

    def precisions(self, values: Floats, random: RandomSource) -> Floats:
        """Return draws (c, a) of precisions given coefficients (c, a)."""
        squares = ((values - self._loc) / self._scale) ** 2
        if self._local is None:
            self._local, self._common = np.ones(values.shape), np.ones(len(values))
        a = squares.shape[1]
        rates = 1.0 / self._common + 1.0
        auxiliary = -np.log(random.uniforms(rates.shape)) / rates  # its inverse
        half = auxiliary + 0.5 * (squares / self._local).sum(axis=1)
        drawn = gammaincinv(0.5 * (a + 1.0), random.uniforms(half.shape))
        self._common = np.clip(half / drawn, *VARIANCES)
        rates = 1.0 / self._local + 1.0
        auxiliary = -np.log(random.uniforms(rates.shape)) / rates
        half = auxiliary + 0.5 * squares / self._common[:, None]
        self._local = np.clip(half / -np.log(random.uniforms(half.shape)), *VARIANCES)
        variances = self._common[:, None] * self._local * self._scale**2
        return np.asarray(1.0 / variances + self._slab)


def least_concentration(priors: Sequence[CoefficientPrior]) -> float:
    """Return the least cons_d2 of coefficients that share an R2-D2 prior."""
    first = priors[0]
    return (first.mean_r2 or MEAN_R2) * (first.prec_r2 or PREC_R2) / len(priors)


class Explained:
    """The parts of R2 explained by coefficients (a,), across steps of each chain.

    Of priors that are filled and the same but for their scales. With w = R2 / (1 - R2) the parts
    phi w have the density (1 + sum)^-(first + second) sum^-(a cons - first) prod part^(cons - 1):
    two auxiliary gamma numbers make each a generalised inverse Gaussian given its coefficient.
    """

    def __init__(self, priors: Sequence[CoefficientPrior]) -> None:
        self._scale = np.array([prior.scale or 1.0 for prior in priors])
        mean, both = priors[0].mean_r2 or MEAN_R2, priors[0].prec_r2 or PREC_R2
        least = least_concentration(priors)
        self._first, self._both = mean * both, both
        self._concentration = max(priors[0].cons_d2 or max(CONS_D2, least), least)
        self._parts: Floats | None = None

    def precisions(self, values: Floats, random: RandomSource) -> Floats:
        """Return draws (c, a) of precisions given coefficients (c, a)."""
        a = values.shape[1]
        if self._parts is None:
            self._parts = np.full(values.shape, 1.0 / a)
        total = self._parts.sum(axis=1)
        rate = gammaincinv(self._both, random.uniforms(total.shape)) / (1.0 + total)
        beyond = a * self._concentration - self._first
        if beyond > MIN_SCALE_RATIO:
            rate = rate + gammaincinv(beyond, random.uniforms(total.shape)) / total
        squares = np.clip((values / self._scale) ** 2, *VARIANCES)
        twice = np.maximum(2.0 * rate, VARIANCES[0])[:, None]
        sizes = np.sqrt(squares / twice)
        drawn = inverse_gaussian_like(self._concentration - 0.5, np.sqrt(squares * twice), random)
        self._parts = np.clip(sizes * drawn, *VARIANCES)
        return np.asarray(1.0 / (self._parts * self._scale**2))


def inverse_gaussian_like(power: float, omega: Floats, random: RandomSource) -> Floats:
    """Return draws of x with density x^(power - 1) exp(-omega (x + 1 / x) / 2), up to a constant.

    The generalised inverse Gaussian, by rejection whose rate is bounded below. Source: Devroye
    2014.
    """
    lam, w = abs(power), omega.ravel()
    alpha = np.sqrt(w * w + lam * lam) - lam

    def psi(x: Floats, alpha: Floats) -> Floats:
        """Return the log density at exp(x), up to a constant."""
        return np.asarray(-alpha * (np.cosh(x) - 1.0) - lam * (np.expm1(x) - x))

    def slope(x: Floats) -> Floats:
        """Return the derivative of psi."""
        return np.asarray(-alpha * np.sinh(x) - lam * np.expm1(x))

    ones = np.ones(len(w))
    with np.errstate(all="ignore"):
        at = -psi(ones, alpha)
        t = np.where(at > 2.0, np.sqrt(2.0 / (alpha + lam)), 1.0)
        t = np.where(at < 0.5, np.log(4.0 / (alpha + 2.0 * lam)), t)
        at = -psi(-ones, alpha)
        s = np.where(at > 2.0, np.sqrt(4.0 / (alpha * math.cosh(1.0) + lam)), 1.0)
        low = np.log1p(1.0 / alpha + np.sqrt(1.0 / alpha**2 + 2.0 / alpha))
        s = np.where(at < 0.5, np.minimum(low, 1.0 / lam if lam else np.inf), s)
        right, left = -1.0 / slope(t), 1.0 / slope(-s)
        top, bottom = psi(t, alpha), psi(-s, alpha)
        upper, lower = t + right * top, s + left * bottom
    drawn, open_ = np.empty(len(w)), np.arange(len(w))
    while len(open_):
        u, v, accept = (random.uniforms(open_.shape) for _ in range(3))
        up, down, r, p = (part[open_] for part in (upper, lower, right, left))
        middle = up + down
        u = u * (middle + r + p)
        x = np.where(u < middle, -down + middle * v, up - r * np.log(v))
        x = np.where(u >= middle + r, -down + p * np.log(v), x)
        log_cap = np.where(x > up, top[open_] - (x - t[open_]) / r, 0.0)
        log_cap = np.where(x < -down, bottom[open_] + (x + s[open_]) / p, log_cap)
        done = np.log(accept) + log_cap <= psi(x, alpha[open_])
        drawn[open_[done]], open_ = x[done], open_[~done]
    ratio = lam / w
    logs = np.log(ratio + np.sqrt(1.0 + ratio * ratio)) + drawn
    return np.exp(logs if power >= 0.0 else -logs).reshape(omega.shape)


def _precision(prior: CoefficientPrior, values: Floats, random: RandomSource) -> Floats:
    """Return draws (c,). Laplace: Park and Casella 2008. Student's t: a gamma mixture."""
    if prior.kind == "uniform" or prior.selects:
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
