"""A call whose plan is not usable is refused before it pays, unless that is accepted."""

import numpy as np
import pytest

from dpmcmc import (
    Budget,
    JobSpec,
    LowQualityError,
    Mean,
    ModelSpec,
    NormalPrior,
    PrivacySpec,
    Schema,
    SpecError,
    describe,
    plan,
    release_in_two_stages,
    release_statistic,
    sample,
    synthesise,
)
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.queries.statistics.populations import NormalMean
from tests.sources import Seeded


def people(rows):
    rng = np.random.default_rng(1)
    data = {"x": rng.uniform(0, 10, rows), "y": np.where(rng.random(rows) < 0.3, "no", "yes")}
    return data, Schema.from_frame(data, {"x": (0, 10), "y": ("no", "yes")})


DATA, SCHEMA = people(200)
HOPELESS = {
    "a release": {"epsilon": 0.1},
    "a chain": {"epsilon": 1.0, "sampler": DpPenaltyOptions(num_steps=30, num_chains=1)},
    "a name": {"epsilon": 0.3, "sampler": "dp_penalty"},
    "loud noise": {"noise_multiplier": 500.0, "sampler": "noisy_quadratic"},
    "a model": {"epsilon": 0.1, "model": ModelSpec(family="logistic", formula="y ~ x")},
    "another family": {"epsilon": 0.02, "formula": "x ~ y"},
}


def asked(which):
    given = {"formula": "y ~ x", "data": DATA, "schema": SCHEMA, "random": Seeded(1)}
    given |= {"formula": None} if "model" in HOPELESS[which] else {}
    return given | HOPELESS[which]


@pytest.mark.parametrize("which", HOPELESS)
def test_a_plan_that_is_not_usable_is_refused_before_the_budget_is_touched(which):
    budget = Budget(100.0, 1e-6)
    for refuse in ({}, {"accept_low_quality": False}, {"accept_low_quality": np.False_}):
        with pytest.raises(LowQualityError) as found:
            sample(**asked(which), budget=budget, **refuse)
    assert (budget.calls, budget.spent) == (0, 0.0)
    assert "accept_low_quality=True" in str(found.value)
    assert "Nothing was charged" in str(found.value)
    assert isinstance(found.value, SpecError)
    assert found.value.pointer == "/privacy/epsilon"


@pytest.mark.parametrize("which", ["a release", "a chain"])
def test_it_is_taken_where_that_is_asked_for(which):
    budget = Budget(100.0, 1e-6)
    fit = sample(**asked(which), budget=budget, accept_low_quality=True)
    assert not fit.plan.usable
    assert budget.calls == 1


def test_the_epsilon_that_is_named_does():
    with pytest.raises(LowQualityError) as found:
        sample(**asked("a release"))
    enough = found.value.usable_at
    assert f"At epsilon {enough:.3g} it would do" in str(found.value)
    model = ModelSpec(family="logistic", formula="y ~ x")
    delta = 1e-6
    for factor, usable in ((1.0, True), (0.95, False)):
        job = JobSpec(model=model, privacy=PrivacySpec(epsilon=factor * enough, delta=delta))
        assert plan(SCHEMA, job).usable is usable


def test_no_epsilon_helps_a_chain_of_a_few_steps():
    with pytest.raises(LowQualityError, match="effective draws; 400 are wanted") as found:
        sample(**asked("a chain"))
    assert found.value.usable_at is None


def test_what_is_wrong_with_the_data_is_told_first():
    with pytest.raises(ValueError, match="no column 'y'"):
        sample(**asked("a release") | {"data": {"x": DATA["x"]}})


@pytest.mark.parametrize("value", [1, 0, None, "yes", "False", [], np.array([True, False])])
def test_the_word_is_true_or_false(value):
    budget = Budget(100.0, 1e-6)
    with pytest.raises(SpecError, match="must be True or False"):
        sample(**asked("a release"), budget=budget, accept_low_quality=value)
    assert budget.calls == 0


def test_a_whitening_that_is_used_again_counts_in_what_is_expected():
    data, schema = people(4000)
    first = sample("y ~ x", data, schema, epsilon=4.0, prior=NormalPrior(), random=Seeded(1))
    budget = Budget(1.0, 1e-6)
    given = {"epsilon": 0.01, "prior": NormalPrior(), "budget": budget}
    with pytest.raises(LowQualityError):
        sample("y ~ x", data, schema, whitening=first.release, **given)
    assert budget.calls == 0


def test_tasks_are_taken_as_the_service_takes_them():
    """Their plans promise nothing; the verdict of a result tells what noise hides."""
    told = {"data": DATA, "schema": SCHEMA, "epsilon": 0.1}
    found = [
        describe(statistics=[Mean("x")], **told).verdict,
        release_statistic(column="x", **told | {"epsilon": 0.05}).verdict,
        release_in_two_stages(
            column="x",
            population=NormalMean(sd=3.0),
            first_rows=100,
            thetas=(4.0, 5.0),
            powers=(1.0,),
            **told | {"epsilon": 0.05},
        ).verdict,
    ]
    assert [one.status for one in found] == ["unreliable"] * 3


def test_synthetic_tables_of_few_rows_are_refused_unless_that_is_accepted():
    data, schema = people(20)
    budget = Budget(100.0, 1e-6)
    told = {"data": data, "schema": schema, "tables": 4, "budget": budget, "random": Seeded(3)}
    with pytest.raises(LowQualityError, match="noise alone moves") as found:
        synthesise(epsilon=1.0, **told)
    with pytest.raises(SpecError, match="must be True or False"):
        synthesise(epsilon=1.0, accept_low_quality=1, **told)
    assert (budget.calls, budget.spent) == (0, 0.0)
    enough = found.value.usable_at
    assert f"At epsilon {enough:.3g} it would do" in str(found.value)
    with pytest.raises(LowQualityError):
        synthesise(epsilon=0.97 * enough, **told)
    assert budget.calls == 0
    synthesise(epsilon=1.01 * enough, **told | {"budget": None})
    made = synthesise(epsilon=1.0, accept_low_quality=True, **told)
    assert (made.plan.usable, made.reliable, budget.calls) == (False, False, 1)
    assert "or ask at epsilon" in made.verdict.sentence
