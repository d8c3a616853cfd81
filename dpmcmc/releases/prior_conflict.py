"""Prior-data conflict: a prior that moves the posterior far from the likelihood.

A default prior is as wide as the declared bounds say that effects can be. Where these are a hundred
times wider than the rows, effects of a usual size lie many of its sds out, and the posterior is
where neither of the two is. Source: Evans and Moshonov 2006, with the noisy likelihood in place of
the exact one. A function of released numbers, so it costs nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.base.digits import rounded_up
from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases import quadratic
from dpmcmc.releases.categories import even, typical
from dpmcmc.releases.quadratic import Quadratic

# probability that prior and rows lie so far apart in any coefficient by chance, where the prior
# tells more than the rows; and where these do: at .01 reliable answers by persons were 3 sds off
# there, and none of 969 reliable ones of 110 data sets is lost at .2
SURPRISING, SURPRISING_SEEN = 0.01, 0.2
USUAL_SD = 0.25  # of a column within [-1, 1], whose bounds are four of its sds out
CLEAR_SDS = 2.0  # of its noise, by which its mean square is less than what was released
NARROW = 0.2  # sd over the room to the next bound, up to which a column is narrow
WIDE_ENOUGH = 2.0  # sd of a prior that holds nothing back, over how far the posterior then lies
LEAST_SQUARE = 1e-12  # mean square of a column around its mean
LEAST_PRECISION = 1e-16  # of a prior, which is as good as flat
MOST_NAMED = 4
MAX_PULL = 0.5  # posterior sds by which a prior that is so far off may move a mean
MAX_PULL_WIDE = 1.0  # the same, of sds that allow for rows at far bounds


def pulls(release: Quadratic, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return the pull (p,) of priors that are narrow by their bounds, and sds (p,) without it.

    The pull is by how many posterior sds a prior moves each coefficient. It is 0 without conflict,
    and also where a prior that allows for columns that fill little of their bounds would be in
    conflict as well: the cause then is not the bounds, but rows that hardly any effect explains.

    mean, precision: of independent normal priors (d,). Coefficients of categories are left out:
    their size does not hang on bounds, and few rows say no quadratic of them. The bias that far
    bounds allow for hides no conflict: a prior that is far from the rows without it pulls the more.
    """
    p = len(release.place)
    mean, precision = mean[:p], np.maximum(precision[:p], LEAST_PRECISION)
    try:
        with np.errstate(all="ignore"):
            moved, sds = _pulls(release, mean, precision)
            if not release.by_columns:
                return moved, sds
            without, others = _pulls(replace(release, by_columns=False), mean, precision)
            moved = np.where(moved > MAX_PULL_WIDE, moved, 0.0)
            return np.maximum(moved, without), np.maximum(sds, others)
    except np.linalg.LinAlgError:  # priors so far apart in width that arithmetic loses one
        return np.zeros(p), precision**-0.5


def _pulls(release: Quadratic, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return what `pulls` does, for priors (p,). Raises LinAlgError."""
    p = len(mean)
    loose = _numbers(release)
    loose[0] |= typical(release.moments()[0])[1]
    numbers = _of_all(release, loose)
    if not numbers.any():
        return np.zeros(p), precision**-0.5
    actual = _Held(release, mean, np.diag(precision), numbers)
    if not actual.conflict:
        return np.zeros(p), precision**-0.5
    wide = _Held(release, mean, _roomy(release, precision), numbers)
    if wide.conflict:  # noise turns directions of narrow columns, which then hold others back
        alone = _roomy(release, precision, together=False)
        wide = _Held(release, mean, alone, numbers)
    moved = np.abs(actual.place - wide.place) / actual.sds
    pulls = np.where(numbers & (moved > MAX_PULL) & (not wide.conflict), moved, 0.0)
    return pulls, np.maximum(WIDE_ENOUGH * np.abs(wide.place - mean), precision**-0.5)


class _Held:
    """A posterior under a normal prior. mean, precision: (p,) and (p, p) of that prior.

    place, sds: (p,) of the coefficients. conflict: whether some sum of those that are looked at is
    further from the prior than chance has it, and moved by it.
    """

    def __init__(
        self, release: Quadratic, mean: Floats, precision: Floats, looked: NDArray[np.bool_]
    ) -> None:
        root, power = release.root, release.tempering
        score, noise = quadratic.agreed(release)
        likelihoods = release.likelihoods(release.curvature[None], noise)
        likelihood, gain = (power * matrices[0] for matrices in likelihoods)
        covariance = np.linalg.inv(likelihood)
        rows, back = release.place + root @ (covariance @ (gain @ score)), np.linalg.inv(root)
        both = np.linalg.inv(even(back.T @ likelihood @ back + precision))
        self.place = both @ (back.T @ (likelihood @ (back @ rows)) + precision @ mean)
        self.sds = np.sqrt(np.maximum(np.diag(both), TINY))
        some = np.ix_(looked, looked)
        unit = np.linalg.cholesky(even(np.linalg.inv(precision))[some])
        away = np.linalg.inv(unit)
        values, vectors = np.linalg.eigh(away @ (root @ covariance @ root.T)[some] @ away.T)
        values = np.maximum(values, 0.0)
        apart = np.abs(vectors.T @ (away @ (rows - mean)[looked])) / np.sqrt(1.0 + values)
        level = np.where(values < 1.0, SURPRISING_SEEN, SURPRISING)
        far = apart > -ndtri(0.5 * level / len(values))
        self.conflict = bool((far & (apart * np.sqrt(values) > MAX_PULL)).any())


def _roomy(release: Quadratic, precision: Floats, *, together: bool = True) -> Floats:
    """Return a wider prior's precision (p, p), scaled by the columns' spread, not their bounds.

    In each direction of the columns together, since powers of a column that fills little of its
    bounds are narrow only together; or of each column alone. One that is narrower than the noise
    looks wider than it is: it is taken to be as narrow as noise leaves open. An intercept is that
    of the middle of all bounds, which effects take far away. Coefficients of categories do not hang
    on bounds.
    """
    middle, spread, noise = _columns(release)
    d, loose = len(middle), _numbers(release)
    loose[0] &= not typical(release.moments()[0])[1]
    inside = spread[np.ix_(loose, loose)]
    values, vectors = np.linalg.eigh(inside if together else np.diag(np.diag(inside)))
    part = np.clip(values - CLEAR_SDS * noise, LEAST_SQUARE, USUAL_SD**2) / USUAL_SD**2
    wider = np.eye(d)
    wider[np.ix_(loose, loose)] = (vectors / np.sqrt(part)) @ vectors.T
    if release.ordered:  # a shift of the middle moves all cuts alike
        cuts = release.classes
        prior = np.diag(1.0 / np.append(1.0, precision[cuts:]))
        widened = wider @ prior @ wider
        variances = np.diag(1.0 / precision)
        variances[:cuts, :cuts] += middle @ (widened - prior) @ middle
        variances[cuts:, cuts:] = widened[1:, 1:]
        return np.asarray(np.linalg.inv(variances))
    precisions = np.zeros((len(precision), len(precision)))
    precisions[range(len(precision)), range(len(precision))] = precision
    for k in range(0, d * release.classes, d):
        prior = np.diag(1.0 / precision[k : k + d])
        widened = wider @ prior @ wider
        widened[0, 0] += middle @ (widened - prior) @ middle
        precisions[k : k + d, k : k + d] = np.linalg.inv(widened)
    return precisions


def narrow(release: Quadratic) -> NDArray[np.bool_]:
    """Return (p,) whether a column fills little of its bounds, away from both of them.

    At a bound a few rows far out would look the same: a column of a rare value is not narrow.
    """
    middle, spread, _ = _columns(release)
    square = np.diag(spread)
    room = np.clip(1.0 - np.abs(middle), 0.0, 1.0)
    flags = (square < (NARROW * room) ** 2) & _numbers(release)
    return _of_all(release, flags)


def _of_all(release: Quadratic, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return flags (p,) of all coefficients, from flags of columns (d,); False for a log scale.

    Cuts are of the first.
    """
    if release.ordered:
        return np.concatenate((np.tile(flags[0], release.classes), flags[1:]))
    return np.concatenate((np.tile(flags, release.classes), np.zeros(int(release.log_scale), bool)))


def _numbers(release: Quadratic) -> NDArray[np.bool_]:
    """Return (d,) which columns are not declared to hold only 0 and 1."""
    if release.indicators is None:
        return np.ones(len(release.whitening), bool)
    return np.asarray(release.indicators == 0.0)


def _columns(release: Quadratic) -> tuple[Floats, Floats, float]:
    """Return means (d,) and covariances (d, d) of columns, and the sd of the noise.

    Where the first one is the intercept its mean is told as 0 and its variance as 1.
    """
    second, noise = release.moments()
    if not typical(second)[1]:
        return np.zeros(len(second)), second, noise
    middle = second[0] / second[0, 0]
    middle[0] = 0.0
    spread = second - np.outer(middle, second[0])
    spread[0] = spread[:, 0] = 0.0
    spread[0, 0] = 1.0
    return middle, even(spread), noise


def sentence(names: Sequence[str], sds: Floats, pull: float) -> str:
    """Return a sentence with the conflict and its remedy.

    names: of the coefficients that are moved, worst first. sds: of priors that would do. pull: by
    how much the first is moved.
    """
    far = f"{pull:.2g}" if pull < 1e3 else "very many"
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    listed = list(zip(names, sds.tolist(), strict=True))[:MOST_NAMED]
    would = ", ".join(f"{_above(sd)} for {name}" for name, sd in listed)
    return (
        "some declared bounds are so wide that default priors are far from what the rows say: they"
        f" move {', '.join(names[:MOST_NAMED])}{rest} by up to {far} sds; ask for the posterior"
        f" under wider priors, which costs nothing (scales of {would})"
    )


def _above(sd: float) -> str:
    """Return a number rounded up to one digit."""
    within = min(max(sd, LEAST_PRECISION), 1.0 / LEAST_PRECISION)
    return f"{float(rounded_up(within, 1)):.6g}"
