"""A response of 0 and 1 that is declared as a number: linear says so, and logistic takes it."""

import dataclasses
import warnings

import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpmcmc import Budget, Schema, sample
from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import Evaluation
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import BinaryColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases.noisy_quadratic import opened

ROWS = 20_000
RANDOM = np.random.default_rng(1)
X = RANDOM.uniform(0, 10, ROWS)
Y = RANDOM.random(ROWS) < 1 / (1 + np.exp(1 - 0.25 * X))
BOUNDS = {"x": (0, 10), "y": (0, 1)}
RESPONSES = {
    "whole numbers": Y.astype(int),
    "fractions": Y.astype(np.float32),
    "truth values": Y,
    "pandas": pandas.Series(Y, dtype="boolean"),
    "pandas numbers": pandas.Series(Y, dtype="Int8"),
    "Arrow": pa.array(Y),
    "a list": Y.tolist(),
}
SCHEMA = Schema.from_frame({"x": X, "y": Y}, bounds=BOUNDS)


@pytest.mark.parametrize("y", RESPONSES.values(), ids=RESPONSES)
def test_logistic_takes_a_number_that_is_0_or_1(y):
    data = {"x": X, "y": y}
    schema = Schema.from_frame(data, bounds=BOUNDS)
    fit = sample("y ~ x", data, schema, family="logistic", epsilon=4, progress=False)
    intercept, slope = fit.summary(mixing=False)
    assert abs(intercept.mean + 1) < 4 * intercept.sd
    assert abs(slope.mean - 0.25) < 4 * slope.sd
    assert slope.sd < 0.02


def test_without_a_family_linear_says_so_and_names_logistic():
    data = {"x": X, "y": Y}
    with pytest.warns(UserWarning, match=r"response y is a number.*fitted as linear.*logistic"):
        fit = sample("y ~ x", data, SCHEMA, epsilon=1, progress=False)
    assert fit.plan.spec.model.family == "linear"
    assert "family logistic takes it" in fit.plan.warnings[0]
    with warnings.catch_warnings(action="error"):
        asked = sample("y ~ x", data, SCHEMA, family="linear", epsilon=1, progress=False)
    assert "family logistic takes it" in asked.plan.warnings[0]


@pytest.mark.parametrize(("lower", "upper"), [(0, 2), (-1, 1), (0, 0.5)])
def test_other_bounds_are_not_taken_for_a_yes_or_no(lower, upper):
    schema = Schema.from_frame({"x": X, "y": Y}, bounds=BOUNDS | {"y": (lower, upper)})
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    linear = plan(
        schema, JobSpec(model=ModelSpec(family="linear", formula="y ~ x"), privacy=privacy)
    )
    assert "logistic" not in " ".join(linear.warnings)
    with pytest.raises(ValueError, match=r"number with bounds \(0, 1\): declare 'y' so"):
        plan(schema, JobSpec(model=ModelSpec(family="logistic", formula="y ~ x"), privacy=privacy))


def test_a_share_is_refused_before_the_budget_is_touched():
    share, budget = {"x": X, "y": np.where(Y, 0.7, 0.1)}, Budget(epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match=r"'y' has values between 0 and 1.*family='linear'"):
        sample("y ~ x", share, SCHEMA, family="logistic", epsilon=1, budget=budget)
    assert budget.remaining == pytest.approx(1)


def test_a_missing_code_beside_0_and_1_is_left_out():
    y = np.where(np.arange(ROWS) % 3 == 0, -9, Y)
    schema = Schema.from_frame({"x": X, "y": y}, bounds=BOUNDS, missing={"y": [-9]})
    fit = sample("y ~ x", {"x": X, "y": y}, schema, family="logistic", epsilon=4, progress=False)
    slope = fit.summary(mixing=False)[1]
    assert abs(slope.mean - 0.25) < 4 * slope.sd


def test_rows_between_0_and_1_are_read_as_0_or_1_everywhere():
    """A service cannot refuse them: its errors do not depend on rows."""
    columns = SCHEMA.columns[0], BinaryColumn(name="y", categories=("0", "1"))
    words = dataclasses.replace(SCHEMA, columns=columns)
    model = ModelSpec(family="logistic", formula="y ~ x", prior=NormalPrior(scale=2.5))
    spec = JobSpec(
        model=model,
        sampler=DpPenaltyOptions(num_steps=10, num_chains=1),
        privacy=PrivacySpec(noise_multiplier=5.0, delta=1e-6),
    )
    share = table_of(SCHEMA, {"x": X, "y": np.where(Y, 0.5, 0.499)})
    told = table_of(words, {"x": X, "y": Y.astype(int)})
    design, form = make_design(SCHEMA, "y ~ x"), MODELS["logistic"].form
    own = form(design, spec).rows(share)
    assert np.array_equal(own[0], form(make_design(words, "y ~ x"), spec).rows(told)[0])
    family = opened(design, spec, share).family
    place = Evaluation(np.zeros((1, 2)), np.ones(2), np.zeros(2), np.inf, np.inf, 1.0, 1.0)
    halves, whole = (family.terms(np.array(y), place).psi for y in ((0.5, 0.499), (1.0, 0.0)))
    assert np.array_equal(halves, whole)
    assert "a half or more count as 1" in " ".join(plan(SCHEMA, spec).warnings)
