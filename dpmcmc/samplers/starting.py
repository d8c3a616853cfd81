"""The release that chains start from, and the starting points, covariance and gradients from it.

One release gives a chain its starting points, the covariance of its moves or its mass matrix, and
the gradients near the mode. It can be used as any other release, see posterior/stored.py.
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
from dpmcmc.samplers.starts import MOST_NOISE, ChainStart

POSTERIOR_DRAWS = 4000  # of the posterior given the release, for its mean and covariance
LEAST_EIGENVALUE = 1e-12  # eigenvalue of a precision over the largest
MAX_CONDITION = 1e12  # largest condition number of a root


def release_of(spec: JobSpec) -> Release[Any, Any, Any]:
    """Return the release of a job: its algorithm, or the release that its chains start from."""
    release_of_start = noisy_quadratic.RELEASE if _straight(spec) is None else noisy_mean.RELEASE
    return RELEASES.get(spec.sampler.algorithm, release_of_start)


def _straight(spec: JobSpec) -> JobSpec | None:
    """Return the job as noisy_mean releases it; None for other families."""
    if spec.model.family not in noisy_mean.RELEASE.families:
        return None
    return replace(spec, model=noisy_mean.RELEASE.model(spec.model))


def beginning(design: Design, spec: JobSpec, assumptions: Assumptions) -> Beginning | None:
    """Return the expectations of a release that chains may start from; None where there is none."""
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
    options: NoisyQuadraticOptions = release.settle(
        NoisyQuadraticOptions(estimand="robust"), facts, 1.0
    )
    default_far = options.num_far or noisy_quadratic.NUM_FAR

    def settle(start: Start, _: float) -> Start:
        """Return the start with options filled in."""
        if (start.shares, start.clip_bounds) != (None, None):
            raise SpecError("/sampler/start", f"{spec.model.family} starts with num_far alone")
        return replace(start, num_far=default_far if start.num_far is None else start.num_far)

    return Beginning(
        settle,
        lambda z: release.sd_inflation(options, facts, z),
        lambda z: noisy_quadratic.poor(options, facts, z),
    )


def _mean_beginning(design: Design, spec: JobSpec, assumptions: Assumptions) -> Beginning:
    """Return `beginning` for a noisy mean. spec: in straight coordinates."""
    model = MODELS[spec.model.family]
    form, assumptions_of_means = (
        model.form(design, spec),
        replace(assumptions, guess=model.guess(design, spec)),
    )
    facts = Facts(
        assumptions_of_means,
        form.max_row_norm,
        prior_of(form, len(form.start))[1],
        spec.model.family,
    )

    @cache
    def settled(start: Start, z: float) -> NoisyMeanOptions:
        """Return the release's options, filled in for this noise multiplier."""
        options: NoisyMeanOptions = noisy_mean.settle(noisy_mean.options_of(start), facts, z)
        return options

    def settle(start: Start, z: float) -> Start:
        """Return the start with the options that are best at this noise multiplier."""
        if start.num_far is not None:
            raise SpecError("/sampler/start/num_far", f"{spec.model.family} starts without")
        options = settled(replace(start, noise_multiplier=None), z)
        return replace(start, shares=options.shares, clip_bounds=options.clip_bounds)

    def sd_inflation(z: float) -> Floats:
        """Return the expected sd of draws over the posterior's (d,), at a noise multiplier."""
        z = min(z, MOST_NOISE)  # infinite where it is not known yet
        return noisy_mean.sd_inflation(settled(Start(), z), facts, z)

    return Beginning(settle, sd_inflation, lambda _: False)


def passes(start: Start | None, dimension: int) -> int:
    """Return the number of passes over the rows before a chain begins."""
    if start is None:
        return 0
    if start.shares is not None:
        return len(start.shares)
    return noisy_quadratic.passes(NoisyQuadraticOptions(num_far=start.num_far), dimension)


def begun(
    design: Design, spec: JobSpec, table: Table, random: RandomSource
) -> tuple[Stored, ChainStart | None] | None:
    """Return the stored release of a start, and the starting points from it. None for no start.

    Privacy: samplers.starts.event(start). Never raises on rows: if the released numbers cannot be
    used, chains begin at the public start.
    """
    start: Start | None = getattr(spec.sampler, "start", None)
    if start is None:
        return None
    straight = _straight(spec)
    if straight is not None:
        return _mean_begun(design, spec, straight, table, random)
    in_full = replace(spec, spend="all")  # a chain goes on from it and pays for all of it
    rows = noisy_quadratic.opened(design, in_full, table)
    max_row_norm = MODELS[spec.model.family].form(design, spec).max_row_norm
    options, z = NoisyQuadraticOptions(num_far=start.num_far), start.noise_multiplier or math.nan
    release = noisy_quadratic.released(rows, max_row_norm, options, z, random)
    prior = rows.prior_mean, rows.prior
    try:
        chain_start = chain_start_of(release, prior, spec.sampler.num_chains or 1, random)
    except np.linalg.LinAlgError:  # of released numbers alone
        chain_start = None
    return release, chain_start


def _mean_begun(
    design: Design, spec: JobSpec, straight: JobSpec, table: Table, random: RandomSource
) -> tuple[NoisyMean, ChainStart | None]:
    """Return `begun` for a noisy mean, whose posterior is normal."""
    options: Any = spec.sampler
    start: Start = options.start
    model, z = MODELS[spec.model.family], start.noise_multiplier or math.nan
    form, target = model.form(design, straight), model.target(design, straight, table, 1)
    published = noisy_mean.publish(
        target, form.max_row_norm, noisy_mean.options_of(start), z, random
    )
    release, prior = published.release, prior_of(form, len(form.start))[1]
    if not isinstance(release, NoisyMean):
        raise ValueError("this is no noisy mean")

    def to_parameters(positions: Floats) -> Floats:
        """Return positions in the coordinates of the chains."""
        return model.release(design, straight, positions) if bent else positions

    bent = spec.model.options.coordinates == "natural"
    ends = published.mean + np.stack((np.eye(len(prior)), -np.eye(len(prior))))
    slope = (
        0.5 * (to_parameters(ends[0]) - to_parameters(ends[1])).T
    )  # exact, since the map is quadratic
    root = slope * (release.weight + prior) ** -0.5
    draws, posterior_root = (
        to_parameters(published.draws(options.num_chains or 1, 1, random)[:, 0]),
        slope @ published.root,
    )
    if not _usable(draws, root):
        return release, None
    error, back = _excess(posterior_root @ posterior_root.T, root), np.linalg.inv(slope)
    if error is None:
        return release, None
    own_prior = np.diag(back.T @ (prior[:, None] * back))
    return release, ChainStart(
        draws, to_parameters(published.mean), root, error, np.eye(len(prior)), own_prior
    )


def chain_start_of(
    release: Quadratic, prior: tuple[Floats, Floats], chains: int, random: RandomSource
) -> ChainStart | None:
    """Return starting points of chains from released numbers. prior: mean and precision (d,)."""
    draws = release.posterior(*prior, random).draws(1, max(POSTERIOR_DRAWS, chains), random)[0]
    root = own_root(release, prior[1])
    if not _usable(draws, root):
        return None
    error = _excess(np.atleast_2d(np.cov(draws, rowvar=False)), root)
    if error is None:
        return None
    return ChainStart(
        positions=draws[:chains],
        mode=draws.mean(axis=0),
        root=root,
        error=error,
        moments=release.moments()[0],
        prior=prior[1],
    )


def _usable(draws: Floats, root: Floats) -> bool:
    """Whether released numbers are finite and well conditioned."""
    if not (np.isfinite(draws).all() and np.isfinite(root).all()):
        return False
    return bool(np.linalg.cond(root / np.abs(root).max(axis=1, keepdims=True)) < MAX_CONDITION)


def own_root(release: Quadratic, prior: Floats) -> Floats:
    """Return root (d, d): root @ root.T estimates the posterior's covariance without noise.

    prior: (d,) precision. Curvatures that are not above the noise are set to their mean.
    """
    p, n = len(release.place), release.rows
    curve, level, _ = shrunk(release.curvature / n, release.curvature_sd / n)
    values, vectors = np.linalg.eigh(curve)
    values = n * release.tempering * np.maximum(values, max(FLAT * abs(level), 1e-75))
    precision = (vectors * values) @ vectors.T + release.root.T @ (prior[:p, None] * release.root)
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    values = np.maximum(values, LEAST_EIGENVALUE * float(values.max()))
    root = np.zeros((len(prior), len(prior)))
    root[:p, :p] = release.root @ (vectors / np.sqrt(values))
    if release.scaled:
        variance = scales.variance(float(release.taus[-1]), float(release.cuts[-1]))
        root[p, p] = (n * release.tempering / variance + prior[p]) ** -0.5
    return root


def _excess(covariance: Floats, root: Floats) -> Floats | None:
    """Return the positive part (d, d) of covariance - root @ root.T; None if not finite."""
    back = np.linalg.inv(root)
    whitened = back @ covariance @ back.T
    if not np.isfinite(whitened).all():
        return None
    values, vectors = np.linalg.eigh(whitened)
    directions = root @ vectors
    return np.asarray((directions * np.maximum(values - 1.0, 0.0)) @ directions.T)
