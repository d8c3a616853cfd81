"""The pooling of the last two iterates of a Newton path into one stored release."""

import math

import numpy as np

from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases import shares
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.releases.quadratic_steps import Iterate, weighted
from dpmcmc.releases.whitening import Whitening

ROWS, LAST = ("rows", "rows_sd"), np.array([0.0, 1.0])
# change of log odds between the near iterates in rows with a rare response, beyond which the first
# one's score is no line up to where the last one is
FAR_APART = 0.3


def pooled(
    iterates: tuple[Iterate, Iterate],
    white: Whitening,
    rows: int,
    tempering: float,
    noise_multiplier: float,
    *,
    additive: bool,
    has_scale: bool,
    fixed: bool,
    heaviest: float = 1.0,
    indicators: Floats | None = None,
    log_shift: float | None = None,
    most: float | None = None,
    odds: bool = False,
) -> Quadratic:
    """Return two iterates in the same coordinates pooled, weighted by the inverse noise variance.

    additive: whether a scale is an sd in units of the predictor; what it was taken to be then
    divides all of an iterate, so that both are brought to the last one's. most: largest curvature
    of all rows in any direction, for a scale of 1.
    """
    own = _scale(iterates, fixed=fixed)
    units = [(iterate.scale / own) ** 2 if additive else 1.0 for iterate in iterates]
    score_sds = np.array(
        [u * iterate.sums.sds[0] for u, iterate in zip(units, iterates, strict=True)]
    )
    curve_sds = np.array(
        [u * iterate.sums.sds[1] for u, iterate in zip(units, iterates, strict=True)]
    )
    noise_sds = np.array(
        [u * iterate.sums.sds[2] for u, iterate in zip(units, iterates, strict=True)]
    )
    alone = odds and _far_apart(iterates, rows, len(white.root))
    by_score, by_curve = (LAST, LAST) if alone else (_weights(score_sds), _weights(curve_sds))
    places = np.array([iterate.place for iterate in iterates])
    scores = np.array([u * iterate.sums.score for u, iterate in zip(units, iterates, strict=True)])
    curves = np.array(
        [u * iterate.sums.curvature for u, iterate in zip(units, iterates, strict=True)]
    )
    noises = np.array([u * iterate.sums.noise for u, iterate in zip(units, iterates, strict=True)])
    told_rows, rows_sds = (
        np.array([getattr(iterate.sums, part) for iterate in iterates]) for part in ROWS
    )
    gaps = bool(rows_sds.all())
    scaled = has_scale and additive and not fixed
    told = [iterates[0], iterates[1]] if scaled else []
    return Quadratic(
        place=by_score @ places,
        root=iterates[-1].root,
        score=by_score @ scores,
        score_sd=float(np.linalg.norm(by_score * score_sds)),
        curvature=np.tensordot(by_curve, curves, 1),
        curvature_sd=float(np.linalg.norm(by_curve * curve_sds)),
        noise=np.tensordot(by_curve, noises, 1),
        noise_sd=float(np.linalg.norm(by_curve * noise_sds)),
        whitening=white.root,
        whitening_known=white.known,
        whitening_sd=white.sd,
        whitening_held=white.held,
        places=places,
        scores=scores,
        score_sds=score_sds,
        scales=np.array([iterate.scale for iterate in told]),
        taus=np.array([iterate.tau for iterate in told]),
        tau_sds=np.array([iterate.tau_sd for iterate in told]),
        cuts=np.array([iterate.cut for iterate in told]),
        scaled=scaled,
        dispersion=iterates[-1].scale * iterates[-1].tau if has_scale and not additive else 1.0,
        clip=min(
            iterate.clip / (1.0 if additive else max(iterate.scale, 1.0)) for iterate in iterates
        ),
        rows=round(float(_weights(rows_sds) @ told_rows)) if gaps else rows,
        gaps=gaps,
        tempering=tempering,
        noise_multiplier=noise_multiplier,
        heaviest=heaviest,
        indicators=indicators,
        log_shift=log_shift,
        spreads=_spreads(iterates),
        odds=odds,
        most=None if most is None else most / (own**2 if additive else 1.0),
    )


def _far_apart(iterates: tuple[Iterate, Iterate], rows: int, size: int) -> bool:
    """Return whether rows with a rare response look different from the two places."""
    last = iterates[1]
    back = np.linalg.inv(last.root)
    step = (last.place - iterates[0].place).reshape(1, -1, size)
    counted = rows * weighted(last.sums.curvature, last.sums.noise)
    return shares.changes(back.T @ last.sums.curvature @ back, counted, step) > FAR_APART


def _spreads(iterates: tuple[Iterate, Iterate]) -> Floats | None:
    """Return (2, p, p) what slopes are means over, where that decides what scores say."""
    first, last = (iterate.spread for iterate in iterates)
    return None if first is None or last is None else np.stack((first, last))


def _scale(iterates: tuple[Iterate, Iterate], *, fixed: bool) -> float:
    """Return the scale of the residuals, of both iterates, each weighted by its noise."""
    if fixed or not iterates[-1].tau_sd:
        return iterates[-1].scale * (1.0 if fixed else iterates[-1].tau)
    told = np.log([iterate.scale * iterate.tau for iterate in iterates])
    return math.exp(float(_weights(np.array([iterate.tau_sd for iterate in iterates])) @ told))


def _weights(sds: Floats) -> Floats:
    return np.asarray(sds**-2.0 / (sds**-2.0).sum())
