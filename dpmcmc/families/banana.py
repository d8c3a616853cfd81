"""The banana model in d dimensions and its exact posterior, a target whose answer is known.

theta ~ Ban(0, prior_variance I), X_1 ~ N(theta_1, s_1^2), X_j ~ N(theta_j, s_j^2), except for
X_2 ~ N(theta_2 + a (theta_1 - m)^2 + b, s_2^2). The map `straighten`, of Jacobian determinant 1,
makes prior and posterior Gaussian with independent coordinates. All of it is public: only the rows
are private.

As a family of jobs: formula `~ x1 + x2 + ...`, the columns; prior.scale^2 is s_0^2 (the thesis:
1000); options.a, b, m (by default 20, 0, 0) and variances (by default 20, 2.5, 1, ...).
options.coordinates: "straight" (the default) lets proposals move the straightened coordinates, in
sds, where the posterior is Gaussian, and bends what is released; "natural" moves theta itself.
Source: thesis A, section 2.3, Definition 8 and Theorem 5 (also Tran, Pitt and Kohn 2014).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.families import gaussian_mean
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, guess_of
from dpmcmc.families.forms import Form
from dpmcmc.families.priors import POINTER as PRIOR
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior
from dpmcmc.kernels.arithmetic.public import shear


@dataclass(frozen=True, slots=True, kw_only=True)
class Banana:
    """The public constants. variances: s_j^2 of the columns, as many as dimensions, 2 or more."""

    variances: tuple[float, ...]
    a: float = 20.0
    b: float = 0.0
    m: float = 0.0
    prior_variance: float = 1000.0

    def __post_init__(self) -> None:
        """Refuse fewer than two dimensions and constants that are not positive."""
        if len(self.variances) < 2:
            raise ValueError("a banana has at least 2 dimensions")
        numbers = (*self.variances, self.prior_variance)
        if not all(0 < number < np.inf for number in numbers):
            raise ValueError("variances must be finite numbers above 0")
        if not all(np.isfinite((self.a, self.b, self.m))):
            raise ValueError("a, b and m must be finite")

    @classmethod
    def thesis(cls, dimensions: int) -> "Banana":
        """The constants of the thesis' experiments in this many dimensions."""
        return cls(variances=(20.0, 2.5) + (1.0,) * (dimensions - 2))


def straighten(banana: Banana, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return coordinates with a Gaussian posterior: g^-1 of Definition 8. theta: (..., d)."""
    straight = np.array(theta, dtype=np.float64)
    straight[..., 1] += banana.a * (straight[..., 0] - banana.m) ** 2 + banana.b
    return straight


def bend(banana: Banana, straight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return theta, the inverse of `straighten`: g of Definition 8. straight: (..., d)."""
    theta = np.array(straight, dtype=np.float64)
    theta[..., 1] -= banana.a * (theta[..., 0] - banana.m) ** 2 + banana.b
    return theta


def exact_posterior(
    banana: Banana, column_means: NDArray[np.float64], rows: int, tempering: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variances, each (d,), of the straightened posterior.

    column_means: (d,) of the rows; tempering: T in (0, 1] multiplies the likelihood. Not private.
    Source: Theorem 5. Raises ValueError on another number of columns, rows below 0, T outside.
    """
    means = np.asarray(column_means, dtype=np.float64)
    if means.shape != (len(banana.variances),):
        raise ValueError("one mean for each dimension is needed")
    if rows < 0 or not 0 < tempering <= 1:
        raise ValueError("rows must not be negative and the tempering must lie in (0, 1]")
    weights = tempering * rows / np.array(banana.variances)
    variances = 1 / (weights + 1 / banana.prior_variance)
    return weights * means * variances, variances


def draw_posterior(
    banana: Banana,
    column_means: NDArray[np.float64],
    rows: int,
    draws: int,
    *,
    random: np.random.Generator,
    tempering: float = 1.0,
) -> NDArray[np.float64]:
    """Independent draws (draws, d) of theta from the exact posterior. Not private."""
    mean, variances = exact_posterior(banana, column_means, rows, tempering)
    noise = random.standard_normal((draws, len(mean)))
    return bend(banana, mean + np.sqrt(variances) * noise)


def simulate(
    banana: Banana, theta: NDArray[np.float64], rows: int, *, random: np.random.Generator
) -> NDArray[np.float64]:
    """Rows (rows, d) of the model at theta (d,). Raises ValueError on another length of theta."""
    if np.shape(theta) != (len(banana.variances),):
        raise ValueError("theta must have one value for each dimension")
    noise = random.standard_normal((rows, len(banana.variances)))
    return straighten(banana, np.asarray(theta)) + np.sqrt(banana.variances) * noise


def constants(design: Design, model: ModelSpec) -> Banana:
    """Return the public constants of a job."""
    options, thesis = model.options, Banana.thesis(max(2, len(design.parameters)))
    return Banana(
        variances=options.variances or thesis.variances,
        a=thesis.a if options.a is None else options.a,
        b=thesis.b if options.b is None else options.b,
        m=thesis.m if options.m is None else options.m,
        prior_variance=_prior(model).scale ** 2,
    )


def _prior(model: ModelSpec) -> NormalPrior:
    """Return the normal prior of straightened coordinates. Raises SpecError on any other."""
    if isinstance(model.prior, dict):
        raise SpecError(PRIOR, "a banana has one prior for all coordinates: give its scale")
    prior = model.prior or NormalPrior()
    if prior.loc != 0.0:
        raise SpecError(f"{PRIOR}/loc", "must be 0 for a banana")
    return prior


def _resolved(design: Design, spec: JobSpec) -> JobSpec:
    """Return the job with its prior and the variances of the columns filled in."""
    variances = constants(design, spec.model).variances
    options = replace(spec.model.options, variances=variances)
    return replace(spec, model=replace(spec.model, options=options, prior=_prior(spec.model)))


def check(design: Design, model: ModelSpec) -> None:
    """Refuse columns that are no numbers, and fewer than two of them. Raises SpecError."""
    gaussian_mean.check(design, model)
    _prior(model)
    if len(design.parameters) < 2:
        raise SpecError(POINTER, "a banana has at least 2 columns")


class NaturalForm(gaussian_mean.MeanForm):
    """Positions are theta itself. See Form; prior and rows are Gaussian once straightened."""

    def __init__(self, design: Design, spec: JobSpec) -> None:
        super().__init__(design, _resolved(design, spec))
        self._banana = constants(design, spec.model)
        self.start = bend(self._banana, self._middle)
        self.public = self.public._replace(
            centre=self._middle,
            unit=self._sds,
            bend=np.array((self._banana.a, self._banana.b, self._banana.m)),
        )


def form(design: Design, spec: JobSpec) -> Form:
    """Return the form, in the coordinates (straightened or natural) that the job names."""
    if spec.model.options.coordinates == "natural":
        return NaturalForm(design, spec)
    return gaussian_mean.MeanForm(design, _resolved(design, spec))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected before the rows are read, means within one sd of mid-range."""
    if spec.model.options.coordinates != "natural":
        return gaussian_mean.guess(design, _resolved(design, spec))
    shape, tempering = NaturalForm(design, spec), spec.model.tempering or 1.0
    sds = np.sqrt(constants(design, spec.model).variances)
    typical = shape.start + np.r_[0.0, sds[1:]]
    information = design.schema.rows * tempering / sds**2 + _prior(spec.model).scale ** -2
    jacobian = np.eye(len(sds))
    jacobian[1, 0] = shear(shape.public, typical)
    precision = (jacobian.T * information) @ jacobian
    return replace(guess_of(shape, spec, precision, typical), known=True)


def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
    """Return positions as theta (..., d), the released parameters."""
    if spec.model.options.coordinates == "natural":
        return positions
    straight = gaussian_mean.release(design, _resolved(design, spec), positions)
    return bend(constants(design, spec.model), straight)


MODEL = Model(
    "banana",
    check=check,
    form=form,
    guess=guess,
    example=ModelSpec(family="banana", formula="~ x + count"),
    options=frozenset({"ratio_slope", "variances", "a", "b", "m", "coordinates"}),
    release=release,
)
