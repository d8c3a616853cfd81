"""Coefficients are in the units of the columns, as a fit on the columns themselves has them."""

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    ModelSpec,
    NormalPrior,
    NumberColumn,
    Schema,
    sample,
)
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.posterior.summary_table import rounded
from dpmcmc.posterior.units import in_units, matrix

ROWS = 4000
FORMULAS = [
    "age",
    "0 + age",
    "age*group + `body mass`",
    "0 + group",
    "0 + group + age",
    "group/age",
    "age:group",
    "age:`body mass`",
    "age + age:`body mass`",
    "(age + `body mass` + group)**3",
    "group*kind*age",
    "0 + group:kind:age",
    "group:kind",
    "age/(group + kind)",
    "I(age**2) + age",
    "poly(age, 3, raw=True)",
    "log(age)*group",
    "I(age / `body mass`)",
]


def schema_of(rows=ROWS):
    return Schema(
        columns=(
            NumberColumn(name="age", lower=20, upper=90),
            NumberColumn(name="body mass", lower=10, upper=60),
            CategoryColumn(name="group", categories=("a", "b", "c")),
            CategoryColumn(name="kind", categories=("x", "y")),
            NumberColumn(name="wage", lower=-3000, upper=6000),
            NumberColumn(name="visits", lower=0, upper=60),
            BinaryColumn(name="ill", categories=("no", "yes")),
        ),
        rows=rows,
    )


def people(rows=ROWS, seed=5):
    rng = np.random.default_rng(seed)
    age, mass = rng.uniform(25, 85, rows), rng.normal(27, 4, rows).clip(10, 60)
    group, kind = rng.choice(list("abc"), rows), rng.choice(list("xy"), rows)
    eta = 0.03 * (age - 50) + 0.4 * (group == "b") - 0.02 * (age - 50) * (group == "c")
    return {
        "age": age,
        "body mass": mass,
        "group": group,
        "kind": kind,
        "wage": (1200 + 900 * eta + 20 * mass + rng.normal(0, 300, rows)).clip(-3000, 6000),
        "visits": rng.poisson(np.exp(0.5 + eta)).clip(0, 60),
        "ill": np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no"),
    }


def raw_columns(parameters, data):
    """What the names say, on the columns as they are."""
    words = {"age": data["age"], "body mass": data["body mass"], "Intercept": np.ones(ROWS)}
    words |= {f"{c}[{w}]": data[c] == w for c in ("group", "kind") for w in set(data[c])}
    words |= {f"I(age ** {k})": data["age"] ** k for k in (2, 3)}
    words |= {"I(age)": data["age"], "log(age)": np.log(data["age"])}
    words |= {"I(age / `body mass`)": data["age"] / data["body mass"]}
    return np.stack(
        [np.prod([words[f] * 1.0 for f in name.split(":")], axis=0) for name in parameters]
    )


@pytest.mark.parametrize("formula", FORMULAS)
def test_both_scales_have_the_same_predictors(formula):
    data = people()
    design = make_design(schema_of(), f"wage ~ {formula}")
    x, _ = design.build(table_of(schema_of(), data))
    theta = np.random.default_rng(1).normal(size=(7, len(design.parameters)))
    own = in_units(design, design.parameters, theta) @ raw_columns(design.parameters, data)
    assert np.allclose(own, theta @ x, rtol=1e-10, atol=1e-10)
    every = matrix(design, design.parameters)
    assert np.linalg.matrix_rank(every / np.abs(every).max(axis=1, keepdims=True)) == len(every)
    assert np.linalg.matrix_rank(x) == len(design.parameters)


@pytest.mark.parametrize(
    ("formula", "spanned"), [("group/age", 6), ("age:`body mass`", 2), ("0 + group + age", 4)]
)
def test_columns_say_what_those_of_the_formula_say(formula, spanned):
    """Centring adds nothing that the formula does not hold: both together have the same rank."""
    data = people()
    design = make_design(schema_of(), f"wage ~ {formula}")
    x, _ = design.build(table_of(schema_of(), data))
    raw = raw_columns(design.parameters, data)
    both = np.concatenate((x, raw / np.abs(raw).max(axis=1, keepdims=True)))
    assert np.linalg.matrix_rank(both, tol=1e-8 * np.linalg.norm(both, 2)) == spanned


def fitted(formula, family, response, seed, **how):
    result = sample(
        people(),
        schema=schema_of(),
        model=ModelSpec(family=family, formula=f"{response} ~ {formula}", **how),
        epsilon=1e6,
        delta=1e-6,
        sampler="noisy_quadratic",
        random=seed,
    )
    raw = raw_columns([n for n in result.plan.parameters if n != "log_sigma"], people())
    return result, raw


@pytest.mark.parametrize("formula", ["age*group + `body mass`", "group/age", "0 + age + kind"])
def test_a_linear_model_is_that_of_least_squares_on_the_columns(formula, seeded):
    result, raw = fitted(formula, "linear", "wage", seeded(3), prior=NormalPrior(scale=1e6))
    y = people()["wage"]
    free = np.linalg.lstsq(raw.T, y, rcond=None)[0]
    left = y - free @ raw
    sds = np.sqrt(np.diag(np.linalg.inv(raw @ raw.T)) * (left @ left) / (ROWS - len(free)))
    told = result.summary()
    assert [one.name for one in told] == list(result.plan.parameters)
    for one, value, sd in zip(told, free, sds, strict=False):
        assert one.mean == pytest.approx(value, abs=0.25 * sd)
        assert one.sd == pytest.approx(sd, rel=0.15)
    sigma = np.log(np.sqrt(left @ left / ROWS))
    assert told[-1].name == "log_sigma"
    assert told[-1].mean == pytest.approx(sigma, abs=0.05)
    assert result.summary("design")[-1].mean == told[-1].mean


@pytest.mark.parametrize(
    ("family", "response", "formula"),
    [("logistic", "ill", "age*group"), ("poisson", "visits", "age + age:group + `body mass`")],
)
def test_other_families_are_those_fitted_on_the_columns(family, response, formula, seeded):
    result, raw = fitted(formula, family, response, seeded(4), prior=NormalPrior(scale=1e4))
    data = people()
    y = (data["ill"] == "yes") * 1.0 if family == "logistic" else data["visits"]
    sizes = np.abs(raw).max(axis=1)
    x, theta = raw / sizes[:, None], np.zeros(len(raw))
    for _ in range(50):
        eta = theta @ x
        mean = 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)
        weight = mean * (1 - mean) if family == "logistic" else mean
        information = (weight * x) @ x.T
        step = np.linalg.solve(information, x @ (y - mean))
        theta += step * min(1.0, 2.0 / np.abs(step @ x).max())
    sds = np.sqrt(np.diag(np.linalg.inv(information)))
    for one, value, sd, size in zip(result.summary(), theta, sds, sizes, strict=True):
        assert one.mean == pytest.approx(value / size, abs=0.3 * sd / size)
        assert one.sd == pytest.approx(sd / size, rel=0.15)
    one = result.summary()[1]
    assert rounded(one.mean, one.sd) in repr(result)


def test_blocks_of_classes_and_what_follows_them_are_mapped_each_by_itself():
    design = make_design(schema_of(), "wage ~ age")
    names = ("low:Intercept", "low:age", "high:Intercept", "high:age", "log_sigma")
    told = in_units(design, names, np.array([[1.0, 35.0, 0.0, 70.0, 9.0]]))
    assert told.tolist() == [[1.0 - 55.0, 1.0, -110.0, 2.0, 9.0]]
    alone = make_design(schema_of(), "wage ~ 0 + age")
    assert in_units(alone, ("age", "log_sigma"), np.array([[90.0, 9.0]])).tolist() == [[1.0, 9.0]]


def test_a_model_of_means_is_in_the_units_of_its_columns_already():
    design = make_design(schema_of(), "~ age + wage")
    assert matrix(design, design.parameters).tolist() == np.eye(2).tolist()


@pytest.mark.parametrize(
    ("low", "high"), [(1e12, 1e12 + 1.0), (-1e30, 1e30), (0.0, 1e-12), (-1e12, -1e12 + 1e-3)]
)
def test_bounds_far_out_and_close_together_give_finite_coefficients(low, high):
    schema = Schema(
        columns=(
            NumberColumn(name="x", lower=low, upper=high),
            NumberColumn(name="z", lower=low, upper=high),
            NumberColumn(name="y", lower=0, upper=1),
        ),
        rows=2,
    )
    design = make_design(schema, "y ~ x*z")
    every = matrix(design, design.parameters)
    assert np.isfinite(every).all()
    assert (np.diag(every) > 0).all()
    x, _ = design.build(table_of(schema, {"x": [low, high], "z": [high, low], "y": [0, 1]}))
    assert x.tolist() == [[1, 1], [-1, 1], [1, -1], [-1, -1]]


def test_bounds_whose_units_no_number_holds_are_refused():
    columns = tuple(NumberColumn(name=name, lower=0, upper=1e-300) for name in "xz")
    schema = Schema(columns=(*columns, NumberColumn(name="y", lower=0, upper=1)), rows=2)
    with pytest.raises(SpecError, match="too narrow"):
        make_design(schema, "y ~ x*z")
