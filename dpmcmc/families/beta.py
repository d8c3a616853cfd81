"""Beta regression of a share: a number strictly between 0 and 1.

A share with mean m has variance m (1 - m) / (1 + phi): the larger phi, the less shares vary. The
log odds of the mean are x^T beta, so that exp of a coefficient multiplies these odds. The log of
phi is the parameter log_dispersion, as R's betareg has it for a constant precision and brms calls
it phi. Intervals are by the scores as they are, so that they are those of the fit without privacy
where shares follow another law. Shares of a known number of trials are for binomial.
Priors: Normal(0, 2.5), and of log_dispersion Normal(2, 2).
noisy_quadratic releases it; no chain samples it. Source: Ferrari 2004.
"""

import math

import numpy as np
from scipy.special import betainc, betainccinv, betaincinv, digamma, expit, logit, polygamma

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import LOG_DISPERSION
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import Normals, normal_priors, usual
from dpmcmc.families.scores.base import TINY, UNCUT, Evaluation, Floats, Link, Terms, Variance
from dpmcmc.families.scores.distributions import of_numbers
from dpmcmc.families.scores.responses import Response
from dpmcmc.formula.design import POINTER, Design, number_response
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS
from dpmcmc.privacy.noise import RandomSource

LOG_PHI_MEAN, LOG_PHI_SD = 2.0, 2.0  # of its prior: a phi is mostly between .15 and 400
FARTHEST_LOG_PHI = (-5.0, 12.0)  # more is not told apart
START_PHI = (0.5, 2000.0)  # what it may be taken to be before rows' scores are seen
MAX_PREDICTOR = 12.0  # of log odds of a mean: more is not told apart
HALVINGS = 60


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response whose bounds reach 0 or 1, or lie beyond. Raises SpecError."""
    number_of(design)


def number_of(design: Design) -> NumberColumn:
    """Return the response's column. Raises SpecError where it is no share between 0 and 1."""
    response = number_response(design, "beta regression")
    if not 0.0 < response.lower < response.upper < 1.0:
        message = (
            f"beta regression needs a share above 0 and below 1, and {response.name!r} has bounds"
            f" {response.lower:g} and {response.upper:g}: declare the smallest and the largest"
            " share that there can be, such as 0.001 and 0.999, to which others are moved"
        )
        raise SpecError(POINTER, message)
    return response


class Beta:
    """With a = m phi and b = (1 - m) phi, D the digamma function and m' = m (1 - m), the score is
    phi m' (log odds of y - D(a) + D(b)) in the predictor, and in log phi
    phi (m (log y - D(a)) + (1 - m) (log(1 - y) - D(b)) + D(phi)).
    """

    link: Link = "logit"
    has_scale, log_scale, quadratic, variance = False, True, False, Variance(1.0, -1.0)
    symmetric = False

    def known(self) -> None:
        """Return None: linear regression of log odds starts the path (see ShapedFamily)."""
        return

    def scale_of(self, mean: float, dispersion: float) -> float:
        """Return phi at a mean response, from the variance of the residuals' log odds."""
        low, high = START_PHI
        for _ in range(HALVINGS):
            phi = math.sqrt(low * high)
            part = polygamma(1, mean * phi) + polygamma(1, (1.0 - mean) * phi)
            low, high = (phi, high) if float(part) > dispersion**2 else (low, phi)
        return math.sqrt(low * high)

    def mean_of(self, eta: Floats) -> Floats:
        """Return mean responses at predictors eta."""
        return np.asarray(expit(np.clip(eta, -MAX_PREDICTOR, MAX_PREDICTOR)))

    def expected(self, mean: Floats, scale: float) -> Floats:
        """Return (2, m), expected information of a row about its predictor and log phi."""
        return self._expected_information(mean, _bounded(scale))[:2]

    def _expected_information(self, mean: Floats, phi: float) -> Floats:
        """Return (3, m), expected information about predictor, log phi, and the cross term."""
        first, second = polygamma(1, mean * phi), polygamma(1, (1.0 - mean) * phi)
        off = mean * (1.0 - mean)
        of_predictor = (phi * off) ** 2 * (first + second)
        of_scale = mean**2 * first + (1.0 - mean) ** 2 * second - polygamma(1, phi)
        between = phi**2 * off * (mean * first - (1.0 - mean) * second)
        return np.stack((of_predictor, phi**2 * of_scale, between))

    def tails(self, mean: float, scale: float, beyond: float) -> tuple[float, float]:
        """Return responses below and above which a share `beyond` lies, at this mean."""
        a, b = mean * scale, (1.0 - mean) * scale
        low, high = betaincinv(a, b, beyond), betainccinv(a, b, beyond)
        return max(float(low), TINY), min(float(high), 1.0 - 1e-12)

    def largest_information(self, _: float) -> tuple[float, float]:
        """Return the largest information about predictor and log phi, at the largest phi."""
        return 0.5 * math.exp(FARTHEST_LOG_PHI[1]), 1.0

    def score(self, y: Floats, mean: Floats, scale: float) -> Floats:
        """Return (2, m), unclipped derivatives of the log likelihood by predictor and log phi."""
        phi = _bounded(scale)
        first, second = digamma(mean * phi), digamma((1.0 - mean) * phi)
        over, under = np.log(y) - first, np.log1p(-y) - second
        of_scale = mean * over + (1.0 - mean) * under + digamma(phi)
        return np.stack((phi * mean * (1.0 - mean) * (over - under), phi * of_scale))

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its expected slope and its variance, of a row's predictor and of log phi.

        On the way to the mode long rows are weighted down by what they tell on average.
        """
        phi, mean = _bounded(math.exp(min(at.shared, FARTHEST_LOG_PHI[1]))), self.mean_of(at.eta[0])
        y = np.where((y > 0.0) & (y < 1.0), y, 0.5)  # of rows that are left out
        psi, information, w = (
            self.score(y, mean, phi),
            self._expected_information(mean, phi),
            np.ones_like(mean),
        )
        root = np.zeros((2, 2, len(mean)))
        root[0, 0] = np.sqrt(np.maximum(information[0], TINY))
        root[1, 0] = information[2] / root[0, 0]
        root[1, 1] = np.sqrt(np.maximum(information[1] - root[1, 0] ** 2, 0.0))
        if at.most < UNCUT:
            size = information[0] * at.inner[0, 0] + information[1] * at.inner[1, 1]
            size += 2.0 * information[2] * at.inner[0, 1]
            w = np.minimum(1.0, at.curved / np.maximum(size, TINY))
        return Terms(w * psi, np.sqrt(w) * root, w * root, np.zeros_like(mean))


def _bounded(phi: float) -> float:
    """Return phi, forced into the range in which the beta functions are computed accurately."""
    return min(max(phi, math.exp(FARTHEST_LOG_PHI[0])), math.exp(FARTHEST_LOG_PHI[1]))


def parameters(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return the names of what is released."""
    return (*design.parameters, LOG_DISPERSION)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors: defaults Normal(0, 2.5) of coefficients, and the prior of log phi."""
    names, d = parameters(design, model), len(design.parameters)
    means, sds = usual(len(names))
    means[d:], sds[d:] = LOG_PHI_MEAN, LOG_PHI_SD
    return normal_priors(model.prior, names, (means, sds), same=d)


class Form(DesignForm):
    """Positions are (coefficients, log phi). See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = number_of(design)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected before rows are read: shares near 1/2, median phi."""
    form, response = Form(design, spec), number_of(design)
    sds, tempering = prior(design, spec.model)[1], spec.model.tempering or 1.0
    phi, d = math.exp(LOG_PHI_MEAN), len(design.parameters)
    each, rows = Beta().expected(np.array([0.5]), phi)[:, 0], design.schema.rows * tempering
    precision = np.diag(form.prior_precision)
    precision[:d, :d] += rows * each[0] * second_moments(design)
    precision[d, d] += rows * each[1]
    ends = np.array([response.lower, response.upper])
    most = tempering * phi * float(np.abs(logit(ends)).max() + 1.0)
    return Guess(
        precision=precision,
        width=np.full(len(sds), most),
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


def response(_: ModelOptions) -> Response:
    """Return how new shares are predicted and simulated."""

    def drawn(mean: Floats, sds: Floats, random: RandomSource) -> Floats:
        """Return simulated shares with these means and precisions phi."""
        kept = np.clip(mean, TINY, 1.0 - 1e-12)
        return np.asarray(betaincinv(kept * sds, (1.0 - kept) * sds, random.uniforms(mean.shape)))

    return Response(lambda eta: np.asarray(expit(eta)), drawn, "odds of the mean")


def cumulative(y: Floats, eta: Floats, phi: Floats | float) -> Floats:
    """Return P(Y <= y), (n,)."""
    mean, low, high = expit(np.clip(eta, -MAX_PREDICTOR, MAX_PREDICTOR)), *FARTHEST_LOG_PHI
    precision = np.clip(phi, math.exp(low), math.exp(high))
    return np.asarray(betainc(mean * precision, (1.0 - mean) * precision, y))


MODEL = Model(
    "beta",
    check=check,
    form=Form,
    guess=guess,
    example=ModelSpec(family="beta", formula="I(x / 4 + 0.5) ~ g"),
    options=frozenset(),
    parameters=parameters,
    prior=prior,
    chains=False,
    rows=lambda _: Beta(),
    response=response,
    distribution=lambda _: of_numbers(cumulative),
)
