"""The release that chains start from, and what a chain takes from it.

One release gives a chain its starting points, the covariance of its moves or its mass matrix, and
the gradients near the mode. It stays usable as any other release does, see posterior/stored.py.
"""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions, Beginning
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import NoisyMeanOptions, NoisyQuadraticOptions, Start
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.mechanisms.sums import MOST_COEFFICIENTS, MOST_ROWS
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import RELEASES, noisy_mean, noisy_quadratic, scales
from dpmcmc.releases.base import Facts, Release, Stored, prior_of
from dpmcmc.releases.noisy_mean import NoisyMean
from dpmcmc.releases.quadratic import FLAT, Quadratic
from dpmcmc.releases.quadratic_steps import shrunk
from dpmcmc.samplers.starts import MOST_NOISE, Found

POSTERIOR_DRAWS = 4000  # of the posterior given the release: its mean and covariance are theirs
LEAST_EIGENVALUE = 1e-12  # eigenvalue of a precision over the largest
MAX_CONDITION = 1e12  # condition of a root that can be computed with


def release_of(spec: JobSpec) -> Release[Any, Any, Any]:
    """Return the release of a job: its algorithm, or what its chains start from."""
    own = noisy_quadratic.RELEASE if _straight(spec) is None else noisy_mean.RELEASE
    return RELEASES.get(spec.sampler.algorithm, own)


def _straight(spec: JobSpec) -> JobSpec | None:
    """Return the job as noisy_mean releases it; None where it does not."""
    if spec.model.family not in noisy_mean.RELEASE.families:
        return None
    return replace(spec, model=noisy_mean.RELEASE.model(spec.model))


def beginning(design: Design, spec: JobSpec, assumptions: Assumptions) -> Beginning | None:
    """Return what to expect of a release that chains may start from; None where there is none."""
    straight = _straight(spec)
    if straight is not None:
        return _mean_beginning(design, straight, assumptions)
    release, rows = noisy_quadratic.RELEASE, assumptions.rows
    model = MODELS[spec.model.family]
    if not model.chains or model.family not in release.families or rows >= MOST_ROWS:
        return None
    form = model.form(design, spec)
    if len(form.start) > MOST_COEFFICIENTS:
        return None
    prior = prior_of(form, len(form.start))[1]
    facts = Facts(assumptions, form.max_row_norm, prior, spec.model.family)
    options: NoisyQuadraticOptions = release.settle(NoisyQuadraticOptions(), facts, 1.0)
    usual = options.num_far or noisy_quadratic.NUM_FAR

    def settle(start: Start, _: float) -> Start:
        if (start.shares, start.clip_bounds) != (None, None):
            raise SpecError("/sampler/start", f"{spec.model.family} starts with num_far alone")
        return replace(start, num_far=usual if start.num_far is None else start.num_far)

    return Beginning(
        settle,
        lambda z: release.widening(options, facts, z),
        lambda z: noisy_quadratic.poor(options, facts, z),
    )


def _mean_beginning(design: Design, spec: JobSpec, assumptions: Assumptions) -> Beginning:
    """Return the same of a noisy mean. spec: straight."""
    model = MODELS[spec.model.family]
    form, known = model.form(design, spec), replace(assumptions, guess=model.guess(design, spec))
    facts = Facts(known, form.max_row_norm, prior_of(form, len(form.start))[1], spec.model.family)

    @cache
    def settled(start: Start, z: float) -> NoisyMeanOptions:
        found: NoisyMeanOptions = noisy_mean.settle(noisy_mean.options_of(start), facts, z)
        return found

    def settle(start: Start, z: float) -> Start:
        if start.num_far is not None:
            raise SpecError("/sampler/start/num_far", f"{spec.model.family} starts without")
        told = settled(replace(start, noise_multiplier=None), z)
        return replace(start, shares=told.shares, clip_bounds=told.clip_bounds)

    def widening(z: float) -> Floats:
        z = min(z, MOST_NOISE)  # infinite where it is not known yet
        return noisy_mean.widening(settled(Start(), z), facts, z)

    return Beginning(settle, widening, lambda _: False)


def passes(start: Start | None, dimension: int) -> int:
    """Return how often the rows are read before a chain begins."""
    if start is None:
        return 0
    if start.shares is not None:
        return len(start.shares)
    return noisy_quadratic.passes(NoisyQuadraticOptions(num_far=start.num_far), dimension)


def begun(
    design: Design, spec: JobSpec, table: Table, random: RandomSource
) -> tuple[Stored, Found | None] | None:
    """Return what is stored of the start of a chain, and where it begins. None for no start.

    Privacy: samplers.starts.event(start). Never raises on rows: where what was released is nothing
    to compute with, chains stay at the public start.
    """
    start: Start | None = getattr(spec.sampler, "start", None)
    if start is None:
        return None
    straight = _straight(spec)
    if straight is not None:
        return _mean_begun(design, spec, straight, table, random)
    rows = noisy_quadratic.opened(design, spec, table)
    max_row_norm = MODELS[spec.model.family].form(design, spec).max_row_norm
    options, z = NoisyQuadraticOptions(num_far=start.num_far), start.noise_multiplier or math.nan
    told = noisy_quadratic.released(rows, max_row_norm, options, z, random)
    prior = rows.prior_mean, rows.prior
    try:
        found = found_in(told, prior, spec.sampler.num_chains or 1, random)
    except np.linalg.LinAlgError:  # of released numbers alone
        found = None
    return told, found


def _mean_begun(
    design: Design, spec: JobSpec, straight: JobSpec, table: Table, random: RandomSource
) -> tuple[NoisyMean, Found | None]:
    """Return the same of a noisy mean. Its posterior is normal where rows are: see Form."""
    options: Any = spec.sampler
    start: Start = options.start
    model, z = MODELS[spec.model.family], start.noise_multiplier or math.nan
    form, target = model.form(design, straight), model.target(design, straight, table, 1)
    found = noisy_mean.publish(target, form.max_row_norm, noisy_mean.options_of(start), z, random)
    told, prior = found.release, prior_of(form, len(form.start))[1]
    if not isinstance(told, NoisyMean):
        raise ValueError("this is no noisy mean")

    def own(positions: Floats) -> Floats:
        return model.release(design, straight, positions) if bent else positions

    bent = spec.model.options.coordinates == "natural"
    ends = found.mean + np.stack((np.eye(len(prior)), -np.eye(len(prior))))
    slope = 0.5 * (own(ends[0]) - own(ends[1])).T  # exact: what bends is a square
    root = slope * (told.weight + prior) ** -0.5
    draws, wide = own(found.draws(options.num_chains or 1, 1, random)[:, 0]), slope @ found.root
    if not _usable(draws, root):
        return told, None
    error, back = _beyond(wide @ wide.T, root), np.linalg.inv(slope)
    if error is None:
        return told, None
    own_prior = np.diag(back.T @ (prior[:, None] * back))
    return told, Found(draws, own(found.mean), root, error, np.eye(len(prior)), own_prior)


def found_in(
    told: Quadratic, prior: tuple[Floats, Floats], chains: int, random: RandomSource
) -> Found | None:
    """Return where chains begin, from released numbers alone. prior: mean and precision (d,)."""
    draws = told.posterior(*prior, random).draws(1, max(POSTERIOR_DRAWS, chains), random)[0]
    root = own_root(told, prior[1])
    if not _usable(draws, root):
        return None
    error = _beyond(np.atleast_2d(np.cov(draws, rowvar=False)), root)
    if error is None:
        return None
    back = np.linalg.inv(told.whitening)
    return Found(
        positions=draws[:chains],
        mode=draws.mean(axis=0),
        root=root,
        error=error,
        moments=np.asarray(back.T @ back),
        prior=prior[1],
    )


def _usable(draws: Floats, root: Floats) -> bool:
    """Whether released numbers can be computed with."""
    if not (np.isfinite(draws).all() and np.isfinite(root).all()):
        return False
    return bool(np.linalg.cond(root / np.abs(root).max(axis=1, keepdims=True)) < MAX_CONDITION)


def own_root(told: Quadratic, prior: Floats) -> Floats:
    """Return (d, d), root @ root.T is the posterior's covariance as if there were no noise.

    prior: (d,) precision. Directions that do not stand out of noise are as steep as the mean.
    """
    p, n = len(told.place), told.rows
    curve, level, _ = shrunk(told.curvature / n, told.curvature_sd / n)
    values, vectors = np.linalg.eigh(curve)
    values = n * told.tempering * np.maximum(values, max(FLAT * abs(level), 1e-75))
    whole = (vectors * values) @ vectors.T + told.root.T @ (prior[:p, None] * told.root)
    values, vectors = np.linalg.eigh(0.5 * (whole + whole.T))
    values = np.maximum(values, LEAST_EIGENVALUE * float(values.max()))
    root = np.zeros((len(prior), len(prior)))
    root[:p, :p] = told.root @ (vectors / np.sqrt(values))
    if told.scaled:
        variance = scales.variance(float(told.taus[-1]), float(told.cuts[-1]))
        root[p, p] = (n * told.tempering / variance + prior[p]) ** -0.5
    return root


def _beyond(covariance: Floats, root: Floats) -> Floats | None:
    """Return (d, d) what a covariance has beyond root @ root.T, in directions where it has more.

    None where that is too much to be a number.
    """
    back = np.linalg.inv(root)
    apart = back @ covariance @ back.T
    if not np.isfinite(apart).all():
        return None
    values, vectors = np.linalg.eigh(apart)
    directions = root @ vectors
    return np.asarray((directions * np.maximum(values - 1.0, 0.0)) @ directions.T)
