"""Linear regression from released sums: every method, under the job's prior and under others."""

import json
import math
import typing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import dpmcmc
from dpmcmc import ModelOptions, ModelSpec, NormalPrior, NumberColumn, Schema, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import SufficientStatisticsOptions, SumsMethod
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.events import Gaussian, Parallel
from dpmcmc.releases import sufficient_statistics
from dpmcmc.releases.regression.mixtures import METHODS, inverse_gamma
from dpmcmc.releases.sufficient_statistics import Sums
from tests.sources import Seeded

TRUTH, SIGMA, ROWS = np.array([0.3, 1.0, -0.7]), 0.5, 4000
NAMES = ("Intercept", "a", "b", "log_sigma")


def schema_of(rows=ROWS, missing=(), holders=()):
    numbers = [NumberColumn(name=name, lower=-1, upper=1) for name in ("a", "b")]
    y = NumberColumn(name="y", lower=-4, upper=4, missing=missing)
    return Schema(columns=(*numbers, y), rows=rows, holders=holders)


def people(rng, rows=ROWS):
    a, b = rng.uniform(-1, 1, (2, rows))
    y = TRUTH @ np.vstack((np.ones(rows), a, b)) + SIGMA * rng.standard_normal(rows)
    return {"a": a, "b": b, "y": y}


def fitted(method, data, epsilon, seed=1, formula="y ~ a + b", num_steps=1000, holders=(), **told):
    """A fit; where there are holders, of the sums of each."""
    options = SufficientStatisticsOptions(
        method=method, num_steps=num_steps, num_holders=len(holders) or None
    )
    return sample(
        data,
        schema=schema_of(len(data["y"]), holders=holders),
        model=ModelSpec(family="linear", formula=formula, **told),
        epsilon=epsilon,
        delta=1e-6,
        sampler=options,
        random=Seeded(seed),
        accept_low_quality=True,
    )


def least_squares(data, *names):
    """Estimate and sds of the coefficients, and the residual scale, without privacy."""
    x = np.column_stack([np.ones(len(data["y"])) if n == "Intercept" else data[n] for n in names])
    back = np.linalg.inv(x.T @ x)
    theta = back @ x.T @ data["y"]
    sigma = (data["y"] - x @ theta).std()
    return theta, sigma * np.sqrt(np.diag(back)), sigma


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_every_method_finds_the_posterior(method):
    data = people(np.random.default_rng(1))
    theta, sds, sigma = least_squares(data, *NAMES[:3])
    told = fitted(method, data, 1e6).summary(mixing=False)
    assert [one.name for one in told] == list(NAMES)
    assert [one.mean for one in told[:3]] == pytest.approx(theta, abs=0.15 * sds.min())
    assert [one.sd for one in told[:3]] == pytest.approx(sds, rel=0.1)
    assert told[3].mean == pytest.approx(math.log(sigma), abs=0.004)
    assert told[3].sd == pytest.approx((2 * ROWS) ** -0.5, rel=0.15)


@pytest.mark.parametrize("method", METHODS)
def test_a_known_scale_and_no_intercept_are_known(method):
    rng = np.random.default_rng(2)
    data = people(rng)
    data["y"] -= TRUTH[0]
    theta, *_ = least_squares(data, "a", "b")
    told = fitted(
        method, data, 1e6, formula="y ~ 0 + a + b", options=ModelOptions(noise_scale=SIGMA)
    ).summary(mixing=False)
    x = np.column_stack((data["a"], data["b"]))
    sds = SIGMA * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))
    assert [one.name for one in told] == ["a", "b"]
    assert [one.mean for one in told] == pytest.approx(theta, abs=0.15 * sds.min())
    assert [one.sd for one in told] == pytest.approx(sds, rel=0.1)


@pytest.mark.slow
@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.parametrize("method", [m for m in METHODS if m != "mcmc_fixeds"])
def test_intervals_that_are_called_reliable_hold_the_truth(method):
    """At epsilon 1, where noise is half of the width: 60 intervals of nine tenths."""
    held, total = 0, 0
    for seed in range(20):
        data = people(np.random.default_rng(seed), 20_000)
        fit = fitted(method, data, 1.0, seed)
        if fit.verdict.status != "reliable":
            continue
        for one, truth in zip(fit.summary(mixing=False)[:3], TRUTH, strict=True):
            held, total = held + (one.q05 < truth < one.q95), total + 1
    assert total >= 30
    assert held >= 0.78 * total  # 3 standard errors below .9


@pytest.mark.slow
@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.parametrize("method", METHODS)
def test_sums_of_several_holders_lead_to_the_posterior_of_all_rows(method):
    """Without noise; and at epsilon 2 with theirs, which adds up: 45 intervals of nine tenths."""
    data, holders = people(np.random.default_rng(11)), (2500, 1200, 300)
    theta, sds, _ = least_squares(data, *NAMES[:3])
    told = fitted(method, data, 1e6, holders=holders).summary(mixing=False)
    assert [one.mean for one in told[:3]] == pytest.approx(theta, abs=0.2 * sds.min())
    assert [one.sd for one in told[:3]] == pytest.approx(sds, rel=0.12)
    held, total, wider = 0, 0, []
    for seed in range(15):
        data = people(np.random.default_rng(seed), 20_000)
        fit = fitted(method, data, 2.0, seed, holders=(12_000, 5000, 3000))
        if seed < 5:  # a ratio of sds is nearly the same each time
            whole = fitted(method, data, 2.0, seed)
            assert fit.plan.cost == whole.plan.cost
            wider.append(fit.summary(mixing=False)[1].sd / whole.summary(mixing=False)[1].sd)
        if fit.verdict.status == "reliable":
            for one, truth in zip(fit.summary(mixing=False)[:3], TRUTH, strict=True):
                held, total = held + (one.q05 < truth < one.q95), total + 1
    if method == "mcmc_fixeds":  # whose verdict says that X'X is not exact
        return
    assert np.median(wider) > 1.1
    assert total >= 30
    assert held >= 0.75 * total  # 3 standard errors below .9


def test_holders_are_those_that_were_declared():
    with pytest.raises(ValueError, match="add up"):
        schema_of(holders=(1000, 1000))
    spec = replace(job(None), sampler=SufficientStatisticsOptions(num_holders=3))
    with pytest.raises(SpecError, match="one data holder"):
        plan(schema_of(), spec)
    with pytest.raises(SpecError, match="or 2, the dataset's"):
        plan(schema_of(holders=(3000, 1000)), spec)
    planned = plan(schema_of(holders=(3000, 500, 500)), spec)
    assert isinstance(planned.event, Parallel)
    assert len(planned.event.events) == 3
    assert isinstance(plan(schema_of(holders=(3000, 1000)), job(None)).event, Gaussian)


def test_rows_of_other_holders_than_were_paid_for_are_not_released():
    design = make_design(schema_of(), "y ~ a + b")
    spec = replace(job(None), sampler=SufficientStatisticsOptions(num_holders=1))
    data = people(np.random.default_rng(12))
    rows = sufficient_statistics.opened(design, spec, Table(data, ROWS))
    options = SufficientStatisticsOptions(num_holders=2)
    with pytest.raises(ValueError, match="another number of data holders"):
        sufficient_statistics.publish(rows, 2.0, options, 1.0, Seeded(1))


def test_what_is_stored_answers_another_prior_by_the_same_method():
    schema, data = schema_of(), people(np.random.default_rng(3))
    for method in METHODS:
        fit = fitted(method, data, 20.0)
        kept = json.loads(json.dumps(fit.release.to_dict(), allow_nan=False))
        again = StoredRelease.read(schema, fit.plan.spec, kept)
        assert again.verdict == fit.verdict
        own = again.posterior(num_draws=4000, random=Seeded(5))
        draws = own.draws[:, 1]
        assert draws.mean() == pytest.approx(fit.summary(mixing=False)[1].mean, abs=0.01)
        if method == "adassp":  # it has no prior
            continue
        tight = {"a": NormalPrior(loc=0.0, scale=1e-3)}
        pulled = again.posterior(tight, num_draws=4000, random=Seeded(6)).draws[:, 1]
        assert abs(pulled.mean()) < 0.05 < draws.mean()


def test_noise_that_hides_the_columns_is_told():
    data = people(np.random.default_rng(4), 60)
    for method in METHODS:
        fit = fitted(method, data, 0.1)
        assert fit.verdict.status == "unreliable"
        assert np.isfinite(fit.draws).all()


def test_x_that_is_taken_to_be_exact_is_told():
    data = people(np.random.default_rng(5), 20_000)
    fit = fitted("mcmc_fixeds", data, 1.0)
    assert "takes X'X to be exact" in fit.verdict.sentence


def job(schema, formula="y ~ a + b", **told):
    return JobSpec(
        model=ModelSpec(family="linear", formula=formula, **told),
        sampler=SufficientStatisticsOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )


def test_what_the_sums_do_not_know_is_refused_before_it_is_paid():
    with pytest.raises(SpecError, match="tempering"):
        plan(schema_of(), job(schema_of(), tempering=0.5))
    with pytest.raises(SpecError, match="missing codes"):
        plan(schema_of(missing=(-9.0,)), job(schema_of()))
    with pytest.raises(SpecError, match="offsets"):
        plan(schema_of(), job(schema_of(), formula="y ~ a + offset(b)"))
    options = SufficientStatisticsOptions(method="guess")
    spec = JobSpec(model=job(None).model, sampler=options, privacy=job(None).privacy)
    with pytest.raises(SpecError, match="bayes_fixeds_fast"):
        plan(schema_of(), spec)


def test_every_method_can_be_asked_for():
    assert set(METHODS) == set(typing.get_args(SumsMethod))


def test_the_prior_of_a_variance_is_matched_in_its_logarithm():
    for mean, sd in ((0.0, 3.0), (-2.0, 0.1), (5.0, 1e-3)):
        shape, scale = inverse_gamma(mean, sd)
        draws = scale / np.random.default_rng(7).gamma(shape, size=400_000)
        logs = np.log(np.maximum(draws, 1e-300))
        assert logs.mean() == pytest.approx(mean, abs=0.02 * sd + 1e-4)
        assert logs.std() == pytest.approx(sd, rel=0.02)


def test_sums_without_a_number_of_the_chains_are_json():
    """R-hat of chains that never moved is no number that JSON holds."""
    fit = fitted("mcmc_bs", people(np.random.default_rng(8)), 5.0)
    told = fit.release.to_dict()
    lost = Sums.from_dict({**told, "found": [told["found"][0], None]})
    assert lost.found[1] == math.inf
    assert lost.to_dict()["found"][1] is None


def with_known_scale(data, seed, epsilon=8.0, **options):
    """A fit of the sums of all rows, with the scale of residuals known."""
    return sample(
        data,
        schema=schema_of(len(data["y"])),
        model=ModelSpec(
            family="linear", formula="y ~ a + b", options=ModelOptions(noise_scale=SIGMA)
        ),
        epsilon=epsilon,
        delta=1e-6,
        sampler=SufficientStatisticsOptions(**options),
        accept_low_quality=True,
        random=Seeded(seed),
    )


def test_averages_of_rows_lead_to_a_wider_posterior_that_holds_the_truth():
    data = people(np.random.default_rng(5), rows=20_000)
    single = with_known_scale(data, 1).summary(mixing=False)
    fits = [with_known_scale(data, seed, group=4) for seed in range(20)]
    tables = [fit.summary(mixing=False) for fit in fits]
    held = [
        abs(row.mean - truth) < 1.96 * row.sd
        for table in tables
        for row, truth in zip(table, TRUTH, strict=True)
    ]
    assert np.mean(held) >= 0.85
    wider = np.median([table[k].sd / single[k].sd for table in tables for k in (1, 2)])
    assert 2.0 < wider < 6.0  # two for the information of averages, and the larger sensitivity
    assert fits[0].plan.expected_width > 2.0
    assert fits[0].release.posterior().draws.shape[1] == 3
    kept = StoredRelease.read(
        fits[0].design.schema, fits[0].plan.spec, json.loads(json.dumps(fits[0].release.to_dict()))
    )
    assert kept.verdict == fits[0].verdict


@pytest.mark.parametrize(
    ("options", "scale", "message"),
    [
        ({"group": 3}, SIGMA, "divide the rows"),
        ({"group": 0}, SIGMA, "divide the rows"),
        ({"group": 4}, None, "noise_scale"),
        ({"group": 4, "method": "mcmc_bs"}, SIGMA, "methods"),
        ({"group": 4, "method": "mcmc_normalx"}, SIGMA, "methods"),
        ({"covariance_scale": 1.0}, None, "models no covariates"),
        ({"covariance_scale": 0.0, "method": "mcmc_normalx"}, None, "must lie between"),
        ({"covariance_degrees": -1.0, "method": "mcmc_bs"}, None, "must lie between"),
    ],
)
def test_options_that_do_not_suit_the_method_are_refused(options, scale, message):
    model = ModelSpec(family="linear", formula="y ~ a + b", options=ModelOptions(noise_scale=scale))
    privacy = PrivacySpec(delta=1e-6, epsilon=1.0)
    spec = JobSpec(model=model, sampler=SufficientStatisticsOptions(**options), privacy=privacy)
    with pytest.raises(SpecError, match=message):
        plan(schema_of(4000), spec)


def test_the_prior_of_the_covariates_is_the_one_that_is_given():
    """Where noise hides X'X, a prior that is sure of wide covariates makes slopes' sds small."""
    data = people(np.random.default_rng(6))
    options = {"method": "mcmc_normalx", "covariance_degrees": 1e5}
    narrow, wide = (
        with_known_scale(data, 2, 0.05, **options, covariance_scale=scale).summary(mixing=False)
        for scale in (1e4, 1e6)
    )
    assert narrow[1].sd > 1.5 * wide[1].sd


def parts_of(data, bounds):
    """Fits of the rows of several holders, each with noise of its own."""
    fits = []
    for seed, (first, last) in enumerate(pairwise(bounds)):
        own = {name: column[first:last] for name, column in data.items()}
        model = ModelSpec(family="linear", formula="y ~ a + b")
        options = SufficientStatisticsOptions(num_steps=500)
        fits.append(
            sample(
                own,
                schema=schema_of(last - first),
                model=model,
                noise_multiplier=0.5,
                delta=1e-6,
                sampler=options,
                random=Seeded(seed),
            )
        )
    return fits


def test_sums_that_holders_noised_themselves_are_combined(tmp_path):
    data = people(np.random.default_rng(7))
    theta, sds, _ = least_squares(data, *NAMES[:3])
    fits = parts_of(data, (0, 1000, 2500, ROWS))
    for k, fit in enumerate(fits):
        fit.save(tmp_path / f"{k}.zip")
    whole = dpmcmc.combine([dpmcmc.load(tmp_path / f"{k}.zip").release for k in range(3)])
    assert whole.design.schema.holders == (1000, 1500, 1500)
    assert whole.verdict.status == "reliable"
    table = whole.posterior().summary()
    assert [table[name].mean for name in NAMES[:3]] == pytest.approx(theta, abs=4 * sds.max())
    alone = fits[0].release.posterior().summary()
    assert all(table[name].sd < alone[name].sd for name in NAMES)


def test_rows_that_are_in_two_releases_are_not_counted_twice():
    """The sums of a holder are told apart by their noise, also in a release of several."""
    first, second, third = (
        fit.release for fit in parts_of(people(np.random.default_rng(9)), (0, 1000, 2500, ROWS))
    )
    both = dpmcmc.combine([first, second])
    assert dpmcmc.combine([both, third]).design.schema.holders == (1000, 1500, 1500)
    again = StoredRelease.read(
        first.design.schema, first.spec, json.loads(json.dumps(first.to_dict()))
    )
    for parts in ([first, first], [first, third, again], [both, second], [both, both]):
        with pytest.raises(SpecError, match="the same sums are in two of the releases"):
            dpmcmc.combine(parts)


def test_other_bounds_are_told_as_such():
    """Priors follow from bounds: the models differ as well, and nobody has changed them."""
    data = people(np.random.default_rng(9))
    first = parts_of(data, (0, ROWS))[0].release
    wide = Schema.from_frame(data, {"a": (-1, 1), "b": (-1, 1), "y": (-9, 9)})
    model, options = ModelSpec(family="linear", formula="y ~ a + b"), SufficientStatisticsOptions()
    second = sample(
        data, schema=wide, model=model, epsilon=8.0, sampler=options, random=Seeded(1)
    ).release
    with pytest.raises(SpecError, match="different columns or bounds"):
        dpmcmc.combine([first, second])


def test_releases_that_do_not_belong_together_are_not_combined():
    data = people(np.random.default_rng(8))
    first, second = parts_of(data, (0, 2000, ROWS))
    other = with_known_scale(data, 1)
    loud = fitted("bayes_fixeds_fast", data, 1.0)
    for parts, message in (
        ([first.release, other.release], "different models"),
        ([first.release, loud.release], "noise of different size"),
        ([first, second], "list of releases"),
        ([], "list of releases"),
        (first.release, "list of releases"),
    ):
        with pytest.raises(SpecError, match=message):
            dpmcmc.combine(parts)
