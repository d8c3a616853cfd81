"""Mistakes of a new user: one line each, which says what would be right, and no row's value."""

import numpy as np
import pytest

import dpmcmc
from dpmcmc import (
    BinaryColumn,
    Budget,
    CategoryColumn,
    CoefficientPrior,
    Counts,
    Mean,
    ModelSpec,
    NormalPrior,
    Schema,
    SpecError,
    describe,
    load,
    plan,
    release_statistic,
    sample,
)
from dpmcmc.fit import local
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.options import DpHmcOptions, DpPenaltyOptions, Proposal

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
DAYS = np.datetime64("2020-01-01") + np.arange(ROWS)
FORMULA = "cured ~ dose"


def fit(formula=FORMULA, data=DATA, schema=SCHEMA, epsilon=1, **given):
    return sample(formula, data, schema, epsilon=epsilon, **given, accept_low_quality=True)


def free():
    return fit(epsilon=9).release


def declared(**bounds):
    return Schema.from_frame(DATA, bounds=bounds)


def coded(**codes):
    return Schema.from_frame(DATA, bounds=BOUNDS, missing=codes)


MISTAKES = {
    "a family that is none": (lambda: fit(family="kernel"), "one of logistic, linear"),
    "a family with a typo": (lambda: fit(family="logistik"), "did you mean 'logistic'"),
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
        lambda: fit("dose ~ smokes", family="logistic"),
        "binary column as its response, or a number with bounds (0, 1)",
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
    "a formula without a tilde": (lambda: fit("cured dose"), "only one ~"),
    "an open bracket": (lambda: fit("cured ~ (dose"), "cannot be parsed"),
    "a logarithm of 0": (lambda: fit("cured ~ log(dose)"), "must be above 0"),
    "no formula": (lambda: fit(""), 'such as "y ~ age + sex"'),
    "no response": (lambda: fit("~ dose"), "y ~ x has one"),
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
    "a path to save to": (lambda: fit(epsilon=9).save(None), "path of a file"),
    "a family in a list": (lambda: fit(family=["logistic"]), "did you mean 'logistic'"),
    "arguments swapped": (lambda: sample(DATA, FORMULA, SCHEMA, epsilon=1), "before the data"),
    "a formula as a list": (lambda: fit(["cured", "dose"]), "before the data"),
    "a function with a typo": (lambda: fit("cured ~ lgo(dose)"), "did you mean 'log'"),
    "a basis with a typo": (lambda: fit("cured ~ ply(dose, 2)"), "did you mean 'poly'"),
    "a typo in a function": (lambda: fit("cured ~ exp(does)"), "did you mean 'dose'"),
    "contrasts": (lambda: fit("cured ~ C(ward, Sum)"), "there are no other contrasts"),
    "two dots": (lambda: fit("cured ~ . ."), "response ~ covariate"),
    "slopes by group": (lambda: fit("cured ~ (dose|ward)"), "write dose + (dose | ward)"),
    "True for epsilon": (lambda: fit(epsilon=True), "/privacy/epsilon"),
    "a class for options": (lambda: fit(sampler=DpHmcOptions), "must be options"),
    "a word for a start": (lambda: fit(sampler=DpHmcOptions(start="far")), "must be Start(...)"),
    "a word for a number": (lambda: fit(sampler=DpHmcOptions(step_size="1")), "must be a number"),
    "a word for a proposal": (
        lambda: fit(sampler=DpPenaltyOptions(proposal="full")),
        "must be Proposal(...)",
    ),
    "a shape with a typo": (
        lambda: fit(sampler=DpPenaltyOptions(proposal=Proposal(shape="nromal"))),
        "did you mean 'normal'",
    ),
    "a word for a scale": (lambda: fit(prior=NormalPrior(scale="1")), "/prior/scale: must be a"),
    "a prior by a number": (lambda: fit(prior={1: NormalPrior()}), "there are Intercept, dose"),
    "a prior as in a job": (lambda: fit(prior={"kind": "normal"}), "NormalPrior(scale=1)"),
    "a prior with a typo": (
        lambda: fit(prior={"dsoe": NormalPrior()}),
        "did you mean 'dose'",
    ),
    "a laplace prior": (
        lambda: fit(prior={"dose": CoefficientPrior(kind="laplace", scale=1)}),
        "fit.release.posterior",
    ),
    "a number for a budget": (lambda: fit(budget=3), "must be a Budget"),
    "True for a budget": (lambda: Budget(True, 1e-6), "must be a number"),
    "a budget of a smaller delta": (
        lambda: fit(budget=Budget(1, 1e-9), delta=1e-6),
        "costs epsilon 1.318 at delta 1e-09",
    ),
    "a budget without a failure share": (
        lambda: release_statistic(
            DATA,
            "dose",
            schema=SCHEMA,
            epsilon=0.1,
            delta=1e-7,
            form="median",
            noise="smooth_laplace",
            budget=Budget(1, 1e-6),
        ),
        "failure_share",
    ),
    "a word for a model": (lambda: sample(DATA, schema=SCHEMA, model="x", epsilon=1), "ModelSpec"),
    "a model and a formula": (
        lambda: fit(model=ModelSpec(family="logistic", formula="cured ~ dose")),
        "leave those out",
    ),
    "a fit for a whitening": (lambda: fit(whitening=fit(epsilon=9)), "whitening=fit.release"),
    "a seed": (lambda: fit(random=3), "leave it out"),
    "a word among numbers": (
        lambda: fit(data=DATA | {"dose": ["much", *DATA["dose"][1:]]}),
        "no numbers",
    ),
    "dates": (lambda: fit(data=DATA | {"dose": DAYS}), "days since a date"),
    "complex numbers": (lambda: fit(data=DATA | {"dose": DATA["dose"] + 1j}), "complex"),
    "lists in a column": (lambda: fit(data=DATA | {"dose": [[1]] * ROWS}), "one dimension"),
    "a column of two axes": (
        lambda: fit(data=DATA | {"dose": np.ones((ROWS, 2))}),
        "one dimension",
    ),
    "one number for a column": (lambda: fit(data=DATA | {"dose": 1}), "must be a list"),
    "a mask": (
        lambda: fit(data=DATA | {"dose": np.ma.masked_greater(DATA["dose"], 9)}),
        "missing={'dose': [code]}",
    ),
    "no category": (
        lambda: fit("cured ~ ward", data=DATA | {"ward": [None, *DATA["ward"][1:]]}),
        "declare that name",
    ),
    "a list for bounds of columns": (lambda: Schema.from_frame(DATA, [("dose", 1)]), "dictionary"),
    "no bounds at all": (lambda: Schema.from_frame(DATA, None), "dictionary"),
    "a number and a word": (lambda: declared(dose=(0, "10")), "numbers and words"),
    "a dictionary for bounds": (lambda: declared(dose={"lower": 0, "upper": 9}), "in order"),
    "a set of categories": (lambda: declared(ward={"a", "b"}), "in order"),
    "None as a category": (lambda: declared(ward=("a", None)), "words, numbers or truth values"),
    "a code that is no list": (lambda: coded(dose=-9), "a list, such as [-9]"),
    "a code that is a word": (lambda: coded(dose=["none"]), "finite numbers"),
    "a code that is no number": (lambda: coded(dose=[float("nan")]), "finite numbers"),
    "a code of categories": (lambda: coded(ward=[-9]), "as one of them"),
    "a code of what has no bounds": (
        lambda: Schema.from_frame(DATA, {"dose": (0, 10)}, missing={"smokes": [-9]}),
        "no bounds",
    ),
    "rows of a word": (lambda: Schema(columns=SCHEMA.columns, rows="400"), "whole number"),
    "fewer rows than none": (lambda: Schema(columns=SCHEMA.columns, rows=-1), "0 or more"),
    "a column twice": (lambda: Schema(columns=SCHEMA.columns[:1] * 2, rows=1), "declared twice"),
    "a column that is none": (lambda: Schema(columns=({},), rows=1), "Schema.from_frame"),
    "a relation that is none": (
        lambda: Schema(columns=SCHEMA.columns, rows=1, neighbouring="add"),
        "replace_one",
    ),
    "settings that are no list": (lambda: fit(epsilon=9).predict(None), "[{'age': 50}]"),
    "a figure of one name": (lambda: fit(epsilon=9).plot(parameters="dose"), "must be a list"),
    "a figure of nothing": (lambda: fit(epsilon=9).plot(parameters=[]), "must be a list"),
    "a figure with a typo": (lambda: fit(epsilon=9).plot("forrest"), "did you mean 'forest'"),
    "a list of figures": (lambda: fit(epsilon=9).plot(["forest"]), "one of forest"),
    "a prior for all": (lambda: free().posterior(NormalPrior()), "by parameter"),
    "a kind with a typo": (
        lambda: free().posterior({"dose": CoefficientPrior(kind="nromal", scale=1)}),
        "did you mean 'normal'",
    ),
    "a word for a prior's scale": (
        lambda: free().posterior({"dose": CoefficientPrior(kind="normal", scale="1")}),
        "/prior/dose/scale: must be a number",
    ),
    "a contrast of one name": (lambda: free().posterior().contrast("dose"), "with its number"),
    "a null in a list": (lambda: free().posterior().bayes_factor(["dose"]), "with its number"),
    "a parameter with a typo": (
        lambda: free().posterior().contrast({"dsoe": 1}),
        "did you mean 'dose'",
    ),
    "no statistic": (
        lambda: describe(DATA, ["mean"], schema=SCHEMA, epsilon=1, delta=1e-6),
        "Mean(column=",
    ),
    "a statistic without a schema": (
        lambda: describe(DATA, [Mean(column="dose")], schema=None, epsilon=1, delta=1e-6),
        "Schema.from_frame",
    ),
    "a word for a statistic's epsilon": (
        lambda: release_statistic(DATA, "dose", schema=SCHEMA, epsilon="1", delta=1e-6),
        "/privacy/epsilon: must be a number",
    ),
    "a plan of words": (lambda: plan(SCHEMA, "job"), "plan(schema, job)"),
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


def test_a_category_may_be_asked_about_as_a_number():
    fitted = fit("dose ~ smokes", schema=declared(dose=(0, 10), smokes=("0", "1")), epsilon=9)
    assert [one.expected.mean for one in fitted.predict([{"smokes": 1}, {"smokes": np.int64(0)}])]


def test_a_name_of_the_package_with_a_typo_is_told():
    with pytest.raises(AttributeError, match="did you mean 'sample'"):
        dpmcmc.sampel  # noqa: B018 - what is tested
    assert {"sample", "Schema", "load"} <= set(dir(dpmcmc))  # a notebook completes them


def test_doubles_that_stand_for_several_whole_numbers_are_no_category():
    """2^53 + 1 as a double is 2^53: rows of one category became rows of another."""
    first = 2**53
    numbers = [first, first + 1, first + 2] * 2
    for data in (np.array(numbers), numbers, [str(number) for number in numbers]):
        schema = Schema.from_frame({"g": data}, {"g": tuple(numbers[:3])})
        assert table_of(schema, {"g": data}).columns["g"].tolist() == [0, 1, 2, 0, 1, 2]
    doubles = {"g": np.array(numbers, np.float64)}
    with pytest.raises(ValueError, match="outside its categories"):
        table_of(Schema.from_frame(doubles, {"g": tuple(numbers[:3])}), doubles)


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "True"), ("1", "x")])
def test_arrays_of_words_have_the_codes_of_lists_of_them(words):
    """Whether they are written as declared, which is compared at once, or not."""
    columns = BinaryColumn(name="c", categories=words), CategoryColumn(name="c", categories=words)
    given = np.array(words)[np.random.default_rng(1).integers(2, size=50)]
    for column in columns:
        expected = [words.index(word) for word in given]
        found = local._codes(column, given)
        assert found.dtype == local._codes(column, given.tolist()).dtype == np.int32
        assert found.tolist() == local._codes(column, given.tolist()).tolist() == expected
        wrong = np.append(given, "never declared")
        for values in (wrong, wrong.tolist()):
            with pytest.raises(ValueError, match="outside its categories"):
                local._codes(column, values)
