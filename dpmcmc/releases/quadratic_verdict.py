"""The verdict of a stored `noisy_quadratic`, from its released numbers."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.sums import largest_noise
from dpmcmc.releases.base import Fault, prior_by
from dpmcmc.releases.categories import has_intercept
from dpmcmc.releases.prior_conflict import narrow
from dpmcmc.releases.quadratic import SURPRISING, Quadratic, agreed, compared, parted, unmoved
from dpmcmc.releases.scales import UNCUT

Floats = NDArray[np.float64]
Normals = tuple[Floats, Floats]  # mean and precision (d,) of independent priors of positions
# change of a predictor in the last step, mean square, in sds of what a row tells
MAX_LAST_STEP = 0.5
SKEWED_LAST_STEP = 0.25  # the same where a scale changes with predictors, and scores bend more
# change of a predictor in the last step, in sds of residuals, at an end of a column: where few
# rows are, scores that are no lines were looked at too far from where it is
MAX_CHANGE = 1.0
# change of the log of a scale that is a parameter, between the near iterates; and where it is no
# unit of predictors, but the size of counts: a line in it is the worse the less is known of it
MAX_RESCALE, MAX_RESCALE_APART = 0.4, 0.3
# posterior sds by which a score may be less of a line than its noise allows, between the near
# iterates, of which the answer is about half way
MAX_BENT = 0.5
# n mu^2 over the number of coefficients, below which nothing is promised
MIN_INFORMATION_PER_COEFFICIENT = 15.0
MODEL_INFORMATION = 2.0  # times that of the model's own answer, whose clips cost more noise
# of a linear model's own answer half of that will do, and for two coefficients more, where the
# curvature is clear in every direction (experiments/README.md, "How few rows will do")
MORE_OF_LINES = 2
MAX_CURVATURE_NOISE = 0.5  # noise of the curvature over the curvature
# noise of the curvature, in which a direction is not told from none: its quadratic is lost. The
# second where rows have several predictors, since rare classes are stretched on; the third of the
# model's own answer there, whose rows count in full (experiments/asked.py: region)
UNRESOLVED_NOISE, UNRESOLVED_NOISE_CLASSES, UNRESOLVED_NOISE_MODEL = 2.0, 5.0, 2.5
# of a category's direction in a linear model, from which on it has rows
CLEAR_CATEGORY = 1.3
RIDGE = 1e-12  # of the largest precision
MAX_RARE_CHANGE = 0.5  # sd of log odds in rows with a rare response, and their last change
MAX_MODE_DISTANCE = 2.0  # residuals' sds, see _widest
NOISY_DIRECTION_RATIO = 1.25  # such an sd over that without privacy
# sd of a prior of predictors that keeps such a direction where a likelihood of bounded
# scores is nearly quadratic
MAX_PRIOR_PREDICTOR_SD = 5.0
# largest part of a number or an intercept, of a direction that is that of a category's rate
OTHERS_PART = 0.3
OVERDISPERSION_RATIO = 1.3  # residuals over those of a Poisson count
# of a score's sd, what clips may have left out of it where all of that points the same way: a fifth
# of rows without an event however long they are seen moved log_sigma by 2 to 3 sds where it is more
MOST_LEFT = 1.5
# variance of scores over a linear model's, median at epsilon 4: .6 to 1.1 of 23 real data sets,
# 1.8 of capital gain, and 3.1 and 3.9 of two whose far covariates have the largest residuals, where
# clips left out more than layers told of; and the most that the sd of its noise may be: with more
# it tells nothing of such rows (experiments/README.md)
MAX_INFLATION, MAX_INFLATION_SD = 1.5, 1.0
# (largest declared weight - 1) times the part of rows that is cut away: more, and
# the answer is another weighting's, whose distance its own width does not tell
MAX_UNEVEN_WEIGHT = 0.5
# of a row's predictor, posterior sd and change in the last step, root mean square: up to there a
# likelihood that is not quadratic is about so, and means are within .2 sds
MAX_PREDICTOR_SD = 1.0
# sds of a coefficient, by which scores that noise hides may move it, were their tail as long as it
# begins: of real responses, where it is below results are off by what their widths say, and where
# it is above by up to ten sds (experiments/asked.py)
MAX_UNSEEN = 4.0
NEGLIGIBLE_CUT_WEIGHT = 0.998  # mean weight of a row, from which on nothing is said of it
# times the precision of its noise, that are tried for what would make a result reliable
MORE = np.geomspace(1.1, 64.0, 43)
MARGIN = 1.2  # beyond that, since noise decides near a limit: see experiments/mended.py


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a noisy quadratic likelihood.

    arrived: whether its two near iterates agree, and the last step was short. privacy_share: mean
    share of the posterior's variance that is due to privacy. weight: mean weight of a row, see
    Quadratic. jump, stretch, blur: what `arrived` and `reliable` follow from. short: what is wrong
    whether it has arrived or not; lasting: in one word. fault, more: see releases.base.Judgement.
    """

    reliable: bool
    arrived: bool
    privacy_share: float
    weight: float
    jump: float
    stretch: float
    blur: float
    sentence: str
    short: str = ""
    lasting: Fault = ""
    remarks: str = ""
    fault: Fault = ""
    more: float | None = None


def verdict(release: Quadratic, prior: Normals | None = None) -> Verdict:
    """Return the verdict on a release, from released numbers alone: free of privacy cost.

    prior: of the job, where the likelihood is not quadratic, so that it matters where the posterior
    lies; else None.
    """
    p = len(release.place)
    values, vectors = np.linalg.eigh(release.curvature)
    jump = _jump(release, values, vectors)
    edge = largest_noise(p, release.curvature_sd)
    safe = np.maximum(values, max(edge, TINY**0.5))
    step = _mode(release, (vectors * safe) @ vectors.T, prior)
    last = release.places[1] - release.place
    step = step - np.linalg.solve(release.root, last)
    stretch = float(np.linalg.norm(step @ release.counting()))
    blur = edge / max(float(np.median(values)), 1e-6 * edge, TINY)
    by_rows = safe if release.robust else safe * release.usual_inflation  # as intervals have it
    unsure = np.einsum("pk,pq,qk->k", vectors, release.unsure(), vectors)
    ratio = unsure / np.maximum(by_rows, TINY)
    share = float(np.mean(ratio / (1.0 + ratio)))
    arrived = jump <= 1.0 and stretch <= (SKEWED_LAST_STEP if release.skewed else MAX_LAST_STEP)
    if release.log_scale:  # from afar even the last look's curvature is another one
        rescale = abs(float(release.places[1, -1] - release.places[0, -1]))
        most = MAX_RESCALE_APART if release.apart else MAX_RESCALE
        arrived = arrived and rescale <= most and _change(release, step) <= MAX_CHANGE
    precision = None if prior is None else prior[1]
    enough, wide, unseen = _clear(release, step, precision)
    skewed = release.robust and release.dispersion > OVERDISPERSION_RATIO and release.clip < UNCUT
    if release.skewed:  # what is cut of long times moves scale and intercept, and nothing else
        skewed = release.left_sd > MOST_LEFT * math.sqrt(max(np.trace(release.noise) / p, TINY))
    uneven = (release.heaviest - 1.0) * (1.0 - release.weight) > MAX_UNEVEN_WEIGHT
    leverage = _leverage(release)
    checks = (arrived, enough, skewed, uneven, leverage, wide, unseen)
    short = (True, enough, skewed, uneven, leverage, False, unseen)
    fault = (_fault(short) or "noise") if release.stopped else _fault(checks)
    return Verdict(
        reliable=not fault,
        arrived=arrived,
        privacy_share=share,
        weight=release.weight,
        jump=jump,
        stretch=stretch,
        blur=blur,
        sentence=release.stopped or _wrong(release, fault),
        remarks="; ".join(_notes(release)),
        # a predictor is as uncertain after a long step, which the next look may shorten
        short=_wrong(release, _fault(short)),
        lasting=_fault(short),
        fault=fault,
        more=_enough_precision(release, step, precision) if fault in OF_NOISE else None,
    )


def _jump(release: Quadratic, values: Floats, vectors: Floats) -> float:
    """Return the squared difference of the two near looks, over the most that noise explains.

    values, vectors: of the curvature.
    """
    if release.alone:
        return 0.0
    p, (_, turned, allowed) = len(values), compared(release)
    moved = np.maximum(values, 0.0) * _rescaled(release) ** 2
    if not release.robust:  # what is small beside the posterior's width does no harm
        variances = np.maximum(values, 0.0) * release.usual_inflation + release.unsure_sd**2
        moved = moved + MAX_BENT**2 * variances
    surprise = (vectors.T @ turned) ** 2 / np.maximum(allowed + moved, TINY)
    surprise[unmoved(release, vectors)] = 0.0  # there the posterior is as wide as need be
    surprise[parted(release, vectors)] = 0.0  # and there it is that of the last look
    return max(
        float(surprise.sum() / chdtri(p, SURPRISING)),
        float(surprise.max() / chdtri(1, SURPRISING / p)),
    )


def _leverage(release: Quadratic) -> bool:
    """Return whether residuals are largest where covariates are far out, of a linear model.

    Scores then vary more than independent residuals and covariates would make them. So do scores of
    persons, whose rows are alike.
    """
    return _of_lines(release) and release.inflation - release.inflation_sd > MAX_INFLATION


def _of_lines(release: Quadratic) -> bool:
    """Return whether it is a linear model's own answer, by rows."""
    return release.scaled and not release.robust and not release.several_rows


def _clear(release: Quadratic, step: Floats, precision: Floats | None) -> tuple[bool, bool, bool]:
    """Return whether the signal exceeds the noise, the posterior is too wide, and tails are hidden.

    step: (p,) by u, the last one. precision: (d,) of the prior; None of a quadratic likelihood.
    """
    p, values = len(release.place), np.linalg.eigvalsh(release.curvature)
    edge = largest_noise(p, release.curvature_sd)
    blur = edge / max(float(np.median(values)), 1e-6 * edge, TINY)
    enough = (
        _informed(release)
        and blur <= MAX_CURVATURE_NOISE
        and not (_of_lines(release) and release.inflation_sd > MAX_INFLATION_SD)
        and not lost(release, precision)
    )
    wide = precision is not None and _reach(release, step, precision) > MAX_PREDICTOR_SD
    wide = wide or _unsure(release, step, precision) > MAX_RARE_CHANGE
    return enough, wide, release.unseen > MAX_UNSEEN


def _informed(release: Quadratic) -> bool:
    """Return whether n mu^2 is enough for the number of coefficients."""
    p, information = len(release.place), release.rows / release.noise_multiplier**2
    if information >= least_information(of_model=not release.robust) * p:
        return True
    least = MIN_INFORMATION_PER_COEFFICIENT * (p + MORE_OF_LINES)
    return _of_lines(release) and information >= least and not _dim(release)


def _enough_precision(release: Quadratic, step: Floats, precision: Floats | None) -> float | None:
    """Return the factor of noise precision at which it is reliable; None if there is none.

    Released values are taken for what the rows say, and only their noise is less.
    """
    for more in MORE.tolist():
        enough, wide, unseen = _clear(quieter(release, more), step / more, precision)
        if enough and not wide and not unseen:
            return MARGIN * float(more)
    return None


def quieter(release: Quadratic, more: float) -> Quadratic:
    """Return the release with its noise precision multiplied, and the same values."""
    return replace(
        release,
        score_sd=release.score_sd / more,
        score_sds=release.score_sds / more,
        curvature_sd=release.curvature_sd / more,
        noise_sd=release.noise_sd / more,
        left_sd=release.left_sd / more,
        unseen_sd=release.unseen_sd / more,
        whitening_sd=release.whitening_sd / more,
        noise_multiplier=release.noise_multiplier / more,
    )


# what less noise mends by what is known. Looks that disagree do so at larger budgets too
OF_NOISE = frozenset({"noise", "wide", "unseen"})


def _fault(checks: tuple[bool, ...]) -> Fault:
    """Return the kind of the first problem. checks: as in verdict."""
    arrived, enough, *others = checks
    names: tuple[Fault, ...] = (
        "place", "noise", "skewed", "uneven", "leverage", "wide", "unseen",
    )  # fmt: skip
    wrong = (not arrived, not enough, *others)
    return next((name for name, is_wrong in zip(names, wrong, strict=True) if is_wrong), "")


def least_information(*, of_model: bool) -> float:
    """Return n mu^2 per coefficient, below which a result counts as unreliable.

    of_model: whether the answer is the model's own.
    """
    return MIN_INFORMATION_PER_COEFFICIENT * (MODEL_INFORMATION if of_model else 1.0)


def _mode(release: Quadratic, curvature: Floats, prior: Normals | None) -> Floats:
    """Return the posterior mode (p,) by u, relative to the expansion point."""
    score = agreed(release)[0]
    if prior is None:
        return np.asarray(np.linalg.solve(curvature, score))
    mean, precision = (part[: len(score)] for part in prior)
    held, pull = prior_by(release.root, release.place, mean, precision)
    return np.asarray(np.linalg.solve(curvature + held, score + pull))


def predictor_sd(release: Quadratic, precision: Floats) -> float:
    """Return the posterior sd of a row's linear predictor, root mean square over rows.

    precision: (d,) of the prior. By the moments of covariates that the whitening released.
    """
    p, root = len(release.place), release.root
    values, vectors = np.linalg.eigh(release.curvature)
    safe = np.maximum(values, largest_noise(p, release.curvature_sd))
    likelihood = (vectors * (safe**2 / np.maximum(safe + release.unsure_sd**2, TINY))) @ vectors.T
    held = root.T @ (precision[:p, None] * root)
    covariance = root @ np.linalg.solve(likelihood + held, root.T)
    moments = release.predictor_moments()
    covariance = release.of_predictors(release.of_predictors(covariance).T)
    each = covariance.reshape(-1, len(moments), len(covariance) // len(moments), len(moments))
    total = float(np.einsum("cicj,ij->", each, moments))
    return math.sqrt(max(total, 0.0) / len(each))


def _reach(release: Quadratic, step: Floats, precision: Floats) -> float:
    """Return the distance from the last expansion point over which a quadratic is assumed.

    In predictors, root mean square over rows: their posterior sd and their change in the last step
    (p,) by u.
    """
    moments = release.predictor_moments()
    moves = release.of_predictors(release.root @ step).reshape(-1, len(moments))
    change = float(np.einsum("ci,ij,cj->", moves, moments, moves)) / len(moves)
    return math.hypot(predictor_sd(release, precision), math.sqrt(max(change, 0.0)))


def _clear_noise(release: Quadratic) -> float:
    """Return the relative noise of a direction's curvature, up to which it is clear."""
    if release.classes == 1:
        return UNRESOLVED_NOISE
    return UNRESOLVED_NOISE_CLASSES if release.robust else UNRESOLVED_NOISE_MODEL


def _dim(release: Quadratic) -> bool:
    """Return whether the curvature in some direction does not exceed its noise."""
    p, least = len(release.place), float(np.linalg.eigvalsh(release.curvature)[0])
    clear = _clear_noise(release)
    return least < clear * math.sqrt(2.0 * p) * release.curvature_sd


def _unsure(release: Quadratic, step: Floats, precision: Floats | None) -> float:
    """Return the uncertainty of rare log odds: their sd combined with the last step.

    Probabilities are about the exponentials of rare log odds, which a quadratic follows over short
    changes alone. step: (p,) by u.
    """
    if not (release.odds or release.ordered):
        return 0.0
    p, noise = len(release.place), release.unsure_sd**2
    prior = np.zeros(p) if precision is None else precision[:p]
    values, vectors = np.linalg.eigh(release.curvature)
    values = np.maximum(values, 0.0)
    likelihood = values**2 / (values + noise)
    total = (vectors * likelihood) @ vectors.T + release.root.T @ (prior[:, None] * release.root)
    sizes, ways = np.linalg.eigh(total)
    spread = ways / np.sqrt(np.maximum(sizes, TINY**0.25 + RIDGE * sizes[-1]))
    return max(release.changes(spread.T), release.changes(step[None]))


def lost(release: Quadratic, precision: Floats | None) -> bool:
    """Return whether neither rows nor prior determine some direction.

    precision: as in verdict.
    """
    p = len(release.place)
    edge = largest_noise(p, release.curvature_sd)
    values, vectors = np.linalg.eigh(release.curvature)
    clear = _clear_noise(release)
    dim = values < clear * edge
    directions = release.root @ vectors[:, dim]
    directions = directions / np.maximum(np.abs(directions).max(axis=0), TINY)
    curved = np.zeros(p, np.bool_) if release.curves is None else release.curves.penalised
    if np.abs(directions[narrow(release) & ~curved]).max(initial=0.0) > OTHERS_PART:
        return True  # only a prior that bounds made narrow would hold it
    if release.log_scale and np.abs(directions[-1]).max(initial=0.0) > OTHERS_PART:
        return True  # where residuals are all the same the likelihood of their scale has no top
    if release.scaled or release.log_scale:
        hidden = _hides_category(release, values, vectors, edge)
        return hidden or _widest(release, values, vectors, edge) > MAX_MODE_DISTANCE
    if precision is None or not dim.any():
        return bool(dim.any())
    if release.log_shift is not None:
        rates = np.zeros(p) if release.indicators is None else release.indicators
        if np.abs(directions[(rates == 0.0) & ~curved]).max(initial=0.0) > OTHERS_PART:
            return True
    variances = (directions**2 / np.maximum(precision[:p], TINY)[:, None]).sum(axis=0)
    return bool((variances > MAX_PRIOR_PREDICTOR_SD**2).any())


def _hides_category(release: Quadratic, values: Floats, vectors: Floats, edge: float) -> bool:
    """Return whether a declared category may have no rows, given the noise.

    Without rows the posterior of its coefficient is the prior, and noise that passes for a row or
    two makes it several times as narrow.
    """
    if release.indicators is None:
        return False
    directions = np.abs(release.root @ vectors[:, values < CLEAR_CATEGORY * edge])
    categories = np.zeros(len(directions), np.bool_)
    categories[: len(release.indicators)] = release.indicators > 0.0
    categories[0] = False  # the intercept, if there is one
    largest = np.maximum(directions.max(axis=0, initial=0.0), TINY)
    return bool((directions[categories] > OTHERS_PART * largest).any())


def _widest(release: Quadratic, values: Floats, vectors: Floats, edge: float) -> float:
    """Return the largest posterior sd of a coefficient under a flat prior, in residual sds.

    A row at an end of a column's [-1, 1] has a predictor that is as uncertain. Where such rows are
    few they are clipped, and beyond a residual's sd a clipped score is no line. Categories have
    such rows, however few. Numbers that are as uncertain without privacy are not looked at: they
    are collinear, or keep to a part of their bounds, and no row is that far out.
    """
    safe = np.maximum(values, max(edge, TINY**0.5))
    noisy = safe**2 / (safe + release.unsure_sd**2)
    quiet, variances = (_variances(release, vectors, part) for part in (safe, noisy))
    looked, d = variances > NOISY_DIRECTION_RATIO**2 * quiet, len(release.whitening)
    if release.indicators is None:
        looked[:] = True
    else:
        looked[:d] |= release.indicators > 0.0
    most = float(np.where(looked, variances, 0.0)[:d].max())
    if release.log_scale:
        return math.sqrt(most) / release.unit
    return math.sqrt(most) / float(release.scales[1] * release.taus[1])


def _variances(release: Quadratic, vectors: Floats, values: Floats) -> Floats:
    """Return variances (p,) of coefficients, given precisions (p,) along eigenvectors by u.

    Priors are flat, but for those of the curves of smooths.
    """
    if release.smooth is None:
        return np.asarray(((release.root @ vectors) ** 2 / values).sum(axis=1))
    p, root = len(release.place), release.root
    held = release.prior_precisions(release.place, np.full(p, TINY))
    total = (vectors * values) @ vectors.T + root.T @ (held[:, None] * root)
    return np.asarray(np.einsum("pi,pi->p", root @ np.linalg.inv(total), root))


def _change(release: Quadratic, step: Floats) -> float:
    """Return the largest change of a predictor by a last step (p,) by u, in scales.

    Of the mean rows of categories, and of numbers at an end of their bounds, by the released
    moments. Where no row is there, the curvature is next to nothing.
    """
    second, d = release.moments()[0], len(release.whitening)
    mean = second[0] * has_intercept(release.paid)
    covariance = second - np.outer(mean, mean)
    slopes = covariance / np.maximum(np.diag(covariance), TINY)[:, None]
    lower = -np.ones(d) if release.indicators is None else release.indicators - 1.0
    ends = np.concatenate((lower - mean, 1.0 - mean))
    rows = np.clip(mean + np.tile(slopes, (2, 1)) * ends[:, None], -1.0, 1.0)
    changes = np.abs(rows @ (release.root @ step)[:d])
    return float(changes.max()) / release.unit


def _rescaled(release: Quadratic) -> float:
    """Return the change of the log residual scale between the two near iterates.

    Residuals that are clipped at another scale tell something else, though as much on average.
    """
    if not release.scaled:
        return 0.0
    return math.log(float(release.scales[1] / release.scales[0]))


def _wrong(release: Quadratic, fault: Fault) -> str:
    """Return the problem in one sentence; empty where there is none."""
    return {
        "": "",
        "place": (
            "the last two Newton steps disagree or are far apart, so this budget did not find where"
            " the posterior is"
        ),
        "noise": "with this budget the rows do not stand out from the noise",
        "skewed": (
            "responses do not follow the model, and many of them had to be cut to keep the noise of"
            " this budget bearable"
        ),
        "uneven": (
            f"weights reach up to {release.heaviest:g} and heavy rows were cut, so that the answer"
            " is that of other weights"
        ),
        "leverage": (
            f"scores vary {release.inflation:.2g} times as much as a linear model says: residuals"
            " are largest where covariates are far out, and few such rows decide the answer"
        ),
        "wide": (
            "predictors are so vague that the posterior is not normal: rows are few, or covariates"
            " tell most responses apart"
        ),
        "unseen": (
            "some responses lie far from what the model expects and had to be clipped, and those"
            f" that noise hides may move coefficients by {release.unseen:.2g} of their sds"
        ),
    }[fault]


def _notes(release: Quadratic) -> list[str]:
    """Return notes on the result that do not depend on privacy."""
    notes = []
    if _dim(release):
        notes.append(
            "with this noise the rows do not tell some coefficients apart, as when columns say the"
            " same or hardly vary: there the prior decides"
        )
    if release.gaps:
        who = "persons have rows that" if release.several_rows else "rows"
        notes.append(f"about {release.rows:,} {who} are complete, and only those are used")
    if release.weight < NEGLIGIBLE_CUT_WEIGHT:
        notes.append(
            "outlying rows are weighted down, as in a robust regression: the mean weight of a row"
            f" is {release.weight:.3g}"
        )
    return notes
