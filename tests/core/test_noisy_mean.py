"""Noisy means: the posterior given the release is the one it says, and no data breaks it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.banana import Banana, draw_posterior, exact_posterior, simulate, straighten
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyMeanOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.privacy import accountant
from dpmcmc.releases import noisy_mean
from dpmcmc.releases.noisy_mean_design import clipped_moments
from experiments.evaluation import mmd

SDS = np.array([2.0, 0.5])


def schema_of(rows, reach=6.0, off=0.0):
    """Two columns, reach sds to each side of off sds."""
    return Schema(
        columns=tuple(
            NumberColumn(name=name, lower=sd * (off - reach), upper=sd * (off + reach))
            for name, sd in zip("uv", SDS, strict=True)
        ),
        rows=rows,
    )


def budget(spec):
    return {"delta": spec.privacy.delta, "epsilon": spec.privacy.epsilon}


def job(epsilon=2.0, delta=1e-6, family="gaussian_mean", scale=1.0, tempering=None, **options):
    return JobSpec(
        model=ModelSpec(
            family=family,
            formula="~ u + v",
            prior=NormalPrior(scale=scale),
            tempering=tempering,
            options=ModelOptions(variances=tuple((SDS**2).tolist()), **options),
        ),
        sampler=NoisyMeanOptions(),
        privacy=PrivacySpec(delta=delta, epsilon=epsilon),
    )


def published(schema, spec, table, seeded):
    """The posterior (in positions) that one run of a planned job leads to."""
    resolved = plan(schema, spec).spec
    model, design = MODELS[spec.model.family], make_design(schema, spec.model.formula)
    resolved = replace(resolved, model=noisy_mean.straightened(resolved.model))
    return noisy_mean.publish(
        model.target(design, resolved, table, 1),
        model.form(design, resolved).max_row_norm,
        resolved.sampler,
        resolved.privacy.noise_multiplier,
        seeded,
    )


def ranks(rows, epsilon, seeded, runs=1000, wrong=1.0, reach=6.0, off=0.0):
    """p-values of the ranks of theta, drawn from the prior, under the posterior of its release."""
    schema, spec = schema_of(rows, reach, off), job(epsilon)
    resolved = plan(schema, spec).spec
    design = make_design(schema, spec.model.formula)
    model = MODELS["gaussian_mean"]
    form = model.form(design, resolved)
    rng, source = np.random.default_rng(1), seeded(2)
    found = np.empty((runs, 2))
    middle = SDS * off
    for run in range(runs):
        theta = rng.normal(0.0, 1.0, 2)
        x = theta + SDS * rng.standard_normal((rows, 2))
        table = table_of(schema, {"u": x[:, 0], "v": x[:, 1]})
        posterior = noisy_mean.publish(
            model.target(design, resolved, table, 1),
            form.max_row_norm,
            resolved.sampler,
            resolved.privacy.noise_multiplier,
            source,
        )
        sd = wrong * np.sqrt(np.diag(posterior.root @ posterior.root.T))
        found[run] = norm.cdf(((theta - middle) / SDS - posterior.mean) / sd)
    return [float(chisquare(np.histogram(r, 20, (0, 1))[0]).pvalue) for r in found.T]


@pytest.mark.compiled("hundreds of releases")
@pytest.mark.parametrize(
    ("rows", "epsilon", "reach"),
    [(400, 0.3, 6.0), (50, 2.0, 6.0), (400, 5.0, 60.0)],
)
def test_posteriors_given_the_release_are_calibrated(rows, epsilon, reach, seeded):
    assert min(ranks(rows, epsilon, seeded, reach=reach, off=1.0)) > 0.001


@pytest.mark.compiled("hundreds of releases")
@pytest.mark.parametrize("wrong", [0.8, 1.25])
def test_calibration_would_see_sds_that_are_wrong_by_a_fifth(wrong, seeded):
    assert min(ranks(400, 5.0, seeded, wrong=wrong)) < 0.001


def test_what_clipping_does_to_a_mean_is_as_simulated():
    rng = np.random.default_rng(3)
    for d, clip in ((1, 1.0), (2, 2.8), (10, 3.0)):
        x = rng.standard_normal((400_000, d))
        short = np.minimum(1.0, clip / np.linalg.norm(x, axis=1))[:, None]
        slope, excess = clipped_moments(clip, d)
        moved = x + 0.02
        cut = np.minimum(1.0, clip / np.linalg.norm(moved, axis=1))[:, None] * moved
        gain = (cut - short * x).mean(axis=0) / 0.02
        assert gain.mean() == pytest.approx(slope, abs=0.01)
        lost = (short * x / slope - x).var(axis=0).mean()
        assert lost == pytest.approx(excess, rel=0.05)


@pytest.mark.parametrize("tempering", [None, 0.02])
@pytest.mark.parametrize("coordinates", [None, "natural"])
def test_draws_are_near_the_bananas_exact_posterior(tempering, coordinates):
    rows, banana = 20_000, Banana(variances=tuple((SDS**2).tolist()), prior_variance=1.0)
    rng = np.random.default_rng(4)
    x = simulate(banana, np.array([0.1, 0.4]), rows, random=rng)
    spec = job(4.0, family="banana", tempering=tempering, coordinates=coordinates)
    found = sample(
        {"u": x[:, 0], "v": x[:, 1]},
        schema=schema_of(rows),
        model=spec.model,
        **budget(spec),
    )
    assert found.plan.spec.sampler.algorithm == "noisy_mean"
    reference = draw_posterior(
        banana, x.mean(axis=0), rows, 2000, random=rng, tempering=tempering or 1.0
    )
    assert mmd(found.draws[0], reference, random=rng) < 0.2
    mean, variances = exact_posterior(banana, x.mean(axis=0), rows, tempering or 1.0)
    straight = straighten(banana, found.draws.reshape(-1, 2))
    assert np.all(np.abs(straight.mean(axis=0) - mean) < 0.8 * np.sqrt(variances))
    assert np.all(np.abs(straight.std(axis=0) / np.sqrt(variances) - 1.0) < 0.15)


@pytest.mark.parametrize(("reach", "off"), [(2.5, 1.0), (8.0, -6.0), (5000.0, 2000.0)])
def test_bounds_that_are_tight_or_wide_or_off_do_no_harm(reach, off):
    """The error of the mean is below a third of a posterior sd whatever the admin declared."""
    rows, rng = 100_000, np.random.default_rng(5)
    x = SDS * (off + rng.uniform(-2.0, 2.0) * 0.2 + rng.standard_normal((rows, 2)))
    schema, spec = schema_of(rows, reach, off * 0.9), job(2.0, scale=1000.0)
    data = {"u": x[:, 0], "v": x[:, 1]}
    clamped = table_of(schema, data)
    means = np.array([clamped.columns[name].mean() for name in "uv"])
    found = sample(
        data,
        schema=schema,
        model=spec.model,
        **budget(spec),
    )
    sds = SDS / math.sqrt(rows)
    assert np.all(np.abs(found.draws.mean(axis=(0, 1)) - means) < 0.33 * sds)
    assert np.all(np.abs(found.draws.std(axis=(0, 1)) / sds - 1.0) < 0.1)


@pytest.mark.parametrize("family", ["gaussian_mean", "banana"])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 1e9])
@pytest.mark.parametrize("kind", ["one row", "all at a bound", "constant"])
def test_any_data_and_budget_gives_finite_draws(family, epsilon, kind):
    rows = 1 if kind == "one row" else 30
    schema = schema_of(rows)
    bounds = np.array([[c.lower, c.upper] for c in schema.columns])
    x = np.tile(bounds[:, 1] if kind == "all at a bound" else [0.3, 0.1], (rows, 1))
    found = sample(
        {"u": x[:, 0], "v": x[:, 1]},
        schema=schema,
        model=job(family=family).model,
        delta=1e-6,
        epsilon=epsilon,
        accept_low_quality=True,
    )
    assert np.isfinite(found.draws).all()
    assert found.draws.shape == (2, 2000, 2)
    assert found.cost.epsilon <= epsilon


@pytest.mark.parametrize("reach", [1e-6, 1e12, 1e29])
def test_extreme_bounds_give_finite_draws(reach):
    schema, spec = schema_of(50, reach), job(1.0)
    x = np.zeros(50)
    found = sample(
        {"u": x, "v": x},
        schema=schema,
        model=spec.model,
        **budget(spec),
        accept_low_quality=True,
    )
    assert np.isfinite(found.draws).all()


def test_without_budget_the_posterior_is_the_prior():
    schema, spec = schema_of(100), job(1e-4, delta=1e-20, scale=1.5)
    x = np.full(100, 0.9)
    found = sample(
        {"u": x, "v": x},
        schema=schema,
        model=spec.model,
        **budget(spec),
        accept_low_quality=True,
    )
    assert found.draws.mean(axis=(0, 1)) == pytest.approx([0.0, 0.0], abs=0.2)
    assert found.draws.std(axis=(0, 1)) == pytest.approx([1.5, 1.5], rel=0.1)


def test_with_all_the_budget_the_posterior_is_the_rows(seeded):
    rows, rng = 1000, np.random.default_rng(6)
    x = SDS * rng.uniform(-3.0, 3.0, (rows, 2))  # not normal: nothing may be cut
    spec = job(1e6, scale=10.0)
    table = table_of(schema_of(rows), {"u": x[:, 0], "v": x[:, 1]})
    posterior = published(schema_of(rows), spec, table, seeded(7))
    prior = (SDS / 10.0) ** 2
    weight = rows / (rows + prior)
    assert posterior.mean == pytest.approx(weight * x.mean(axis=0) / SDS, abs=1e-3)
    assert np.diag(posterior.root) == pytest.approx((rows + prior) ** -0.5, rel=1e-3)


def test_the_draws_are_free_and_the_releases_cost_their_share():
    schema = schema_of(1000)
    for draws in (1, 5000):
        options = NoisyMeanOptions(num_steps=draws, shares=(0.1, 0.9), clip_bound=3.0)
        spec = replace(
            job(), sampler=options, privacy=PrivacySpec(delta=1e-6, noise_multiplier=5.0)
        )
        made = plan(schema, spec)
        assert made.cost.mu == pytest.approx(0.2, rel=1e-9)
        first, last = (part.noise_multiplier for part in made.event.events)
        assert (first, last) == pytest.approx((5 / math.sqrt(0.1), 5 / math.sqrt(0.9)))
        assert made.spec.sampler.clip_bounds[-1] == 3.0
        assert plan(schema, made.spec).spec == made.spec


def test_shares_below_one_cost_less_than_they_may():
    options = NoisyMeanOptions(shares=(0.1, 0.4))
    made = plan(schema_of(1000), replace(job(2.0), sampler=options))
    assert accountant.gdp_mu(made.event) == pytest.approx(
        math.sqrt(0.5) * accountant.mu_of_epsilon(2.0, 1e-6), rel=1e-9
    )


@pytest.mark.parametrize(
    ("pointer", "options"),
    [
        ("/sampler/shares", {"shares": ()}),
        ("/sampler/shares", {"shares": (0.5, 0.6)}),
        ("/sampler/shares", {"shares": (math.nan,)}),
        ("/sampler/shares", {"shares": (-1.0,)}),
        ("/sampler/clip_bounds", {"shares": (0.5, 0.5), "clip_bounds": (1.0,)}),
        ("/sampler/clip_bounds", {"shares": (1.0,), "clip_bounds": (math.inf,)}),
        ("/sampler/clip_bounds", {"clip_bounds": (1.0,)}),
        ("/sampler/clip_bound", {"clip_bound": math.nan}),
        ("/sampler/num_steps", {"num_steps": 0}),
        ("/sampler/num_warmup", {"num_steps": 10, "num_warmup": 10}),
    ],
)
def test_impossible_options_name_their_field(pointer, options):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(100), replace(job(), sampler=NoisyMeanOptions(**options)))
    assert caught.value.pointer == pointer
