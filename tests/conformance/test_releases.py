"""What every registered release must hold. A release gets these tests by being registered."""

import dataclasses
import math
import typing
from fractions import Fraction

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, PermitError, Private
from dpmcmc.families import MODELS
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import run
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.planner import event, plan
from dpmcmc.privacy.accountant import gdp_mu2
from dpmcmc.privacy.event_json import as_dict, digest, from_dict
from dpmcmc.privacy.events import Gaussian
from dpmcmc.privacy.pld import leaves
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS, OPTIONS
from tests.cases import EXAMPLES, people, schema_of
from tests.proofs import proof_of

CASES = [
    pytest.param(name, family, id=f"{name}-{family}")
    for name, release in RELEASES.items()
    for family in sorted(release.families)
]


def job(name, family, privacy=None, **numbers):
    return JobSpec(
        model=EXAMPLES[family],
        sampler=RELEASES[name].options(**numbers),
        privacy=PrivacySpec(delta=1e-6, **(privacy or {"epsilon": 1.0})),
    )


class Counting:
    """Counts the integers that noise is made of."""

    def __init__(self):
        self.rng, self.integers_drawn = np.random.default_rng(1), 0

    def normals(self, shape):
        return self.rng.standard_normal(shape)

    def uniforms(self, shape):
        return 1.0 - self.rng.random(shape)

    def integers(self, high, shape):
        self.integers_drawn += math.prod(shape)
        return self.rng.integers(high, size=shape)


def ran(schema, made, source=None):
    permit = Permit(subject="d", event_digest=digest(made.event))
    rows = Private(table_of(schema, people(schema.rows)), subject="d")
    blocks = [b.value for b in run(schema, made.spec, rows, permit, random=source)]
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("name", RELEASES)
def test_it_is_told_from_samplers_by_its_name_and_has_a_proof(name):
    options = RELEASES[name].options
    assert RELEASES[name].name == name == options().algorithm
    assert options in typing.get_args(OPTIONS)
    assert options.__dataclass_params__.frozen
    assert name not in SAMPLERS
    assert ALGORITHMS[name] is RELEASES[name]
    assert RELEASES[name].families <= set(MODELS)
    assert "replace one row" in proof_of(name).lower()


@pytest.mark.parametrize(("name", "family"), CASES)
def test_its_event_is_in_the_vocabulary_and_costs_what_it_says(name, family):
    made = plan(schema_of(500), job(name, family, {"noise_multiplier": 4.0}))
    assert from_dict(as_dict(made.event)) == made.event
    assert set(map(type, leaves(made.event))) == {Gaussian}
    assert made.cost.mu == pytest.approx(0.25, rel=1e-9)
    assert made.cost.mu <= 0.25 * (1 + 1e-12)


PARTS = {  # options with which a job consists of several releases
    "noisy_mean": [{"shares": (1.0,)}, {"shares": (0.3, 0.7)}, {"shares": (0.01, 0.2, 0.79)}],
    "noisy_quadratic": [
        {"num_far": number, "whitening": name} for number in (3, 7, 12) for name in (None, "a job")
    ],
    "dp_vi": [{"num_far": far, "num_directions": d} for far in (2, 8, 20) for d in (1, 3, 7)],
    "sufficient_statistics": [{"num_holders": 1}, {"num_holders": 3}],
}
ROUNDED_UP = ("noisy_mean",)  # whose parts are not paid for their rounding: 2^-50 of the cost


@pytest.mark.parametrize("name", RELEASES)
def test_all_parts_together_cost_what_one_release_of_the_multiplier_does(name):
    """And not a rounding more: a budget that is asked for holds all of them."""
    release = RELEASES[name]
    for given in PARTS.get(name, [{}]):
        for z in np.geomspace(1e-3, 1e5, 60):
            square = gdp_mu2(release.event(release.options(**given), float(z), 500))
            part = square * Fraction(float(z)) ** 2
            assert 1.0 - 2e-9 < part <= 1.0 + 2.0**-50
            assert name in ROUNDED_UP or part <= 1 + Fraction(1, 2**150)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_the_cost_is_within_the_epsilon_asked_for_whatever_the_draws(name, family):
    costs = set()
    for steps in (5, 4000):
        made = plan(schema_of(500), job(name, family, {"epsilon": 1.5}, num_steps=steps))
        assert 1.5 * (1 - 1e-9) < made.cost.epsilon <= 1.5
        costs.add(made.cost.epsilon)
    assert len(costs) == 1


@pytest.mark.parametrize(("name", "family"), CASES)
def test_a_plan_of_a_plan_is_the_same_plan(name, family):
    schema = schema_of(500)
    made = plan(schema, job(name, family))
    assert plan(schema, made.spec).spec == made.spec
    assert event(schema, made.spec) == made.event


@pytest.mark.parametrize(("name", "family"), CASES)
def test_a_planned_job_runs_and_gives_what_the_plan_says(name, family):
    schema = schema_of(300)
    made = plan(schema, job(name, family, num_steps=130, num_chains=3))
    draws = ran(schema, made)
    assert draws.shape == (3, 130, len(made.parameters))
    assert np.isfinite(draws).all()
    assert made.expected_ess == 390


@pytest.mark.parametrize(("name", "family"), CASES)
def test_nothing_is_opened_for_another_event(name, family):
    schema = schema_of(300)
    made = plan(schema, job(name, family))
    permit = Permit(subject="d", event_digest=digest(Gaussian(1e6)))
    rows = Private(table_of(schema, people(300)), subject="d")
    with pytest.raises(PermitError):
        list(run(schema, made.spec, rows, permit))


@pytest.mark.parametrize(("name", "family"), CASES)
def test_every_number_that_leaves_carries_noise_of_its_own(name, family):
    """At least one integer for each charged release and coordinate; none for the draws."""
    schema = schema_of(300)
    drawn = []
    for steps in (3, 2000):
        source = Counting()
        made = plan(schema, job(name, family, num_steps=steps))
        ran(schema, made, source)
        drawn.append(source.integers_drawn)
    assert min(drawn) >= len(made.parameters) * sum(leaves(made.event).values())


@pytest.mark.parametrize(("name", "family"), CASES)
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("epsilon", [1e-4, 1e9])
def test_any_size_and_budget_gives_finite_draws(name, family, rows, epsilon):
    schema = schema_of(rows)
    made = plan(schema, job(name, family, {"epsilon": epsilon}))
    assert math.isfinite(made.expected_ess)
    assert np.isfinite(ran(schema, made)).all()


@pytest.mark.parametrize("name", RELEASES)
def test_other_families_are_refused_at_the_algorithm(name):
    for family in set(MODELS) - RELEASES[name].families:
        with pytest.raises(SpecError) as caught:
            plan(schema_of(300), job(name, family))
        assert caught.value.pointer == "/sampler/algorithm"
        resolved = dataclasses.replace(
            job(name, family, {"noise_multiplier": 1.0}, num_steps=5, num_chains=1)
        )
        with pytest.raises(SpecError):
            event(schema_of(300), resolved)


@pytest.mark.parametrize(("shares", "least"), [((1.0,), 0.93), ((0.3, 0.7), 0.5)])
def test_the_worst_neighbours_are_as_far_apart_as_was_paid_for(shares, least):
    """One row of two at each end of the clip: their two laws are mu apart, and no more.

    Both means and four sds are estimated: 5 % is 5 standard errors. Noise that is a tenth too
    small would put the two laws a ninth further apart.
    """
    columns = tuple(NumberColumn(name=name, lower=-6, upper=6) for name in "uv")
    schema, mu, runs = Schema(columns=columns, rows=2), 8.0, 1500
    release = RELEASES["noisy_mean"]
    model = ModelSpec(
        family="gaussian_mean", formula="~ u + v", options=ModelOptions(variances=(1.0, 1.0))
    )
    options = release.options(shares=shares, clip_bounds=(8.5,) * len(shares))
    privacy = PrivacySpec(delta=1e-6, noise_multiplier=1.0 / mu)
    spec = plan(schema, JobSpec(model=model, sampler=options, privacy=privacy)).spec
    design, source = make_design(schema, "~ u + v"), Counting()
    found = []
    for end in (-6.0, 6.0):
        table = table_of(schema, {"u": [0.0, end], "v": [0.0, end]})
        target = MODELS["gaussian_mean"].target(design, spec, table, 1)
        found.append(
            [release.publish(target, 8.4, spec.sampler, 1.0 / mu, source).mean for _ in range(runs)]
        )
    shift = np.linalg.norm(np.mean(found[1], axis=0) - np.mean(found[0], axis=0))
    apart = shift / np.sqrt(np.mean(np.var(found, axis=1)))
    assert least * mu < apart < 1.05 * mu
