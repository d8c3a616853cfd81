"""What a linear predictor means on the response's own scale, by family, and how draws spread."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, pdtrik

from dpmcmc.free.priors import Floats
from dpmcmc.privacy.noise import RandomSource

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STEEPEST = 100.0  # log of a mean count: larger ones say nothing that this one does not
RARE, COUNTED = 1e-12, 1e6  # means below which a count is 0, and from which on it is normal


@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity is spread over the draws: its 90 % interval is from q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float


def spread(values: Floats) -> Spread:
    """Return how values (draw,) are spread."""
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(values.mean()), sd, *(float(q) for q in np.quantile(values, QUANTILES)))


@dataclass(frozen=True, slots=True)
class Response:
    """One family's. expected: predictors -> means of the response.

    drawn: (means, sds of the noise (draw,), random) -> responses of new rows; None where they are
    yes or no, of which the mean says all. ratio: what exp of a difference of predictors multiplies.
    """

    expected: Callable[[Floats], Floats]
    drawn: Callable[[Floats, Floats, RandomSource], Floats] | None
    ratio: str


def _yes(eta: Floats) -> Floats:
    return np.asarray(expit(eta))


def _rate(eta: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(eta, STEEPEST)))


def _itself(eta: Floats) -> Floats:
    return eta


def _counts(mean: Floats, _: Floats, random: RandomSource) -> Floats:
    small = np.clip(mean, RARE, COUNTED)
    counts = np.nan_to_num(np.maximum(np.ceil(pdtrik(random.uniforms(mean.shape), small)), 0.0))
    normal = mean + np.sqrt(mean) * random.normals(mean.shape)
    return np.where(mean < COUNTED, counts, normal)


def _numbers(mean: Floats, sds: Floats, random: RandomSource) -> Floats:
    return mean + sds * random.normals(mean.shape)


RESPONSES = {
    "logistic": Response(_yes, None, "odds"),
    "poisson": Response(_rate, _counts, "mean count"),
    "linear": Response(_itself, _numbers, ""),
}
