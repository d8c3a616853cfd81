"""Priors by default, for all coefficients and by name: public, planned, and what is sampled."""

import dataclasses
import math

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS, linear
from dpmcmc.fit.local import sample
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases.base import prior_of
from tests.sources import Seeded

FORMULAS = {
    "linear": "power ~ x + z",
    "logistic": "y ~ x + z",
    "poisson": "count ~ x + z",
    "gaussian_mean": "~ power + x",
}


def schema_of(rows=4000, unit=1.0):
    return Schema(
        columns=(
            NumberColumn(name="x", lower=-3.0, upper=5.0),
            NumberColumn(name="z", lower=0.0, upper=1.0),
            NumberColumn(name="power", lower=420.0 * unit, upper=500.0 * unit),
            NumberColumn(name="count", lower=0.0, upper=999.5),
            BinaryColumn(name="y", categories=("no", "yes")),
        ),
        rows=rows,
    )


def job(family, prior=None, epsilon=1.0, **options):
    return JobSpec(
        model=ModelSpec(
            family=family,
            formula=FORMULAS[family],
            prior=prior,
            options=ModelOptions(**options),
        ),
        privacy=PrivacySpec(delta=1e-6, epsilon=epsilon),
    )


def people(rows, unit=1.0, seed=1):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-3, 5, rows), rng.uniform(0, 1, rows)
    power = np.clip(455.0 - 2.0 * x + 3.0 * z + 4.0 * rng.standard_normal(rows), 420, 500)
    return {
        "x": x,
        "z": z,
        "power": unit * power,
        "count": np.zeros(rows),
        "y": np.full(rows, "no"),
    }


def both(loc, scale):
    return NormalPrior(loc=loc, scale=scale)


def test_what_is_left_open_follows_from_bounds_and_stands_in_the_plan():
    schema = schema_of()
    told = {family: plan(schema, job(family)).spec.model.prior for family in FORMULAS}
    assert told["logistic"] == NormalPrior(scale=2.5)
    assert told["linear"] == {
        "Intercept": both(460.0, 80.0),
        "x": both(0.0, 80.0),
        "z": both(0.0, 80.0),
        "log_sigma": both(math.log(10.0), 1.5),
    }
    middle = 0.5 * (math.log(0.5) + math.log(1000.0))
    assert told["poisson"]["Intercept"] == both(pytest.approx(middle), 2.5)
    assert told["poisson"]["x"] == both(0.0, 2.5)
    assert told["gaussian_mean"] == {"power": both(460.0, 80.0), "x": both(1.0, 8.0)}


@pytest.mark.parametrize("family", FORMULAS)
def test_a_planned_job_plans_to_itself(family):
    made = plan(schema_of(), job(family)).spec
    assert plan(schema_of(), made).spec == made


def test_one_prior_for_all_means_what_it_meant():
    """Around 0 in the response's own unit, and log sigma's is not touched."""
    spec = job("linear", NormalPrior(scale=7.0))
    assert plan(schema_of(), spec).spec.model.prior == NormalPrior(scale=7.0)
    form = MODELS["linear"].form(make_design(schema_of(), FORMULAS["linear"]), spec)
    assert form.prior_mean.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert form.prior_precision == pytest.approx([(10.0 / 7.0) ** 2] * 3 + [1.5**-2])


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "gaussian_mean"])
def test_a_named_prior_is_what_chains_and_releases_know(family):
    schema = schema_of()
    design = make_design(schema, FORMULAS[family])
    spec = plan(schema, job(family, {"x": both(0.5, 0.25)})).spec
    assert spec.model.prior["x"] == both(0.5, 0.25)
    form = MODELS[family].form(design, spec)
    means, precisions = prior_of(form, len(form.start))
    k = MODELS[family].parameters(design, spec.model).index("x")
    ends = np.tile(means, (2, 1))
    ends[1, k] += precisions[k] ** -0.5
    released = MODELS[family].release(design, spec, ends)
    assert released[0, k] == pytest.approx(0.5, abs=1e-6)
    assert released[1, k] - released[0, k] == pytest.approx(0.25, rel=1e-6)
    others = plan(schema, job(family)).spec.model
    if isinstance(others.prior, dict):
        left = {name: one for name, one in others.prior.items() if name != "x"}
        assert {name: spec.model.prior[name] for name in left} == left


def test_log_sigma_has_a_prior_by_name():
    found = sample(
        people(400),
        schema=schema_of(400),
        model=job("linear", {"log_sigma": both(math.log(9.0), 1e-3)}).model,
        delta=1e-6,
        epsilon=1.0,
        sampler="noisy_quadratic",
        accept_low_quality=True,
    )
    assert np.exp(found.draws[..., 3]).mean() == pytest.approx(9.0, rel=0.01)


@pytest.mark.compiled("thousands of gradients")
@pytest.mark.parametrize("algorithm", ["noisy_quadratic", "dp_hmc"])
def test_a_narrow_named_prior_decides(algorithm):
    found = sample(
        people(2000),
        schema=schema_of(2000),
        model=job("linear", {"x": both(5.0, 0.001)}).model,
        delta=1e-6,
        epsilon=8.0,
        sampler=algorithm,
        accept_low_quality=True,
    )
    kept = found.draws[:, found.plan.num_warmup :, 1]
    assert kept.mean() == pytest.approx(5.0, abs=0.05)


@pytest.mark.parametrize(
    ("pointer", "family", "prior"),
    [
        ("/model/prior/age", "linear", {"age": both(0.0, 1.0)}),
        ("/model/prior/log_sigma", "logistic", {"log_sigma": both(0.0, 1.0)}),
        ("/model/prior/a~1b", "poisson", {"a/b": both(0.0, 1.0)}),
        ("/model/prior/x/scale", "linear", {"x": both(0.0, 0.0)}),
        ("/model/prior/x/scale", "linear", {"x": both(0.0, math.nan)}),
        ("/model/prior/x/scale", "linear", {"x": both(0.0, 1e-9)}),
        ("/model/prior/x/scale", "linear", {"x": both(0.0, 1e12)}),
        ("/model/prior/x/loc", "linear", {"x": both(math.inf, 1.0)}),
        ("/model/prior/x/loc", "logistic", {"x": both(1e9, 1.0)}),
        ("/model/prior/loc", "logistic", both(math.nan, 1.0)),
        ("/model/prior/x", "logistic", {"x": 2.5}),
        ("/model/prior/x/scale", "logistic", {"x": both(0.0, "1")}),
        ("/model/prior", "logistic", 2.5),
    ],
)
def test_impossible_priors_name_their_field(pointer, family, prior):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(), job(family, prior))
    assert caught.value.pointer == pointer


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(SpecError) as caught:
        plan(schema_of(), job("linear", {"age": both(0.0, 1.0)}))
    assert "Intercept, x, z, log_sigma" in caught.value.message


def test_a_banana_has_one_prior():
    for prior, pointer in (
        ({"x": both(0.0, 1.0)}, "/model/prior"),
        (both(1.0, 1.0), "/model/prior/loc"),
    ):
        model = ModelSpec(family="banana", formula="~ x + z", prior=prior)
        with pytest.raises(SpecError) as caught:
            plan(schema_of(), dataclasses.replace(job("linear"), model=model))
        assert caught.value.pointer == pointer


def test_the_unit_of_a_response_changes_nothing_but_the_unit():
    """The same noise: draws of one are those of the other, times the unit."""
    draws = [
        sample(
            people(1000, unit),
            schema=schema_of(1000, unit),
            model=job("linear").model,
            delta=1e-6,
            epsilon=1.0,
            sampler="noisy_quadratic",
            random=Seeded(3),
            accept_low_quality=True,
        ).draws
        / np.array([unit, unit, unit, 1.0])
        for unit in (1.0, 1024.0)
    ]
    assert draws[1][..., :3] == pytest.approx(draws[0][..., :3], rel=1e-9)
    assert draws[1][..., 3] - math.log(1024.0) == pytest.approx(draws[0][..., 3], rel=1e-9)


def test_all_defaults_find_the_sign_of_a_slope():
    """An intercept of 455 far from 0, at epsilon 1: no run of twenty has the slope's sign wrong."""
    for seed in range(20):
        found = sample(
            people(9000, seed=seed),
            schema=schema_of(9000),
            model=job("linear").model,
            delta=1e-6,
            epsilon=1.0,
        )
        slope = found.draws[..., 1]
        assert slope.mean() < -5.0
        assert slope.std() < 1.0


def test_bounds_that_are_whole_numbers_leave_priors_as_they_are():
    """They made an array of whole numbers of the response's range, and priors in it were cut."""
    columns = NumberColumn(name="x", lower=-1, upper=1), NumberColumn(name="t", lower=-50, upper=50)
    design = make_design(Schema(columns=columns, rows=100), "t ~ x")
    sds = {"x": NormalPrior(scale=0.25)}
    told = linear.prior(design, ModelSpec(family="linear", formula="t ~ x", prior=sds))[1]
    assert told.tolist() == [100.0, 0.25, linear.SIGMA_PRIOR]
    assert isinstance(columns[1].lower, float)
