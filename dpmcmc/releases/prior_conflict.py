"""Prior-data conflict: a prior that holds the posterior far from what the rows say.

A default prior is as wide as the declared bounds say that effects can be. Where these are a hundred
times wider than the rows, effects of a usual size lie many of its sds out, and the posterior is
where neither of the two is. Source: Evans and Moshonov 2006, with the noisy likelihood in place of
the exact one. A function of released numbers, so it costs nothing.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.families.base import TINY
from dpmcmc.releases import quadratic_looks
from dpmcmc.releases.categories import typical
from dpmcmc.releases.joint_sums import Floats
from dpmcmc.releases.quadratic import Quadratic

SURPRISING = 0.01  # probability that prior and rows lie so far apart in any coefficient by chance
USUAL_SD = 0.25  # of a column within [-1, 1], whose bounds are four of its sds out
CLEAR_SDS = 2.0  # of its noise, by which its mean square is less than what was released
NARROW = 0.2  # sd over the room to the next bound, up to which a column is narrow
WIDE_ENOUGH = 2.0  # sd of a prior that holds nothing back, over how far the posterior then lies
LEAST_SQUARE = 1e-12  # mean square of a column around its mean
MOST_NAMED = 4
MAX_PULL = 0.5  # posterior sds by which a prior that is so far off may move a mean


def pulls(release: Quadratic, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return what a prior does (p,) that bounds made narrow, and sds (p,) that would not do so.

    By how many posterior sds it moves each coefficient: 0 without conflict, and where a prior that
    is as wide as the rows are narrow would be in conflict as well, for there it is not the bounds,
    but rows that hardly any effect explains.
    mean, precision: of independent normal priors (d,). Coefficients of categories are left out:
    their size does not hang on bounds, and few rows say no quadratic of them.
    """
    p = len(release.place)
    mean, precision = mean[:p], np.maximum(precision[:p], TINY)
    found, _ = _moved(release, mean, precision)
    if not found.any():
        return found, precision**-0.5
    moved, place = _moved(release, mean, _roomy(release, precision))
    found = np.where(moved > 0.0, 0.0, found)
    if release.indicators is not None:
        numbers = release.indicators == 0.0
        numbers[0] |= typical(release.moments()[0])[1]
        found *= np.tile(numbers, p // len(numbers))
    return np.asarray(found), np.maximum(WIDE_ENOUGH * np.abs(place - mean), precision**-0.5)


def _moved(release: Quadratic, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return by how many sds normal priors move coefficients, or 0, and where these are then.

    All (p,). Without conflict it is 0.
    """
    p, root, power = len(mean), release.root, release.tempering
    score, noise = quadratic_looks.agreed(release)
    whole, gain = (
        power * found[0] for found in release.likelihoods(release.curvature[None], noise)
    )
    told = np.linalg.inv(whole)
    rows = release.place + root @ (told @ (gain @ score))
    variances = np.einsum("ij,jk,ik->i", root, told, root)
    back = np.linalg.inv(root)
    whole = back.T @ whole @ back
    both = np.linalg.inv(whole + np.diag(precision))
    posterior = both @ (whole @ rows + precision * mean)
    apart = np.abs(rows - mean) / np.sqrt(variances + 1.0 / precision)
    moved = np.abs(posterior - rows) / np.sqrt(np.maximum(np.diag(both), TINY))
    conflict = (apart > -ndtri(0.5 * SURPRISING / p)) & (moved > MAX_PULL)
    return np.where(conflict, moved, 0.0), posterior


def _roomy(release: Quadratic, precision: Floats) -> Floats:
    """Return precisions (p,) with which effects are as large for the rows' sds as for bounds.

    A column that is narrower than the noise looks wider than it is: it is taken to be as narrow as
    noise leaves open. An intercept is that of the middle of all bounds, which effects take far
    away. Coefficients of categories do not hang on bounds.
    """
    middle, square, noise = _columns(release)
    part = np.clip(square - CLEAR_SDS * noise, LEAST_SQUARE, USUAL_SD**2) / USUAL_SD**2
    if release.indicators is not None:
        part = np.where(release.indicators > 0.0, 1.0, part)
    own = 1.0 / precision.reshape(-1, len(middle))
    wide = own / part
    wide[:, 0] += (wide - own) @ middle**2
    return np.asarray(1.0 / wide.ravel())


def narrow(release: Quadratic) -> NDArray[np.bool_]:
    """Return (p,) whose columns fill next to nothing of their bounds, and are away from both.

    At a bound a few rows far out would look the same: a column of a rare value is not narrow.
    """
    middle, square, _ = _columns(release)
    room = np.clip(1.0 - np.abs(middle), 0.0, 1.0)
    found = square < (NARROW * room) ** 2
    if release.indicators is not None:
        found &= release.indicators == 0.0
    return np.tile(found, len(release.place) // len(found))


def _columns(release: Quadratic) -> tuple[Floats, Floats, float]:
    """Return means (d,) and variances (d,) of columns, and the sd of the noise of these.

    Where the first one is the intercept its mean is 0 and its variance that of the widest column.
    """
    second, noise = release.moments()
    middle, intercept = np.zeros(len(second)), typical(second)[1]
    if intercept:
        middle[1:] = second[0, 1:] / second[0, 0]
    square = np.diag(second) - middle * second[0]
    square[0] = 1.0 if intercept else square[0]
    return middle, square, noise


def sentence(names: Sequence[str], sds: Floats, pull: float) -> str:
    """Return what is wrong, and what would mend it.

    names: of the coefficients that are moved, worst first. sds: of priors that would do. pull: by
    how much the first is moved.
    """
    far = f"{pull:.2g}" if pull < 1e3 else "very many"
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    would = [f"{_above(sd)} for {name}" for name, sd in zip(names, sds.tolist(), strict=True)][
        :MOST_NAMED
    ]
    return (
        "some declared bounds are so wide that default priors are far from what the rows say: they"
        f" move {', '.join(names[:MOST_NAMED])}{rest} by up to {far} sds; ask for the posterior"
        f" under wider priors, which costs nothing (scales of {', '.join(would)})"
    )


def _above(sd: float) -> str:
    """Return a number of one digit that is no smaller."""
    unit = 10.0 ** math.floor(math.log10(sd))
    return f"{math.ceil(sd / unit) * unit:.6g}"
