"""Variational inference by private gradients: its noise, what it makes of it, and its verdict."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest

from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, Schema, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import AutoOptions, DpViOptions
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.mechanisms import sums
from dpmcmc.planner import plan
from dpmcmc.releases import dp_vi
from dpmcmc.releases.dp_vi import Look, Opened, Variational, judge, pooled
from tests.sources import Seeded

compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="hundreds of fits need the compiler"
)
TRUTH = np.array([-0.5, 1.0, -0.7])


def schema_of(rows):
    numbers = [NumberColumn(name=name, lower=-1, upper=1) for name in ("u", "v")]
    return Schema(columns=(*numbers, BinaryColumn(name="y", categories=("0", "1"))), rows=rows)


def people(rows, rng):
    u, v = rng.uniform(-1, 1, (2, rows))
    chance = 1.0 / (1.0 + np.exp(-(TRUTH @ np.vstack((np.ones(rows), u, v)))))
    return {"u": u, "v": v, "y": np.where(rng.random(rows) < chance, "1", "0")}


def job(multiplier, formula="y ~ u + v", sampler=None, **privacy):
    privacy = privacy or {"noise_multiplier": multiplier}
    return JobSpec(
        model=ModelSpec(family="logistic", formula=formula),
        sampler=sampler or DpViOptions(),
        privacy=PrivacySpec(delta=1e-6, **privacy),
    )


def fitted(schema, data, multiplier, seed, **options):
    model = ModelSpec(family="logistic", formula="y ~ u + v")
    sampler = DpViOptions(num_steps=2000, num_chains=1, **options)
    told = {"schema": schema, "model": model, "delta": 1e-6, "noise_multiplier": multiplier}
    return sample(data, **told, sampler=sampler, random=Seeded(seed), accept_low_quality=True)


def released(runs, multiplier, rows=4000):
    """Fits of the same rows with fresh noise: [Variational]."""
    schema, data = schema_of(rows), people(rows, np.random.default_rng(1))
    spec, design = plan(schema, job(multiplier)).spec, make_design(schema, "y ~ u + v")
    opened = dp_vi.opened(design, spec, table_of(schema, data))
    source, found = Seeded(2), []
    for _ in range(runs):
        again = Opened(opened.target, opened.precision, opened.start.copy())
        normal = dp_vi.publish(again, 2.0, spec.sampler, multiplier, source)
        found.append((normal.mean, normal.release))
    return found


def scattered(found):
    """Mean square of what modes vary by over the noise alone, over what the releases say."""
    means = np.array([mean for mean, _ in found])
    told = []
    for _, release in found:
        back = release.root @ np.linalg.inv(release.slope)
        told.append(back @ release.noise @ back.T)
    apart = (means - means.mean(axis=0)) @ np.linalg.inv(
        np.linalg.cholesky(np.mean(told, axis=0))
    ).T
    return float((apart**2).sum()) / ((len(means) - 1) * means.shape[1])


@compiled
def test_the_noise_that_a_posterior_accounts_for_is_what_there_is():
    """200 fits of three parameters: a mean square of 1 has a standard error of 0.058."""
    assert scattered(released(200, 2.0)) == pytest.approx(1.0, abs=0.2)


@compiled
def test_noise_that_is_too_small_is_seen(monkeypatch):
    """With four fifths of it the mean square is about 0.64: six standard errors below 1."""
    noisy, noise = sums.noisy_sums, sums.gaussian_noise
    monkeypatch.setattr(sums, "noisy_sums", lambda s, d, z, n: noisy(s, d, 0.8 * z, n))
    monkeypatch.setattr(sums, "gaussian_noise", lambda r, s, z, n: noise(r, s, 0.8 * z, n))
    assert scattered(released(200, 2.0)) < 0.8


def gradients_apart(multiplier, runs=4000):
    """How far apart the laws of one gradient are, of the two worst neighbours, in sds."""
    schema = schema_of(2)
    spec, design = plan(schema, job(1.0)).spec, make_design(schema, "y ~ u + v")
    found, source = [], Seeded(4)
    for word in ("0", "1"):
        data = {"u": np.array([0.0, 1.0]), "v": np.zeros(2), "y": np.array(["0", word])}
        opened = dp_vi.opened(design, spec, table_of(schema, data))
        fit = dp_vi._Fit(opened, spec.sampler, source)
        fit._back, _ = fit._target.use_coordinates(None)
        fit._root = np.eye(3)
        place = np.zeros((1, 3))
        found.append([fit._released(place, 0.3, multiplier)[0] for _ in range(runs)])
    shift = np.linalg.norm(np.mean(found[1], axis=0) - np.mean(found[0], axis=0))
    return shift / math.sqrt(np.mean(np.var(found, axis=1)))


def test_neighbours_are_as_far_apart_as_a_gradient_is_charged_for():
    """Opposite gradients, both cut: mu = 4 apart. Rounding and the shift have an error of 1 %."""
    assert gradients_apart(0.25) == pytest.approx(4.0, rel=0.04)


@compiled
def test_intervals_hold_the_truth():
    """30 fits of three parameters at mu = 1/4; of 90 intervals of 90 %, 73 or fewer: 1 in 400."""
    rng, held = np.random.default_rng(5), 0
    for seed in range(30):
        result = fitted(schema_of(5000), people(5000, rng), 2.0, seed)
        low, high = np.quantile(result.draws[0], (0.05, 0.95), axis=0)
        held += int(((low < TRUTH) & (high > TRUTH)).sum())
    assert held > 73


@pytest.mark.compiled("thousands of gradients")
def test_without_noise_it_is_the_posterior():
    """Within a tenth of its sds of the fit by Newton steps, and as wide."""
    rows = 20_000
    data = people(rows, np.random.default_rng(6))
    x, y = np.vstack((np.ones(rows), data["u"], data["v"])), (data["y"] == "1") * 1.0
    theta = np.zeros(3)
    for _ in range(20):
        mean = 1.0 / (1.0 + np.exp(-theta @ x))
        precision = (x * mean * (1.0 - mean)) @ x.T + np.eye(3) / 2.5**2
        theta = theta + np.linalg.solve(precision, x @ (y - mean) - theta / 2.5**2)
    sds = np.sqrt(np.diag(np.linalg.inv(precision)))
    result = fitted(schema_of(rows), data, 1e-4, 7)
    posterior = result.release.posterior(None, 20_000, random=Seeded(8))
    assert np.abs((posterior.draws.mean(axis=0) - theta) / sds).max() < 0.1
    assert posterior.draws.std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.05)
    assert result.verdict.status == "reliable"


def test_a_budget_that_finds_nothing_is_called_unreliable():
    assert not plan(schema_of(300), job(20.0)).usable
    assert plan(schema_of(5000), job(2.0)).usable
    result = fitted(schema_of(300), people(300, np.random.default_rng(9)), 20.0, 10)
    assert result.verdict.status == "unreliable"


def look(place, score, slope, sd=1e-3):
    noise = 0.5 * np.eye(2)
    return Look(place, np.eye(2), np.array(score), noise, slope * np.eye(2), sd)


def test_looks_that_disagree_are_called_unreliable():
    near = look(np.zeros(2), [2.0, 0.0], 100.0)
    agree = pooled(near, look(np.array([0.02, 0.0]), [0.0, 0.0], 100.0), 100.0)
    apart = pooled(near, look(np.array([0.02, 0.0]), [60.0, 0.0], 100.0), 100.0)
    assert judge(agree, None).reliable
    assert not judge(apart, None).reliable


def test_a_stored_release_is_read_again_as_it_was():
    near = look(np.zeros(2), [2.0, 0.0], 100.0)
    found = pooled(near, near, 100.0)
    again = Variational.from_dict(found.to_dict())
    prior = np.zeros(2), np.full(2, 4.0)
    assert (
        again.posterior(*prior, Seeded(1)).mean == found.posterior(*prior, Seeded(1)).mean
    ).all()


def test_a_posterior_knows_the_noise_of_the_score():
    """Slope a, score noise c, prior l: precision a^2 / (a + c) + l."""
    nothing, one = np.zeros(1), np.eye(1)
    told = Variational(nothing, one, nothing, 25.0 * one, 100.0 * one, 0.0, 1.0, 0.0)
    found = told.posterior(np.zeros(1), np.full(1, 4.0), Seeded(1))
    assert found.root[0, 0] ** -2 == pytest.approx(100.0**2 / 125.0 + 4.0)


def test_the_planner_does_not_choose_it_by_itself():
    for epsilon in (0.5, 4.0, 40.0):
        made = plan(schema_of(20_000), job(None, sampler=AutoOptions(), epsilon=epsilon))
        assert made.spec.sampler.algorithm != "dp_vi"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_far", 1),
        ("num_far", 21),
        ("num_directions", 2),
        ("gradient_clip", 0.0),
        ("gradient_clip", 3.9),
    ],
)
def test_impossible_options_are_refused_where_they_stand(option, value):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(100), job(1.0, sampler=DpViOptions(**{option: value})))
    assert caught.value.pointer == f"/sampler/{option}"


def test_directions_that_are_not_charged_are_not_looked_along():
    schema, rng = schema_of(50), np.random.default_rng(1)
    spec, design = plan(schema, job(1.0)).spec, make_design(schema, "y ~ u + v")
    opened = dp_vi.opened(design, spec, table_of(schema, people(50, rng)))
    with pytest.raises(ValueError, match="charged"):
        dp_vi.publish(opened, 2.0, DpViOptions(num_directions=1), 1.0, Seeded(1))


@compiled
@pytest.mark.parametrize("epsilon", [4.0, 10.0])
def test_a_fit_of_rare_events_is_not_reliable(epsilon):
    """With a clip that no gradient reaches: fits were up to 15 of their own sds off."""
    rng, rows = np.random.default_rng(8), 20_000
    names = ("a", "b", "c", "d")
    covariates = rng.uniform(-1.0, 1.0, (4, rows))
    chance = 1.0 / (1.0 + np.exp(4.6 - np.array([0.7, -0.7, 0.4, 0.0]) @ covariates))
    data = dict(zip(names, covariates, strict=True))
    data["y"] = np.where(rng.random(rows) < chance, "1", "0")
    numbers = [NumberColumn(name=name, lower=-1, upper=1) for name in names]
    fit = sample(
        data,
        schema=Schema(columns=(*numbers, BinaryColumn(name="y", categories=("0", "1"))), rows=rows),
        model=ModelSpec(family="logistic", formula="y ~ a + b + c + d"),
        epsilon=epsilon,
        delta=1e-6,
        sampler=DpViOptions(gradient_clip=8.0),
        random=Seeded(9),
        accept_low_quality=True,
    )
    assert fit.verdict.status != "reliable"


def test_a_slope_of_few_events_is_judged():
    nothing, unit = np.zeros(2), np.eye(2)
    fit = Variational(nothing, unit, nothing, 0.01 * unit, 100.0 * unit, 0.01, 100.0, 0.0, 1.0)
    assert judge(replace(fit, mean_slope=0.09), None).reliable
    rare = judge(replace(fit, mean_slope=0.07), None)
    assert not rare.reliable
    assert "rare" in rare.sentence


def test_looks_that_noise_made_the_same_are_still_put_together():
    """Where noise is so large that sums with it are singular, after the release was paid for."""
    whole = np.full((2, 2), 1e17)
    assert np.allclose(whole @ dp_vi._solved(whole, np.full(2, 4e17)), 4e17)
    assert np.allclose(dp_vi._solved(np.diag([2.0, 4.0]), np.ones(2)), [0.5, 0.25])


def test_a_fit_whose_rows_may_be_clipped_is_not_reliable():
    """Whose longest gradient is known by declared bounds."""
    nothing, one = np.zeros(2), np.eye(2)
    fit = Variational(nothing, one, nothing, 0.01 * one, 100.0 * one, 0.01, 100.0, 0.0, 1.0)
    assert judge(fit, None).reliable
    clipped = judge(replace(fit, longest=3.5), None)
    assert not clipped.reliable
    assert "clipped" in clipped.sentence
    assert Variational.from_dict(replace(fit, longest=3.5).to_dict()).longest == 3.5
