"""What `noisy_quadratic` leaves behind: a noisy quadratic log likelihood, and what follows from it.

All of it is a function of released numbers: posteriors under any normal prior, as many draws as
wanted, and a verdict. Nothing here sees a row or costs anything.
"""

import math
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import scales
from dpmcmc.releases.joint_sums import Floats
from dpmcmc.releases.quadratic_steps import Look, shrunk
from dpmcmc.releases.whitening import Whitening

MIXTURE, LEAST_MIXTURE, MANY = 400, 60, 20  # curvatures that draws are mixed over; fewer for many
FLAT, LEAST_PART = 1e-3, 0.02  # of the mean curvature; of the curvature that is a score's variance
LEAST_SQUARE = 0.02  # of a squared scale, that is left when the way to the mean is taken off
ROWS = ("rows", "rows_sd")
TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """A stored release. Arrays of floats and plain numbers alone: see to_dict.

    place: (p,), around which the rest is. root: (p, p), place + root @ u are coefficients; all
    that follows is by u. score, score_sd: gradient of the log likelihood at place and sd of its
    noise. curvature, curvature_sd: (p, p), minus its slope. noise, noise_sd: (p, p), the score's
    variance under the model. whitening and what begins so: see Whitening.
    places: (2, p), of the near looks; scores: (2, p), score_sds: (2,) of them. scales, taus,
    tau_sds, cuts: (2,), see Look; empty without one. scaled: whether a log scale is a parameter.
    clip: of a row's score, in mean lengths of such scores as residuals of this dispersion have.
    gaps: whether rows may be left out; rows is then about how many were not. heaviest: largest
    declared weight of a row's log likelihood.
    """

    place: Floats
    root: Floats
    score: Floats
    score_sd: float
    curvature: Floats
    curvature_sd: float
    noise: Floats
    noise_sd: float
    whitening: Floats
    whitening_known: Floats
    whitening_sd: float
    whitening_held: Floats
    places: Floats
    scores: Floats
    score_sds: Floats
    scales: Floats
    taus: Floats
    tau_sds: Floats
    cuts: Floats
    scaled: bool
    dispersion: float
    clip: float
    rows: int
    tempering: float
    noise_multiplier: float
    gaps: bool = False
    heaviest: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> "Quadratic":
        """Return what to_dict made this of."""
        read: dict[str, Any] = {
            k: np.array(v, np.float64) if isinstance(v, list) else v for k, v in told.items()
        }
        return cls(**read)

    @property
    def weight(self) -> float:
        """How much a row counts on average: weights enter the score's variance squared.

        Less than 1 where rows are cut or weighted down, be it for the noise or for outliers. Where
        the model is wrong the answer is then that of a robust fit.
        """
        total = max(float(np.trace(self.curvature)), TINY)
        return min(max(float(np.trace(self.noise)) / total, 0.0), 1.0)

    @property
    def paid(self) -> Whitening:
        """The coordinates of these columns, which another release of them may use."""
        return Whitening(
            self.whitening, self.whitening_known, self.whitening_sd, self.whitening_held
        )

    def moments(self) -> tuple[Floats, float]:
        """See Stored. A direction that noise hides counts with as much as could hide there."""
        back = np.linalg.inv(self.whitening)
        return back.T @ back, math.sqrt(2.0 * len(back)) * self.whitening_sd

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> "Mixture":
        """Return the posterior under independent normal priors. mean, precision: (p,), or (p + 1,).

        The last one is of the log scale, where that is a parameter. Given a curvature J the rows'
        own estimate is normal about place + J^-1 score with precision J (V + s^2)^-1 J, V the
        score's variance and s its noise; J itself is known up to its noise: a mixture over it.
        """
        p = len(self.place)
        back = np.linalg.inv(self.root)
        prior = self.root.T @ (precision[:p, None] * self.root)
        pull = prior @ (back @ (mean[:p] - self.place))
        count = int(min(max(MIXTURE * (MANY / p) ** 1.5, LEAST_MIXTURE), MIXTURE))
        curves = self._curvatures(count, random)
        means, roots = self._given(curves, self._powers(len(curves), random), prior, pull)
        last = (float(mean[p]), float(precision[p])) if self.scaled else None
        return Mixture(self, means, roots, last)

    def _curvatures(self, count: int, random: RandomSource) -> Floats:
        """Return draws (count, p, p) of the curvature given what was released of it."""
        p, n = len(self.place), self.rows
        middle, _, part = shrunk(self.curvature / n, self.curvature_sd / n)
        spread = math.sqrt(part) * self.curvature_sd / n
        flat = random.normals((count // 2, p, p)) * spread
        flat = np.concatenate((flat, -flat))  # so that their mean is what was released
        noise = np.triu(flat, 1) * math.sqrt(0.5)
        noise = noise + noise.swapaxes(1, 2)
        noise[:, range(p), range(p)] = np.diagonal(flat, axis1=1, axis2=2)
        return np.asarray(n * (middle + noise))

    def _variance(self, half: Floats, inverse: Floats) -> Floats:
        """Return the score's variance (k, p, p): between 0 and the curvature, half @ half.T."""
        share, off = self._thinned()
        curve = half @ _turned(half)
        values, vectors = np.linalg.eigh(_even(inverse @ (share * curve + off) @ _turned(inverse)))
        ways = half @ vectors
        return np.asarray((ways * np.clip(values, LEAST_PART, 1.0)[:, None]) @ _turned(ways))

    def _thinned(self) -> tuple[float, Floats]:
        """Return (share, rest): the variance is share * curvature + rest, as far as is known."""
        share = max(self.weight, 0.05)
        off = self.noise - share * self.curvature
        blur = math.hypot(self.noise_sd, share * self.curvature_sd)
        p, size = len(off), float((off**2).sum())
        part = max(0.0, 1.0 - 0.5 * p * (p + 1) * blur * blur / max(size, TINY))
        return share, part * off

    def _powers(self, count: int, random: RandomSource) -> Floats:
        """Return draws (k,) of the power of the likelihood: over what the scale may be as well.

        Residuals' squares over their variance are a chi-square of n - p degrees of freedom, which
        makes coefficients t distributed. Source of its draws: Wilson and Hilferty 1931.
        """
        if not self.scaled:
            return np.full(count, self.tempering)
        rows = self.rows * self.tempering
        free = max(rows - len(self.place), 1.0)
        third = 2.0 / (9.0 * free)
        cubes = np.maximum(1.0 - third + math.sqrt(third) * random.normals((count,)), 0.1)
        return np.asarray(self.tempering * free * cubes**3 / rows)

    def _given(
        self, curves: Floats, weights: Floats, prior: Floats, pull: Floats
    ) -> tuple[Floats, Floats]:
        """Return means (k, p) and roots (k, p, p) of covariances by u.

        Given curvatures (k, p, p) and powers of the likelihood (k,). Means have the mean power: a
        prior that is far from the rows would else scatter them.
        """
        p = curves.shape[1]
        levels = np.abs(np.trace(curves, axis1=1, axis2=2)) / p
        values, vectors = np.linalg.eigh(curves)
        values = np.maximum(values, np.maximum(FLAT * levels, TINY**0.25)[:, None])
        half, inverse = (
            vectors * np.sqrt(values)[:, None],
            _turned(vectors / np.sqrt(values)[:, None]),
        )
        curves = half @ _turned(half)
        variance = self._variance(half, inverse) + self.score_sd**2 * np.eye(p)
        gain = _turned(np.asarray(np.linalg.solve(variance, curves), np.float64))
        whole, middle = _even(gain @ curves), float(np.mean(weights))
        roots = _roots(prior + middle * whole)
        pulled = (middle * (gain @ self.score) + pull)[..., None]
        means = np.asarray((roots @ (_turned(roots) @ pulled))[..., 0])
        if self.scaled:
            roots = _roots(prior + weights[:, None, None] * whole)
        return means, roots


@dataclass(frozen=True, slots=True)
class Mixture:
    """A posterior. means: (k, p), roots: (k, p, p) by u. last: prior of the log scale."""

    release: Quadratic
    means: Floats
    roots: Floats
    last: tuple[float, float] | None

    def parts(self) -> tuple[Floats, Floats]:
        """See Posterior: of the coefficients, without the log scale."""
        root = self.release.root
        return self.release.place + self.means @ root.T, np.asarray(root @ self.roots)

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""
        p, count = self.means.shape[1], chains * length
        which = np.sort(random.integers(len(self.means), (count,)))
        normals, found = random.normals((count, p)), np.empty((count, p))
        ends = np.searchsorted(which, np.arange(len(self.means) + 1))
        for k, (start, end) in enumerate(pairwise(ends)):
            found[start:end] = self.means[k] + normals[start:end] @ self.roots[k].T
        found = found[np.argsort(random.uniforms((count,)))]
        out = self.release.place + found @ self.release.root.T
        if self.last is not None:
            out = np.column_stack((out, self._log_scales(found, random)))
        return out.reshape(chains, length, -1)

    def completed(self, coefficients: Floats, _: Any, random: RandomSource) -> Floats:
        """See Posterior: with log scales, where they are parameters."""
        if self.last is None:
            return coefficients
        away = (coefficients - self.release.place).T
        moves = np.asarray(np.linalg.solve(self.release.root, away).T, np.float64)
        return np.column_stack((coefficients, self._log_scales(moves, random)))

    def _log_scales(self, moves: Floats, random: RandomSource) -> Floats:
        """Return log scales (count,) given moves (count, p) by u.

        What squares at a place say is the scale and the way from there to the mean, squared. How
        much of the latter the cut left is not known: a uniform part is taken off.
        """
        told, mean, precision = self.release, *(self.last or (0.0, 1.0))
        weights = told.tau_sds**-2.0 / (told.tau_sds**-2.0).sum()
        back, found = np.linalg.inv(told.root), np.zeros(len(moves))
        part = random.uniforms((len(moves),))
        own = moves.shape[1] / (told.rows * told.tempering)  # how far draws are from their mean
        for k, weight in enumerate(weights):
            away = moves + back @ (told.place - told.places[k])
            off = ((away**2).sum(axis=1) - own) * (told.scales[0] / told.scales[k]) ** 2
            square = told.taus[k] ** 2
            left = np.maximum(square - part * off, LEAST_SQUARE * square)
            found += weight * (math.log(told.scales[k]) + 0.5 * np.log(left))
        p, n = moves.shape[1], told.rows * told.tempering
        found += (p + 1.0) / (2.0 * n)  # the mean, not the mode
        variance = scales.variance(float(told.taus[-1]), float(told.cuts[-1])) / n
        variance += 1.0 / float((told.tau_sds**-2.0).sum())
        kept = 1.0 / (1.0 + variance * precision)
        sd = math.sqrt(variance * kept)
        return np.asarray(kept * found + (1.0 - kept) * mean + sd * random.normals((len(moves),)))


def pooled(
    looks: tuple[Look, Look],
    white: Whitening,
    rows: int,
    tempering: float,
    noise_multiplier: float,
    *,
    additive: bool,
    has_scale: bool,
    fixed: bool,
    heaviest: float = 1.0,
) -> Quadratic:
    """Return what two looks in the same coordinates say together, each weighted by its noise.

    additive: whether a scale is an sd in units of the predictor; what it was taken to be then
    divides all of a look, so that both are brought to the last one's.
    """
    own = _scale(looks, fixed=fixed)
    units = [(look.scale / own) ** 2 if additive else 1.0 for look in looks]
    score_sds = np.array([u * look.sums.sds[0] for u, look in zip(units, looks, strict=True)])
    curve_sds = np.array([u * look.sums.sds[1] for u, look in zip(units, looks, strict=True)])
    noise_sds = np.array([u * look.sums.sds[2] for u, look in zip(units, looks, strict=True)])
    by_score, by_curve = _weights(score_sds), _weights(curve_sds)
    places = np.array([look.place for look in looks])
    scores = np.array([u * look.sums.score for u, look in zip(units, looks, strict=True)])
    curves = np.array([u * look.sums.curvature for u, look in zip(units, looks, strict=True)])
    noises = np.array([u * look.sums.noise for u, look in zip(units, looks, strict=True)])
    told_rows, rows_sds = (np.array([getattr(look.sums, part) for look in looks]) for part in ROWS)
    gaps = bool(rows_sds.all())
    scaled = has_scale and additive and not fixed
    told = [looks[0], looks[1]] if scaled else []
    return Quadratic(
        place=by_score @ places,
        root=looks[-1].root,
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
        scales=np.array([look.scale for look in told]),
        taus=np.array([look.tau for look in told]),
        tau_sds=np.array([look.tau_sd for look in told]),
        cuts=np.array([look.cut for look in told]),
        scaled=scaled,
        dispersion=looks[-1].scale * looks[-1].tau if has_scale and not additive else 1.0,
        clip=min(look.clip / (1.0 if additive else max(look.scale, 1.0)) for look in looks),
        rows=round(float(_weights(rows_sds) @ told_rows)) if gaps else rows,
        gaps=gaps,
        tempering=tempering,
        noise_multiplier=noise_multiplier,
        heaviest=heaviest,
    )


def _scale(looks: tuple[Look, Look], *, fixed: bool) -> float:
    """Return the scale of the residuals, of both looks, each weighted by its noise."""
    if fixed or not looks[-1].tau_sd:
        return looks[-1].scale * (1.0 if fixed else looks[-1].tau)
    told = np.log([look.scale * look.tau for look in looks])
    return math.exp(float(_weights(np.array([look.tau_sd for look in looks])) @ told))


def _weights(sds: Floats) -> Floats:
    return np.asarray(sds**-2.0 / (sds**-2.0).sum())


def _roots(precisions: Floats) -> Floats:
    """Return roots (k, p, p) of the inverses of precisions (k, p, p), singular ones included.

    A direction that neither rows nor the prior tell in floating point is as wide as that allows.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(precisions, axis1=1, axis2=2), TINY))
    values, vectors = np.linalg.eigh(_even(precisions / sizes[:, :, None] / sizes[:, None]))
    values = np.maximum(values, values[:, -1:] * np.finfo(float).eps)
    return np.asarray(vectors / np.sqrt(values)[:, None] / sizes[:, :, None])


def _turned(matrices: Any) -> Floats:
    return np.asarray(matrices.swapaxes(-1, -2), dtype=np.float64)


def _even(matrices: Any) -> Floats:
    return np.asarray(0.5 * (matrices + _turned(matrices)), dtype=np.float64)
