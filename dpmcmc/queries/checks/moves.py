"""How the uncertainty of a fitted model's parameters moves the shares of a histogram. Free.

A fit has errors of its own, those of its noise among them: they move rows from bin to bin although
the model holds. What that comes to follows to first order from draws of the parameters and the
released moments of covariates: shares under each draw, where the mean of all places the rows.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.moments import second_moments
from dpmcmc.queries.checks.cells import Floats, Histogram, Parameters

MOVES = 3  # directions that are kept
POINTS, MANY = 8, 400  # along each predictor: for what takes longer, and what does not
EVERY = 4  # draw, of those by which ends of bins are found, which takes longest
LEAST_APART = 1e-6  # of two ends of bins, over the probability


@np.errstate(all="ignore")  # of draws that are far out
def moved_by(histogram: Histogram, draws: Floats, moments: Floats | None) -> Floats:
    """Return (MOVES, bins): shares are moved by as many independent directions of one sd each.

    draws: (draw, parameter), at least two of them, else nothing moves. moments: mean of x x^T
    (d, d) of the standardised design as released; where it is not known, what rows with these
    bounds have as a rule.
    """
    whole = np.zeros((MOVES, histogram.bins))
    if len(draws) < 2:
        return whole
    parameters = Parameters(histogram, draws)
    middle = Parameters(histogram, draws.mean(axis=0)[None])
    design = histogram.design
    ends = (np.array(end)[:, None] for end in (design.lower, design.upper))
    x = np.clip(_points(histogram, middle, moments, POINTS), *ends)
    if histogram.by_probability:
        shares = _of_probabilities(histogram, parameters, middle, x)
    else:
        some = Parameters(histogram, draws[::EVERY])
        shares = _of_distribution(histogram, parameters, some, x)
    shares = np.nan_to_num(shares - shares.mean(axis=0)) / np.sqrt(len(draws) - 1.0)
    _, sizes, directions = np.linalg.svd(shares, full_matrices=False)
    kept = min(MOVES, len(sizes))
    whole[:kept] = sizes[:kept, None] * directions[:kept]
    return whole


@np.errstate(all="ignore")
def placed(histogram: Histogram, draws: Floats, moments: Floats | None) -> Histogram:
    """Return the histogram with bins of fitted probabilities that have about as many rows each.

    Free: by released numbers, as `moved_by`. As it is where these say nothing of the probabilities.
    """
    if not histogram.by_probability:
        return histogram
    middle = Parameters(histogram, draws.mean(axis=0)[None])
    shares = middle.shares(_points(histogram, middle, moments, MANY))[0]
    shares = shares[1] if histogram.categories == 2 else shares.reshape(-1)
    at = np.arange(1.0, 2.0 * histogram.bins) / (2.0 * histogram.bins)
    ends = np.quantile(np.nan_to_num(shares, nan=0.5), at)
    apart = LEAST_APART * ends[:-1] * (1.0 - ends[1:])
    inside = ends[0] > 0.0 and ends[-1] < 1.0
    if not (inside and (np.diff(ends) > apart).all()):
        return histogram
    return replace(histogram, fitted=tuple(ends.tolist()))


def _points(histogram: Histogram, middle: Parameters, moments: Floats | None, count: int) -> Floats:
    """Return covariates (d, m) of usual rows: where predictors are at even quantiles.

    Covariates given a predictor are taken for their linear regression on it.
    """
    design = histogram.design
    has_mean = design.parameters[0] == INTERCEPT
    moments = second_moments(design) if moments is None else moments
    mean = moments[0] if has_mean else np.zeros(len(moments))
    spread = moments - np.outer(mean, mean)
    even, lines = ndtri((np.arange(count) + 0.5) / count), []
    for beta in middle.coefficients[0]:
        along = spread @ beta
        along = along / np.sqrt(max(float(beta @ along), 1e-300))
        lines.append(mean[:, None] + along[:, None] * even)
    return np.concatenate(lines, axis=1)


def _of_distribution(
    histogram: Histogram, parameters: Parameters, some: Parameters, x: Floats
) -> Floats:
    """Return shares (draw, bins) of the predictive distribution under each draw.

    some: of these draws, by which ends of bins are found.
    """
    inner, count = histogram.ends[1:-1], x.shape[1]
    x, ends = np.repeat(x, len(inner), axis=1), np.tile(inner, count)
    place = some.quantiles(x, ends)
    lows, highs = parameters.each(x, place)
    below, upto = lows.mean(axis=0), highs.mean(axis=0)
    part = np.where(upto > below, (ends - below) / np.maximum(upto - below, 1e-300), 1.0)
    part = np.clip(part, 0.0, 1.0)
    cumulative = (lows + part * (highs - lows)).reshape(-1, count, len(inner)).mean(axis=1)
    zero = np.zeros((len(cumulative), 1))
    return np.diff(np.concatenate((zero, cumulative, zero + 1.0), axis=1), axis=1)


def _of_probabilities(
    histogram: Histogram, parameters: Parameters, middle: Parameters, x: Floats
) -> Floats:
    """Return (draw, bins), how much more has happened in each bin, as a share of all rows."""
    fitted, drawn = middle.shares(x)[0], parameters.shares(x)
    if histogram.categories == 2:
        fitted, drawn = fitted[1:], drawn[:, 1:]
    bins = np.searchsorted(histogram.ends[1:-1], fitted, side="right")
    p = histogram.middles[bins]
    kept = np.minimum(1.0, p / np.maximum(fitted, 1e-300))
    added = np.maximum(0.0, 1.0 - (1.0 - p) / np.maximum(1.0 - fitted, 1e-300))
    more = ((drawn - fitted) * (kept - added)).reshape(len(drawn), -1)
    held = bins.reshape(-1)[:, None] == np.arange(histogram.bins)
    return np.asarray(more @ held / bins.size)
