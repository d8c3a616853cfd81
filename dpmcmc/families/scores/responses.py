"""The mean of the response on its own scale, from the linear predictor."""

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
    """One family's. expected: predictors -> means of the response.

    drawn: (expected, sds of the noise (draw,), random) -> responses of new rows; None where they
    are yes or no, of which the mean says all. ratio: what exp of a difference of predictors
    multiplies. times: sds -> what a mean is times `expected`; None where it is that. of_hazard:
    whether settings are compared by their hazards, which predictors over a scale lower.
    """

    expected: Callable[[Floats], Floats]
    drawn: Callable[[Floats, Floats, RandomSource], Floats] | None
    ratio: str
    times: Callable[[Floats], Floats] | None = None
    of_hazard: bool = False

    def mean(self, eta: Floats, sds: Floats) -> Floats:
        """Return means given predictors (draw, ...) and sds of the noise (draw,)."""
        there = self.expected(eta)
        if self.times is None:
            return there
        return there * self.times(sds).reshape(-1, *(1,) * (there.ndim - 1))

    def ratios(self, difference: Floats, sds: Floats) -> tuple[Floats, str]:
        """Return ratios (draw,) of two settings, and what they multiply."""
        log, what = difference, self.ratio
        if self.of_hazard:
            log, what = -difference / sds, HAZARD
        return np.exp(np.clip(log, -MOST_LOG_RATIO, MOST_LOG_RATIO)), what


def rate(eta: Floats) -> Floats:
    """Return the mean count."""
    return np.asarray(np.exp(np.minimum(eta, MAX_LOG_MEAN)))


def counts(mean: Floats, _: Floats, random: RandomSource) -> Floats:
    """Return Poisson counts with these means."""
    small = np.clip(mean, RARE, COUNTED)
    drawn = np.nan_to_num(np.maximum(np.ceil(pdtrik(random.uniforms(mean.shape), small)), 0.0))
    normal = mean + np.sqrt(mean) * random.normals(mean.shape)
    return np.where(mean < COUNTED, drawn, normal)


def uneven(mean: Floats, shape: Floats | float, random: RandomSource) -> Floats:
    """Return means times gamma variables of mean 1 and variance 1 / shape."""
    return np.asarray(mean * gammaincinv(shape, random.uniforms(mean.shape)) / shape)


def _yes(eta: Floats) -> Floats:
    return np.asarray(expit(eta))


def itself(eta: Floats) -> Floats:
    """Return the mean of a number."""
    return eta


def _numbers(mean: Floats, sds: Floats, random: RandomSource) -> Floats:
    return mean + sds * random.normals(mean.shape)


def number_by(quantile: Callable[[Floats], Floats]) -> Response:
    """Return a number's, whose residuals of scale 1 have these quantiles at probabilities."""
    return Response(
        itself, lambda mean, sds, random: mean + sds * quantile(random.uniforms(mean.shape)), ""
    )


YES = Response(_yes, None, "odds")
COUNT = Response(rate, counts, "mean count")
NUMBER = Response(itself, _numbers, "")
