"""Student-t regression of a number, for residuals with longer tails than normal ones.

A response is x^T beta + sigma T, T of Student's t distribution with options.degrees_of_freedom,
which are given (4 where they are not) and never estimated: fewer for longer tails; with 30
residuals are about normal. Coefficients are those of the middle of a response, which few rows far
out hardly move: a robust regression, and its likelihood is written down. log_sigma is a parameter;
the sd of a residual is sigma sqrt(df / (df - 2)). Priors are those of linear regression.
noisy_quadratic releases it; no chain samples it. Source: Lange, Little and Taylor 1989.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.families import linear
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.misfits import NARROW, Misfits
from dpmcmc.families.scores.base import TINY, UNCUT, Evaluation, Floats, Link, Terms, Variance
from dpmcmc.families.scores.distributions import of_numbers
from dpmcmc.families.scores.responses import Response, number_by
from dpmcmc.formula.design import Design, check_measured, number_response
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec

USUAL, FEWEST, MOST = 4.0, 1.0, 30.0  # degrees of freedom
OPTION = "/model/options/degrees_of_freedom"
MIDDLE = 0.9  # quantile at which the middle of a law is as wide as a normal one's
LARGEST_SCALE_SCORE = 6.0  # on the way to the mode, where residuals are yet far
TAILS = "residuals lie far out more often than the model's: student_t has such tails"


def check(design: Design, model: ModelSpec) -> None:
    """Refuse a response that is not a number, and invalid degrees of freedom."""
    check_measured(number_response(design, "Student-t regression"))
    degrees = degrees_of(model.options)
    if not is_number(degrees) or not FEWEST <= degrees <= MOST:
        raise SpecError(OPTION, f"must be between {FEWEST:g} and {MOST:g}; linear is for more")


def degrees_of(options: ModelOptions) -> float:
    """Return the degrees of freedom."""
    return USUAL if options.degrees_of_freedom is None else options.degrees_of_freedom


class StudentT:
    """With q = df / (df + z^2) the score is (df + 1) / df q z in a residual z, and df - (df + 1) q
    in the log of its scale: both are bounded, and the rows' lengths alone are clipped.
    """

    link: Link = "identity"
    has_scale, log_scale, quadratic, variance = False, True, False, Variance(0.0)
    symmetric = True

    def __init__(self, degrees: float) -> None:
        self.degrees = n = degrees
        self.information = (n + 1.0) / (n + 3.0), 2.0 * n / (n + 3.0)
        self.sharpest = max((n + 1.0) / n, 0.5 * (n + 1.0))
        self.normal_scale = float(stdtrit(n, MIDDLE) / ndtri(MIDDLE))

    def longest(self, squares: Floats) -> Floats:
        """Return the norm of the longest score of a row: see ScaleFamily."""
        n, (location, scale) = self.degrees, squares
        bend = (n + 1.0) ** 2 * (scale - location / n)
        rise = (n + 1.0) ** 2 / n * location - 2.0 * n * (n + 1.0) * scale
        top = np.clip(-0.5 * rise / np.where(bend < 0.0, bend, -np.inf), 0.0, 1.0)
        ends = [bend * q * q + rise * q + n * n * scale for q in (0.0, 1.0, top)]
        return np.asarray(np.sqrt(np.max(ends, axis=0)))

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope and its variance, for the predictor and log scale of each row."""
        n, sd = self.degrees, np.exp(at.eta[1])
        z = (y - at.eta[0]) / sd
        q = n / (n + z * z)
        psi = np.stack(((n + 1.0) / n * q * z / sd, n - (n + 1.0) * q))
        units = np.stack((1.0 / sd, np.ones_like(sd)))
        squares = np.stack((at.inner[0, 0], at.inner[1, 1])) * units**2
        if at.most >= UNCUT:
            parts = self._observed(z, q, np.sqrt(np.maximum(squares, TINY)))
            root, minus = (units[:, None] * part for part in parts)
            return Terms(psi, root, root, np.zeros_like(y), minus)
        location, scale = self.information
        slope = location * squares[0] + scale * squares[1]
        w = np.minimum(1.0, at.most / np.maximum(self.longest(squares), TINY))
        w = np.minimum(w, at.curved / np.maximum(slope, TINY))
        psi[1] = np.minimum(psi[1], LARGEST_SCALE_SCORE)
        root = np.eye(2)[:, :, None] * np.sqrt([[location], [scale]]) * units
        return Terms(w * psi, np.sqrt(w) * root, w * root, np.zeros_like(y))

    def _observed(self, z: Floats, q: Floats, lengths: Floats) -> tuple[Floats, Floats]:
        """Return roots of the positive and the negative part of the observed information.

        At a scale of 1, of single rows, which holds whatever the law of residuals is. Parts are
        those in the coordinates of the release, by lengths (2, m).
        """
        n = self.degrees
        first = (n + 1.0) / n * q * (2.0 * q - 1.0) * lengths[0] ** 2
        second = 2.0 * (n + 1.0) * q * (1.0 - q) * lengths[1] ** 2
        cross = 2.0 * (n + 1.0) / n * q * q * z * lengths[0] * lengths[1]
        half, middle = 0.5 * (first - second), 0.5 * (first + second)
        apart, angle = np.hypot(half, cross), 0.5 * np.arctan2(cross, half)
        turn = np.stack((np.cos(angle), np.sin(angle)))
        vectors = np.stack((turn, np.stack((-turn[1], turn[0]))), axis=1) / lengths[:, None]
        values = np.stack((middle + apart, middle - apart))
        root, minus = (vectors * np.sqrt(np.maximum(part, 0.0)) for part in (values, -values))
        return root, minus


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior of linear regression, with a t residual's information."""
    known, family = linear.guess(design, spec), of(spec.model.options)
    prior = np.diag(linear.LinearForm(design, spec).prior_precision)
    rows, (location, scale) = known.precision - prior, family.information
    rows[:-1, :-1] *= location
    rows[-1, -1] *= 0.5 * scale
    longest = np.hypot(1.0, family.degrees / np.sqrt(scale * len(rows)))
    return replace(known, precision=rows + prior, longest=float(longest))


def of(options: ModelOptions) -> StudentT:
    """Return the family of scores with the job's degrees of freedom."""
    return StudentT(degrees_of(options))


def response(options: ModelOptions) -> Response:
    """Return how new responses are simulated."""
    degrees = degrees_of(options)
    return number_by(lambda share: stdtrit(degrees, share))


MODEL = Model(
    "student_t",
    check=check,
    form=linear.LinearForm,
    guess=guess,
    example=ModelSpec(family="student_t", formula="count ~ x"),
    options=frozenset({"degrees_of_freedom"}),
    parameters=linear.parameters,
    release=linear.release,
    prior=linear.prior,
    unit=linear.unit_of,
    chains=False,
    rows=of,
    response=response,
    distribution=lambda options: of_numbers(
        lambda y, eta, sigma: stdtr(degrees_of(options), (y - eta) / sigma)
    ),
    misfits=Misfits("numbers", {("numbers", NARROW): TAILS}),
)
