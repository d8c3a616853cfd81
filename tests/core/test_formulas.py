"""Formulas: arithmetic, bases, coding. Bounds are public and hold; nothing of the data enters."""

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.moments import second_moments
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.kernels.arithmetic.intervals.logistic import vector_interval
from dpmcmc.kernels.arithmetic.public import interval_of_move

RICH = [
    "age*group + `body mass`",
    "I(age**2) + I(age * `body mass`) + log(age)",
    "I((age - 50)**2 / `body mass`) + abs(loss) + I(loss**3)",
    "exp(loss) + sqrt(age) + log1p(`body mass`) + I(-loss + 2 * age)",
    "poly(age, 3)*group",
    "bs(age, df=6) + bs(loss, knots=(-0.5, 0.25), degree=2)",
    "cr(age, df=5):group",
    "bs(age, df=4):poly(loss, 2):group",
    "poly(loss, 3, raw=True) + age/(group + kind)",
    "(age + loss + group + kind)**3",
    "0 + bs(age, 5)*kind",
    "I(age**-1) + I(`body mass`**0.5)",
]


def schema_of(rows):
    return Schema(
        columns=(
            NumberColumn(name="age", lower=20, upper=80),
            NumberColumn(name="body mass", lower=10, upper=50),
            NumberColumn(name="loss", lower=-1, upper=2),
            CategoryColumn(name="group", categories=("a", "b", "c")),
            BinaryColumn(name="kind", categories=("x", "y")),
            NumberColumn(name="wage", lower=1, upper=100),
            BinaryColumn(name="ill", categories=("no", "yes")),
        ),
        rows=rows,
    )


def rows_of(rows, seed, *, wild=False):
    rng = np.random.default_rng(seed)
    spread = 3.0 if wild else 0.5
    columns = {
        name: middle + half * rng.uniform(-2 * spread, 2 * spread, rows)
        for name, middle, half in (("age", 50, 30), ("body mass", 30, 20), ("loss", 0.5, 1.5))
    }
    if wild:
        for values in columns.values():
            values[:4] = np.nan, np.inf, -np.inf, 1e300
    else:
        for name, (low, high) in {"age": (20, 80), "body mass": (10, 50), "loss": (-1, 2)}.items():
            columns[name][:2] = low, high
    columns["wage"] = rng.uniform(1, 100, rows)
    for name, count in (("group", 3), ("kind", 2), ("ill", 2)):
        columns[name] = rng.integers(0, count, rows).astype(np.int32)
    return columns


@pytest.mark.parametrize("formula", RICH)
@pytest.mark.parametrize("wild", [False, True])
def test_every_row_lies_within_its_public_bounds_and_norm(formula, wild):
    design = make_design(schema_of(3000), f"ill ~ {formula}")
    x, _ = design.build(Table(columns=rows_of(3000, 1, wild=wild), rows=3000))
    assert np.isfinite(x).all()
    assert (x >= np.array(design.lower)[:, None]).all()
    assert (x <= np.array(design.upper)[:, None]).all()
    assert np.sqrt((x**2).sum(axis=0)).max() <= design.max_norm * (1.0 + 1e-12)
    for number in set(design.group):
        same = [k for k, group in enumerate(design.group) if group == number]
        assert same == list(range(same[0], same[-1] + 1))
        assert ((x[same] != 0.0).sum(axis=0) <= 1).all()


@pytest.mark.parametrize("formula", RICH)
def test_rows_that_two_tables_share_have_the_same_design(formula):
    """Nothing of the other rows enters: no mean, no range and no quantile of the data."""
    few, many = rows_of(50, 2), rows_of(400, 3)
    joined = {name: np.concatenate((values, many[name])) for name, values in few.items()}
    narrow = {name: values[5:10] for name, values in few.items()}  # none at the bounds
    tables = [Table(columns=c, rows=len(c["age"])) for c in (few, joined, narrow)]
    design = make_design(schema_of(50), f"ill ~ {formula}")
    alone, among, part = (design.build(table)[0] for table in tables)
    assert np.array_equal(alone, among[:, :50])
    assert np.array_equal(alone[:, 5:10], part)


@pytest.mark.parametrize("formula", RICH)
@pytest.mark.parametrize("response", ["wage", "ill"])
def test_each_rows_ratio_lies_in_the_interval_that_a_chain_pays_for(formula, response):
    family = {"wage": "linear", "ill": "logistic"}[response]
    design = make_design(schema_of(500), f"{response} ~ {formula}")
    spec = JobSpec(
        model=ModelSpec(family=family, formula=f"{response} ~ {formula}"),
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(epsilon=1.0, delta=1e-6),
    )
    columns = rows_of(500, 9, wild=True)
    form = MODELS[family].form(design, spec)
    x, y = form.rows(Table(columns=columns, rows=500))
    rng = np.random.default_rng(4)
    for _ in range(5):
        here = rng.normal(0, 0.5, len(form.start))
        move = rng.normal(0, 0.3, len(form.start))
        weights, aux = form.describe(np.stack((here, here + move)))
        eta = weights @ x
        if family == "logistic":
            low, high = vector_interval(
                here, move, *(np.array(part) for part in (design.lower, design.upper)), design.group
            )
            values = -np.logaddexp(0.0, -eta)
        else:
            low, high = interval_of_move(form.public, here, move)
            values = aux[:, 1:2] * (y - eta) ** 2 + aux[:, 2:3]
        ratios = values[1] - values[0]
        slack = 1e-9 * max(abs(low), abs(high))
        assert low - slack <= ratios.min()
        assert ratios.max() <= high + slack


@pytest.mark.parametrize("formula", RICH)
def test_the_planner_knows_what_rows_are_like(formula):
    design = make_design(schema_of(1000), f"ill ~ {formula}")
    moments = second_moments(design)
    assert np.allclose(moments, moments.T)
    assert np.linalg.eigvalsh(moments).min() > -1e-9
    assert np.trace(moments) <= design.max_norm**2 * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "formula",
    [
        "age*group",
        "0 + group",
        "group/age",
        "age:group",
        "group:kind",
        "0 + group:kind",
        "(age + loss + group + kind)**2",
        "group*kind*age - age",
        "age + I(age**2) + log(age)",
        "kind + group:kind:loss",
    ],
)
def test_columns_span_what_formulaic_makes_of_the_formula(formula):
    import pandas
    from formulaic import model_matrix

    codes = rows_of(600, 4)
    words = {"group": list("abc"), "kind": list("xy")}
    frame = pandas.DataFrame(
        {
            name: pandas.Categorical([words[name][k] for k in values], categories=words[name])
            if name in words
            else values
            for name, values in codes.items()
        }
    )
    frame = frame.rename(columns={"body mass": "mass"})
    theirs = model_matrix(formula.replace("log(", "np.log("), frame).to_numpy(float).T
    design = make_design(schema_of(600), f"ill ~ {formula}")
    ours, _ = design.build(Table(columns=codes, rows=600))
    assert len(ours) == np.linalg.matrix_rank(ours)
    theirs = theirs / np.abs(theirs).max(axis=1, keepdims=True)
    assert np.linalg.matrix_rank(theirs, tol=1e-6) == len(ours)
    assert np.linalg.matrix_rank(np.concatenate((ours, theirs)), tol=1e-6) == len(ours)


def test_polynomials_are_orthogonal_on_the_declared_bounds():
    nodes, weights = np.polynomial.legendre.leggauss(20)
    columns = rows_of(20, 5) | {"age": 50 + 30 * nodes}
    design = make_design(schema_of(20), "ill ~ poly(age, 4)")
    x, _ = design.build(Table(columns=columns, rows=20))
    gram = (x * weights) @ x.T
    assert np.allclose(gram, np.diag(2.0 / (2.0 * np.arange(5) + 1.0)))


def test_splines_are_those_of_formulaic_at_public_knots():
    from formulaic.transforms import basis_spline

    columns = rows_of(300, 6)
    design = make_design(schema_of(300), "ill ~ bs(age, df=5)")
    x, _ = design.build(Table(columns=columns, rows=300))
    told = basis_spline(columns["age"], knots=[40.0, 60.0], lower_bound=20.0, upper_bound=80.0)
    theirs = np.stack([np.asarray(told[k]) for k in told])
    assert x[1:].shape == theirs.shape
    assert np.allclose(x[1:], theirs, atol=1e-12)


def test_natural_splines_are_linear_outwards_and_read_off_at_their_knots():
    ages = np.concatenate((np.linspace(20, 80, 5), 80 - 1e-3 * np.arange(3)))
    columns = rows_of(8, 7) | {"age": ages}
    design = make_design(schema_of(8), "ill ~ cr(age, df=4)")
    x, _ = design.build(Table(columns=columns, rows=8))
    assert np.allclose(x[1:, :5], np.eye(5)[1:], atol=1e-5)
    assert np.allclose(x[1:, 5] - 2 * x[1:, 6] + x[1:, 7], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("term", "why"),
    [
        ("log(loss)", "log is not bounded"),
        ("sqrt(loss)", "sqrt is not bounded"),
        ("I(age / loss)", "division by 0"),
        ("I(loss ** -2)", "division by 0"),
        ("I(loss ** 0.5)", "root of a negative"),
        ("I(age ** age)", "exponent"),
        ("I(age ** 1000)", "exponent"),
        ("exp(I(age * age))", "too large"),
        ("I(3)", "names no column"),
        ("I(group)", "no number column"),
        ("I(age + group)", "no number column"),
        ("log(nobody)", "no number column"),
        ("I(age // 2)", "only"),
        ("I(age < 30)", "comparisons"),
        ("scale(age)", "computed from the data"),
        ("center(age)", "computed from the data"),
        ("standardize(age)", "computed from the data"),
        ("sin(age)", "is not known"),
        ("log(age, 2)", "one argument"),
        ("poly(age, 0)", "whole number"),
        ("poly(age, 99)", "whole number"),
        ("poly(group, 2)", "no number column"),
        ("bs(age, df=2)", "whole number"),
        ("bs(age, knots=(10, 40))", "strictly between"),
        ("bs(age, df=5, lower_bound=1)", "its options"),
        ("cr(age, df=4, constraints=1)", "its options"),
        ("offset(group)", "no number column"),
        ("offset(age):loss", "offset"),
    ],
)
def test_what_has_no_public_bounds_is_refused_by_name(term, why):
    with pytest.raises(SpecError) as caught:
        make_design(schema_of(5), f"ill ~ loss + {term}")
    assert caught.value.pointer == "/model/formula"
    assert why in caught.value.message
    if term not in ("I(age // 2)", "I(age < 30)", "offset(age):loss"):
        assert term.split("(")[0] in caught.value.message


@pytest.mark.parametrize("seed", range(20))
def test_intervals_hold_what_expressions_can_be(seed):
    rng = np.random.default_rng(seed)
    parts = ["age", "loss", "`body mass`", "log(age)", "abs(loss)", "(loss - 1)", "3.5"]
    text = parts[rng.integers(0, 6)]
    for _ in range(4):
        text = f"({text} {rng.choice(['+', '-', '*'])} {rng.choice(parts)})"
        if rng.random() < 0.4:
            text = f"{text} ** {rng.integers(2, 4)}"
    design = make_design(schema_of(4000), f"wage ~ I({text})")
    factor = design.terms[1][0]
    columns = rows_of(4000, seed)
    for name, ends in {"age": (20, 80), "body mass": (10, 50), "loss": (-1, 2)}.items():
        columns[name][:200] = rng.choice(ends, 200)
    values = factor.source.values(columns)[0]
    low, high = (factor.middle + sign * factor.half for sign in (-1.0, 1.0))
    slack = 1e-12 * max(abs(low), abs(high))
    assert values.min() >= low - slack
    assert values.max() <= high + slack


def test_a_response_may_be_computed_and_keeps_public_ends():
    design = make_design(schema_of(100), "log(wage) ~ age")
    columns = rows_of(100, 8)
    _, y = design.build(Table(columns=columns, rows=100))
    assert np.allclose(y, np.log(columns["wage"]))
    assert (design.answer.lower, design.answer.upper) == (0.0, pytest.approx(np.log(100)))
    assert design.response == "log(wage)"
    with pytest.raises(SpecError, match="covariate as well"):
        make_design(schema_of(5), "log(wage) ~ I(wage + age)")
    with pytest.raises(SpecError, match="response"):
        make_design(schema_of(5), "poly(wage, 2) ~ age")


def test_a_formula_of_a_hundred_terms_is_made_in_time_and_one_of_millions_is_refused():
    import time

    columns = tuple(NumberColumn(name=f"x{k}", lower=k, upper=k + 5) for k in range(100))
    schema = Schema(columns=(*columns, BinaryColumn(name="y", categories=("n", "p"))), rows=9)
    began = time.monotonic()
    design = make_design(schema, "y ~ " + " + ".join(f"x{k}" for k in range(100)))
    assert len(design.parameters) == 101
    every = "+".join(f"x{k}" for k in range(60))
    for formula in (f"y ~ ({every})**5", f"y ~ ({every})*({every})", "y ~ " + "(" * 900):
        with pytest.raises(SpecError):
            make_design(schema, formula)
    assert time.monotonic() - began < 20.0


def test_names_may_hold_any_signs():
    names = ("a b", "it's", 'say "x"', "a:b", "I(x)", "log(y)", "a~b", "x*2", "größe")
    columns = tuple(NumberColumn(name=name, lower=1, upper=3) for name in names)
    schema = Schema(columns=(*columns, NumberColumn(name="t", lower=0, upper=1)), rows=2)
    formula = "t ~ " + " + ".join(f"`{name}`" for name in names)
    assert make_design(schema, formula).parameters == ("Intercept", *names)
    design = make_design(schema, "t ~ I(`a b` * `it's`) + log(`a:b`) + poly(`log(y)`, 2)")
    table = Table(
        columns={name: np.array([1.0, 3.0]) for name in names} | {"t": np.zeros(2)}, rows=2
    )
    assert design.build(table)[0].tolist() == [[1, 1], [-1, 1], [-1, 1], [-1, 1], [1, 1]]
