"""What a released histogram says of a model: a test of all bins at once, and words."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import chdtrc, ndtri

from dpmcmc.families import MODELS
from dpmcmc.families.misfits import USUAL, Shape
from dpmcmc.queries.checks.cells import Floats, Histogram

LEVEL = 0.05  # of the test of all bins at once
POWER = 0.9  # with which a misfit of the told size shows
LEAST_VARIANCE = 5.0  # of a count, from which on it is about normal
CLEAR = 3.0  # sds, from which on a shape has a remedy
SHAPES: tuple[Literal["slope", "spread", "skew"], ...] = ("slope", "spread", "skew")
SHOWN = 4  # bins that a sentence names


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a check.

    Parameters
    ----------
    low, high
        Its ends: of the predictive distribution, or of fitted probabilities.
    expected
        Under the model: the share of all rows that lie in it, or the share of its rows in which
        happened what had this probability.
    share
        The same as it was released; None of a bin with too few rows.
    noise_sd
        Sd of the noise of that share; None as well.
    sd
        Sd of that share under the model, sampling and noise together.
    rows
        About how many rows it has.
    differs
        "more" or "fewer" than the model allows, else empty.
    """

    low: float
    high: float
    expected: float
    share: float | None
    noise_sd: float | None
    sd: float | None
    rows: float
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check has found. detectable: the least misfit that shows nine times in ten.

    Parameters
    ----------
    bins
        All of them, in order.
    statistic, degrees
        Sum of squared deviations in sds over all bins, and how many of these vary freely.
    p_value
        Probability of a sum as large under the model, sampling and noise included.
    misfit
        Whether that is below 5 %.
    detectable
        A share of all rows, in one bin; of fitted probabilities a share of the fullest bin's rows.
    shape
        "slope", "spread", "skew" or empty, with its sign: what stands out of the deviations.
    """

    bins: tuple[Bin, ...]
    statistic: float
    degrees: int
    p_value: float
    misfit: bool
    detectable: float
    shape: Shape


def found(histogram: Histogram, counts: Floats, noise_sd: float, moved: Floats) -> Findings:
    """Return what a released histogram says of the model. Free.

    counts: (size,) as released, with noise of this sd. moved: (k, bins) of shares, about how the
    uncertainty of the model's own parameters moves them, in k directions of one sd each.
    """
    if histogram.by_probability:
        return _of_probabilities(histogram, counts, noise_sd, moved)
    return _of_distribution(histogram, counts, noise_sd, moved)


def sampling(histogram: Histogram) -> float:
    """Return how many times the variance of independent rows counts may have, at most."""
    return float(histogram.design.schema.unit_rows)


def least_misfit(histogram: Histogram, rows: float, noise_sd: float) -> float:
    """Return the least share of rows in one bin beyond its own that shows nine times in ten."""
    each = 1.0 / histogram.bins
    variance = sampling(histogram) * rows * each * (1.0 - each) + noise_sd**2
    reach = float(ndtri(1.0 - 0.5 * LEVEL / histogram.bins) + ndtri(POWER))
    return reach * math.sqrt(variance) / max(rows, 1.0)


def _of_distribution(
    histogram: Histogram, counts: Floats, noise_sd: float, moved: Floats
) -> Findings:
    """Return the findings of bins of the predictive distribution, which have equal shares."""
    size, schema = histogram.bins, histogram.design.schema
    rows = float(schema.rows)
    if histogram.design.gaps:  # how many rows are in use is known from what was released alone
        rows = min(max(float(counts.sum()), 1.0), rows)
    off = counts - counts.mean()
    variance = sampling(histogram) * rows / size + noise_sd**2
    covariance = variance * np.eye(size) + rows**2 * moved.T @ moved
    statistic = float(off @ np.linalg.solve(covariance, off))
    sds = np.sqrt(np.diag(covariance) * (1.0 - 1.0 / size))
    p_value = float(chdtrc(size - 1, max(statistic, 0.0)))
    misfit = p_value < LEVEL
    reach = float(ndtri(1.0 - 0.5 * LEVEL / size))
    bins = tuple(
        Bin(
            float(histogram.ends[k]),
            float(histogram.ends[k + 1]),
            1.0 / size,
            float(off[k] / rows + 1.0 / size),
            noise_sd / rows,
            float(sds[k] / rows),
            float(counts[k]),
            _word(off[k], reach * sds[k]) if misfit else "",
        )
        for k in range(size)
    )
    shape: Shape = "", 0
    if misfit:  # what errors of the fit may have made comes second
        shape = _shape(off, covariance)
        shape = shape if shape[0] else _shape(off, variance * np.eye(size))
    least = least_misfit(histogram, rows, noise_sd)
    return Findings(bins, statistic, size - 1, p_value, misfit, least, shape)


def _shape(off: Floats, covariance: Floats) -> Shape:
    """Return the polynomial that stands out of deviations, with its sign; nothing where none does.

    Orthogonal polynomials over the bins, as in Neyman's smooth test.
    """
    places = np.linspace(-1.0, 1.0, len(off))
    basis = np.linalg.qr(np.vander(places, len(SHAPES) + 1, increasing=True))[0].T[1:]
    basis = basis * np.sign(basis[:, -1:])
    scores = basis @ off / np.sqrt(np.einsum("ki,ij,kj->k", basis, covariance, basis))
    best = int(np.abs(scores).argmax())
    if abs(scores[best]) < CLEAR:
        return "", 0
    return SHAPES[best], int(np.sign(scores[best]))


def _of_probabilities(
    histogram: Histogram, counts: Floats, noise_sd: float, moved: Floats
) -> Findings:
    """Return the findings of bins of fitted probabilities, in which a known share has happened."""
    no, yes = counts.reshape(-1, 2).T
    p, rows = histogram.middles, np.maximum(no + yes, 0.0)
    off = yes - p * (no + yes)
    noise = noise_sd**2 * (p**2 + (1.0 - p) ** 2)
    variances = sampling(histogram) * rows * p * (1.0 - p) + noise
    used = variances >= LEAST_VARIANCE
    total = max(float(rows.sum()), 1.0)
    covariance = np.diag(variances) + total**2 * moved.T @ moved
    inner = covariance[np.ix_(used, used)]
    statistic = float(off[used] @ np.linalg.solve(inner, off[used])) if used.any() else 0.0
    degrees = int(used.sum())
    p_value = float(chdtrc(degrees, max(statistic, 0.0))) if degrees else 1.0
    misfit, sds = p_value < LEVEL, np.sqrt(np.diag(covariance))
    reach = float(ndtri(1.0 - 0.5 * LEVEL / histogram.bins))
    bins = list[Bin]()
    for k in range(histogram.bins):
        low, high = float(histogram.ends[k]), float(histogram.ends[k + 1])
        told = bool(used[k]) and rows[k] > 3.0 * noise_sd * math.sqrt(2.0)
        one = Bin(low, high, float(p[k]), None, None, None, float(rows[k]))
        if told:
            n = float(rows[k])
            share, sd = float(p[k] + off[k] / n), float(sds[k] / n)
            one = replace(one, share=share, noise_sd=float(noise[k]) ** 0.5 / n, sd=sd)
        word = _word(off[k], reach * sds[k]) if misfit and used[k] else ""
        bins.append(replace(one, differs=word))
    fullest = int(rows.argmax())
    least = (reach + float(ndtri(POWER))) * float(sds[fullest]) / max(float(rows[fullest]), 1.0)
    return Findings(tuple(bins), statistic, degrees, p_value, misfit, min(least, 1.0), ("", 0))


def _word(off: float, most: float) -> str:
    """Return in a word how a deviation differs from what is allowed."""
    return "" if abs(off) <= most else "more" if off > 0.0 else "fewer"


CURVE = (
    "the mean may bend where the formula is straight: try a curve s(x), an interaction, or a"
    " column that is not in the formula"
)


UNRELIABLE = (
    "But the fit is unreliable by its own verdict: its numbers may be what does not fit, and not"
    " its family."
)


def sentences(histogram: Histogram, findings: Findings, *, reliable: bool = True) -> Iterator[str]:
    """Yield what a check has found, in words. reliable: whether the fit is, by its own verdict."""
    size, by = histogram.bins, histogram.by_probability
    test = (
        f"chi-squared {findings.statistic:.3g} with {findings.degrees} degrees of freedom, p"
        f" {_p(findings.p_value)}"
    )
    if by:
        what = "what happened" if histogram.categories > 2 else "yes"
        yield (
            f"Rows are in {size} bins of their fitted probability; if the model holds, the share of"
            f" {what} in a bin is what was fitted."
        )
    else:
        yield (
            f"If the model holds, each of the {size} bins of its predictive distribution has"
            f" {_percent(1.0 / size)} of the rows."
        )
    least = _percent(findings.detectable)
    where = "of the rows in the fullest bin" if by else f"of the rows in one of {size} bins"
    if not findings.misfit:
        yield (
            f"No misfit that this check can see ({test}). With the errors of the fit counted in, a"
            f" misfit of more than {least} {where} would show nine times in ten."
        )
        return
    yield f"The rows do not fit the model ({test}): sampling and noise do not explain it."
    yield from _bins(findings.bins, by)
    yield _advice(histogram, findings)
    if not reliable:
        yield UNRELIABLE


def _bins(bins: Sequence[Bin], by_probability: bool) -> Iterator[str]:
    """Yield sentences on the bins that differ."""
    differ = [one for one in bins if one.differs]
    differ.sort(key=lambda one: -abs((one.share or 0.0) - one.expected) / (one.sd or math.inf))
    for one in differ[:SHOWN]:
        ends = f"{_percent(one.low)} to {_percent(one.high)}"
        noise = "" if one.noise_sd is None else f", noise sd {_percent(one.noise_sd)}"
        share = "an unknown share" if one.share is None else _percent(one.share)
        instead = f"{share} in place of {_percent(one.expected)}{noise}"
        if by_probability:
            yield f"Where {ends} was fitted, it happened in {one.differs} rows: {instead}."
        else:
            yield f"From {ends} of the distribution there are {one.differs} rows: {instead}."
    if len(differ) > SHOWN:
        left = len(differ) - SHOWN
        yield f"{left} more {'bin differs' if left == 1 else 'bins differ'}."
    if not differ:
        yield "No bin differs by itself; all of them together do."


def _advice(histogram: Histogram, findings: Findings) -> str:
    """Return a sentence on what would fit better."""
    own = MODELS[histogram.model.family]
    offers = [
        model.misfits.offers[own.misfits.kind, findings.shape]
        for model in MODELS.values()
        if model is not own and (own.misfits.kind, findings.shape) in model.misfits.offers
    ]
    advice = ", or ".join(offers) or USUAL.get((own.misfits.kind, findings.shape), CURVE)
    return f"{advice[0].upper()}{advice[1:]}."


def _percent(share: float) -> str:
    """Return a share in per cent, in words."""
    return f"{100.0 * share:.2g} %" if abs(share) < 0.0995 else f"{100.0 * share:.3g} %"


def _p(p_value: float) -> str:
    """Return a p-value in words."""
    return "below .001" if p_value < 0.001 else f"{p_value:.2g}"
