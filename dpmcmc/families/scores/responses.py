"""The mean of the response from the linear predictor, and simulated responses."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaincinv, pdtrik

from dpmcmc.families.scores.base import Floats
from dpmcmc.privacy.noise import RandomSource

TIME, HAZARD = "time", "hazard"  # what ratios of times to an event multiply
MAX_LOG_MEAN = 100.0  # log of a mean count: larger ones say nothing that this one does not
MOST_LOG_RATIO = 700.0  # whose exp is a number
RARE, COUNTED = 1e-12, 1e6  # means below which a count is 0, and from which on it is normal


@dataclass(frozen=True, slots=True)
class Response:
    """How one family predicts: expected maps predictors to means of the response.

    drawn: (expected, sds of the noise (draw,), random) -> responses of new rows; None where they
    are yes or no, of which the mean says all. ratio: what exp of a difference of predictors
    multiplies. times: sds -> what a mean is times `expected`; None where it is that. of_hazard:
    whether settings are compared by their hazards, which predictors over a scale lower.
    means, counts: where a row has several predictors (k, ...), the mean response by the name ""
    with probabilities of single values, and responses of new rows.
    """

    expected: Callable[[Floats], Floats]
    drawn: Callable[[Floats, Floats, RandomSource], Floats] | None
    ratio: str
    times: Callable[[Floats], Floats] | None = None
    of_hazard: bool = False
    means: Callable[[Floats], dict[str, Floats]] | None = None
    counts: Callable[[Floats, RandomSource], Floats] | None = None

    def mean(self, eta: Floats, sds: Floats) -> Floats:
        """Return means at predictors (draw, ...), given sds of the noise (draw,)."""
        means = self.expected(eta)
        if self.times is None:
            return means
        return means * self.times(sds).reshape(-1, *(1,) * (means.ndim - 1))

    def ratios(self, difference: Floats, sds: Floats) -> tuple[Floats, str]:
        """Return ratios (draw,) for differences of predictors, and the name of the quantity."""
        log, what = difference, self.ratio
        if self.of_hazard:
            log, what = -difference / sds, HAZARD
        return np.exp(np.clip(log, -MOST_LOG_RATIO, MOST_LOG_RATIO)), what


def rate(eta: Floats) -> Floats:
    """Return mean counts exp(eta)."""
    return np.asarray(np.exp(np.minimum(eta, MAX_LOG_MEAN)))


def counts(mean: Floats, _: Floats, random: RandomSource) -> Floats:
    """Return Poisson counts with these means."""
    small = np.clip(mean, RARE, COUNTED)
    drawn = np.nan_to_num(np.maximum(np.ceil(pdtrik(random.uniforms(mean.shape), small)), 0.0))
    normal = mean + np.sqrt(mean) * random.normals(mean.shape)
    return np.where(mean < COUNTED, drawn, normal)


def uneven(mean: Floats, shape: Floats | float, random: RandomSource) -> Floats:
    """Return means multiplied by gamma variables of mean 1 and variance 1 / shape."""
    return np.asarray(mean * gammaincinv(shape, random.uniforms(mean.shape)) / shape)


def _yes(eta: Floats) -> Floats:
    """Return P(yes), the inverse logit of eta."""
    return np.asarray(expit(eta))


def itself(eta: Floats) -> Floats:
    """Return eta: the mean of a response with the identity link."""
    return eta


def _numbers(mean: Floats, sds: Floats, random: RandomSource) -> Floats:
    """Return simulated normal responses."""
    return mean + sds * random.normals(mean.shape)


def number_by(quantile: Callable[[Floats], Floats]) -> Response:
    """Return the Response of a number with errors of this quantile function at scale 1."""
    return Response(
        itself, lambda mean, sds, random: mean + sds * quantile(random.uniforms(mean.shape)), ""
    )


YES = Response(_yes, None, "odds")
COUNT = Response(rate, counts, "mean count")
NUMBER = Response(itself, _numbers, "")
