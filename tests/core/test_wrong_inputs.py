"""Mistakes of a new user: one line each, which says what would be right, and no row's value."""

import numpy as np
import pytest

from dpmcmc import (
    Budget,
    Counts,
    Mean,
    NormalPrior,
    Schema,
    SpecError,
    describe,
    load,
    release_statistic,
    sample,
)
from dpmcmc.options import DpHmcOptions

ROWS = 400
rng = np.random.default_rng(1)
DATA = {
    "dose": rng.uniform(0, 10, ROWS),
    "cured": rng.choice(["no", "yes"], ROWS),
    "ward": rng.choice(list("abc"), ROWS),
    "smokes": rng.integers(0, 2, ROWS),
}
BOUNDS = {"dose": (0, 10), "cured": ("no", "yes"), "ward": ("a", "b", "c"), "smokes": (0, 1)}
SCHEMA = Schema.from_frame(DATA, bounds=BOUNDS)
HOLES = DATA | {"dose": np.where(DATA["dose"] > 9.0, np.nan, DATA["dose"])}
SHORT = {name: values[:-1] for name, values in DATA.items()}
FORMULA = "cured ~ dose"


def fit(formula=FORMULA, data=DATA, schema=SCHEMA, epsilon=1, **given):
    return sample(formula, data, schema, epsilon=epsilon, **given)


def declared(**bounds):
    return Schema.from_frame(DATA, bounds=bounds)


MISTAKES = {
    "a family that is none": (lambda: fit(family="gaussian"), "one of logistic, linear"),
    "a family in capitals": (lambda: fit(family="Logistic"), "did you mean 'logistic'"),
    "a column with a typo": (lambda: fit("cured ~ does"), "did you mean 'dose'"),
    "a response with a typo": (lambda: fit("curd ~ dose"), "did you mean 'cured'"),
    "a sampler with a typo": (lambda: fit(sampler="dp_hcm"), "did you mean 'dp_hmc'"),
    "options as a mapping": (lambda: fit(sampler={"algorithm": "dp_hmc"}), "one of auto"),
    "an option out of range": (
        lambda: fit(sampler=DpHmcOptions(num_leapfrog=0)),
        "between 1 and 100",
    ),
    "epsilon 0": (lambda: fit(epsilon=0), "/privacy/epsilon: must be between"),
    "epsilon below 0": (lambda: fit(epsilon=-1), "/privacy/epsilon: must be between"),
    "epsilon as a word": (lambda: fit(epsilon="1"), "/privacy/epsilon: must be between"),
    "epsilon not a number": (lambda: fit(epsilon=float("nan")), "must be between"),
    "epsilon infinite": (lambda: fit(epsilon=float("inf")), "must be between"),
    "no epsilon": (lambda: fit(epsilon=None), "give one of epsilon and noise_multiplier"),
    "both": (lambda: fit(noise_multiplier=3), "give one of epsilon and noise_multiplier"),
    "delta 1": (lambda: fit(delta=1), "/privacy/delta: must be between"),
    "delta 0": (lambda: fit(delta=0), "/privacy/delta: must be between"),
    "delta as a word": (lambda: fit(delta="small"), "/privacy/delta: must be between"),
    "bounds swapped": (lambda: declared(dose=(10, 0)), "lower below upper"),
    "bounds of no column": (lambda: declared(does=(0, 10)), "did you mean 'dose'"),
    "one bound": (lambda: declared(dose=(0,)), "needs bounds"),
    "a number for bounds": (lambda: declared(dose=10), "needs bounds"),
    "a word for bounds": (lambda: declared(dose="0-10"), "needs bounds"),
    "infinite bounds": (lambda: declared(dose=(0, float("inf"))), "finite bounds"),
    "a category twice": (lambda: declared(ward=("a", "a", "b")), "same category twice"),
    "bounds missing": (
        lambda: fit(schema=declared(cured=("no", "yes"))),
        "has no column 'dose'",
    ),
    "a category that is not declared": (
        lambda: fit("cured ~ ward", schema=declared(cured=("no", "yes"), ward=("a", "b"))),
        "outside its categories",
    ),
    "numbers for a yes or no": (
        lambda: fit("smokes ~ dose", family="logistic"),
        'binary column as its response: ("0", "1")',
    ),
    "words for a number": (lambda: fit(family="linear"), "needs a number as its response"),
    "columns missing": (lambda: fit(data={"dose": DATA["dose"]}), "have no column 'cured'"),
    "holes": (lambda: fit(data=HOLES), "'dose' has values that are not finite"),
    "too few rows": (lambda: fit(data=SHORT), "must have 400 values"),
    "columns of two lengths": (
        lambda: Schema.from_frame(DATA | {"dose": [1.0]}, bounds=BOUNDS),
        "same number of values",
    ),
    "a formula that ends early": (lambda: fit("cured ~ dose +"), "cannot be parsed"),
    "a formula without a tilde": (lambda: fit("cured dose"), "no declared column"),
    "an open bracket": (lambda: fit("cured ~ (dose"), "cannot be parsed"),
    "a logarithm of 0": (lambda: fit("cured ~ log(dose)"), "must be above 0"),
    "no formula": (lambda: fit(""), 'such as "y ~ age + sex"'),
    "no response": (lambda: fit("~ dose"), "no declared column"),
    "a degree too high": (lambda: fit("cured ~ poly(dose, 100)"), "from 1 to 10"),
    "a prior of no parameter": (
        lambda: fit(prior={"does": NormalPrior(scale=1)}),
        "there are Intercept, dose",
    ),
    "a number for a prior": (lambda: fit(prior=2.5), "must be a normal prior"),
    "a scale below 0": (lambda: fit(prior=NormalPrior(scale=-1)), "/prior/scale"),
    "a number for one prior": (lambda: fit(prior={"dose": 2.5}), "/prior/dose"),
    "a path for data": (lambda: fit(data="rows.csv"), "a data frame or a mapping"),
    "a list for data": (lambda: fit(data=[1, 2]), "a data frame or a mapping"),
    "no data": (lambda: fit(data=None), "a data frame or a mapping"),
    "no schema": (lambda: fit(schema=None), "Schema.from_frame"),
    "bounds for a schema": (lambda: fit(schema=BOUNDS), "Schema.from_frame"),
    "a budget of a word": (lambda: Budget(epsilon="1", delta=1e-6), "must be a number"),
    "a budget's delta": (lambda: Budget(epsilon=1, delta=2), "below 1"),
    "too small a budget": (
        lambda: fit(epsilon=2, budget=Budget(epsilon=1, delta=1e-6)),
        "1 is left of the budget",
    ),
    "a covariate that is none": (lambda: fit(epsilon=9).predict([{"x": 1}]), "it has dose"),
    "a setting that is no list": (
        lambda: fit(epsilon=9).predict({"dose": 1}),
        "list of settings",
    ),
    "a value beyond its bounds": (lambda: fit(epsilon=9).predict([{"dose": 11}]), "10"),
    "a scale that is none": (lambda: fit(epsilon=9).summary("raw"), "original, design"),
    "a plot that is none": (lambda: fit(epsilon=9).plot("pie"), "one of forest"),
    "a statistic's noise": (
        lambda: release_statistic(DATA, "dose", schema=SCHEMA, epsilon=1, noise="normal"),
        "no such form or noise",
    ),
    "a statistic's column": (
        lambda: release_statistic(DATA, "does", schema=SCHEMA, epsilon=1, delta=1e-6),
        "no declared column",
    ),
    "one statistic for a list": (
        lambda: describe(DATA, Mean(column="dose"), schema=SCHEMA, epsilon=1, delta=1e-6),
        "must be a list",
    ),
    "counts of no column": (
        lambda: describe(DATA, [Counts(columns=("does",))], schema=SCHEMA, epsilon=1, delta=1e-6),
        "does",
    ),
    "a number for a file": (lambda: load(3), "path of a file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_would_be_right(name):
    call, told = MISTAKES[name]
    with pytest.raises((SpecError, ValueError, TypeError)) as found:
        call()
    message = str(found.value)
    assert told in message
    assert "\n" not in message


def test_categories_may_be_numbers_and_truth_values():
    """Of a column of 0 and 1, and of one of True and False."""
    data = DATA | {"high": DATA["dose"] > 5}
    bounds = {"dose": (0, 10), "smokes": ("0", "1"), "high": (False, True)}
    schema = Schema.from_frame(data, bounds=bounds)
    for response in ("smokes", "high"):
        assert fit(f"{response} ~ dose", data, schema, 5).plan.spec.model.family == "logistic"
