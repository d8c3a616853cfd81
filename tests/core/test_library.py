"""The library as a statistician calls it: six lines from a data frame to a posterior."""

import re
import typing

import narwhals
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpmcmc import (
    BinaryColumn,
    Budget,
    BudgetExhaustedError,
    CategoryColumn,
    ModelSpec,
    NumberColumn,
    Schema,
    SpecError,
    plan,
    sample,
)
from dpmcmc.families import MODELS
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.frames import columns_of
from dpmcmc.inputs.options import AlgorithmName, AlgorithmOptions
from dpmcmc.inputs.spec import FamilyName
from dpmcmc.posterior.summary_table import rounded
from tests.sources import Seeded

ROWS = 4000
BOUNDS = {
    "age": (18, 90),
    "sex": ("f", "m"),
    "town": ("a", "b", "c"),
    "sick": (False, True),
    "cost": (0, 100),
}
MISSPELT = "there is no column 'agee'; did you mean 'age'?"


def people():
    rng = np.random.default_rng(3)
    age = rng.integers(18, 91, ROWS)
    eta = (age - 54.0) / 20.0
    return {
        "age": age,
        "sex": np.where(rng.random(ROWS) < 0.5, "m", "f"),
        "town": rng.choice(["a", "b", "c"], ROWS),
        "sick": rng.random(ROWS) < 1.0 / (1.0 + np.exp(-eta)),
        "cost": np.clip(50.0 + 10.0 * eta + rng.standard_normal(ROWS), 0, 100),
    }


class Exchanged:
    """A frame of a library that nobody knows."""

    def __init__(self, found):
        self.__dataframe__ = pa.table(found).__dataframe__


class Streamed:
    def __init__(self, found):
        self.__arrow_c_stream__ = pa.table(found).__arrow_c_stream__


FRAMES = {
    "mapping": dict,
    "pandas": pd.DataFrame,
    "arrow": lambda found: pa.table(found),
    "record batch": lambda found: pa.table(found).to_batches()[0],
    "narwhals": lambda found: narwhals.from_native(pd.DataFrame(found)),
    "exchanged": Exchanged,
    "streamed": Streamed,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_six_lines_lead_to_a_posterior(kind):
    frame = FRAMES[kind](people())
    schema = Schema.from_frame(frame, BOUNDS)
    fit = sample("sick ~ age + sex", frame, schema, epsilon=2.0, random=Seeded(1))
    assert schema.rows == ROWS
    assert [column.type for column in schema.columns] == [
        "number",
        "binary",
        "category",
        "binary",
        "number",
    ]
    found = {one.name: one for one in fit.summary()}
    assert 0.04 < found["age"].q05 < found["age"].q95 < 0.06  # 1 / 20 a year
    assert (fit.plan.spec.model.family, fit.cost.delta) == ("logistic", 1e-6)
    assert fit.to_datatree().attrs["release"] == fit.plan.spec.sampler.algorithm
    young, old = fit.predict([{"age": 20, "sex": "f"}, {"age": 88, "sex": "f"}])
    assert young.expected.q95 < 0.5 < old.expected.q05
    assert len(str(fit).splitlines()) < 40
    planned = plan("sick ~ age + sex", schema, epsilon=2.0)
    first, cost, *lines = repr(planned).splitlines()
    assert first == "plan of sick ~ age + sex: logistic, by noisy_quadratic"
    assert cost == "costs epsilon 2 at delta 1e-06"
    assert f"{planned.expected_width:.3g} times as wide" in lines[0]
    assert max(map(len, lines)) <= 88
    shown = fit._repr_html_()
    assert fit.verdict.sentence.partition(":")[0] in shown
    assert "<th>sex[m]</th>" in shown


COLUMNS = {
    "arrow": lambda words: pa.table({"g": pa.array(words)}),
    "arrow's dictionary": lambda words: pa.table({"g": pa.array(words).dictionary_encode()}),
    "pandas": lambda words: pd.DataFrame({"g": words}),
    "pandas' category": lambda words: pd.DataFrame({"g": pd.Categorical(words)}),
    "pandas' arrow": lambda words: pd.DataFrame({"g": pd.array(words, "string[pyarrow]")}),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_words_are_read_as_they_are_and_none_stands_for_another(kind):
    """In Arrow a dictionary's missing value has a code of its own, which is not its last word's."""
    schema = Schema(columns=(CategoryColumn(name="g", categories=("a", "b", "c")),), rows=3)
    table = table_of(schema, columns_of(COLUMNS[kind](["c", "a", "b"])))
    assert table.columns["g"].tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="'g' has missing values"):
        table_of(schema, columns_of(COLUMNS[kind]([None, "a", "b"])))


def test_bounds_may_be_numbers_of_numpy():
    (column,) = Schema.from_frame({"x": [1.0]}, {"x": np.array([0, 10])}).columns
    assert (column.type, column.lower, column.upper) == ("number", 0.0, 10.0)
    (column,) = Schema.from_frame({"x": [1.0]}, {"x": (np.int64(0), np.float32(10))}).columns
    assert column.type == "number"


def test_frames_that_cannot_be_read_say_what_to_do():
    twice = pd.concat([pd.DataFrame({"a": [1]})] * 2, axis=1)
    with pytest.raises(ValueError, match="have the same name"):
        Schema.from_frame(twice, {})
    with pytest.raises(ValueError, match="must be words"):
        Schema.from_frame(pd.DataFrame({0: [1]}), {})
    with pytest.raises(TypeError, match="not Series"):
        Schema.from_frame(pd.Series([1.0]), {})

    class Lazy:
        collect = collect_schema = None

    with pytest.raises(TypeError, match=r"after .collect\(\)"):
        Schema.from_frame(Lazy(), {})


def test_predictions_are_printed_as_a_table():
    frame = people()
    schema = Schema.from_frame(frame, BOUNDS)
    fit = sample("sick ~ age", frame, schema, epsilon=4.0, random=Seeded(1))
    asked = fit.predict([{"age": 20}, {"age": 80}])
    above, heading, young, old = str(asked).splitlines()
    assert (above, heading.split()[0]) == ("mean response", "mean")
    assert young.split()[:2] == ["age", "20"]
    assert float(old.split()[2]) == pytest.approx(asked[1].expected.mean, abs=0.01)
    assert str(asked[1].expected).startswith(f"{float(old.split()[2])}")
    town = sample("town ~ age", frame, schema, epsilon=4.0, random=Seeded(1))
    assert "age 20: b" in str(town.predict([{"age": 20}]))


@pytest.mark.parametrize(
    ("value", "sd", "shown"),
    [
        (454.4, 0.012, "454.400"),
        (-2.0719, 0.038, "-2.072"),
        (123456.7, 2345.0, "123457"),
        (1.23e-8, 3e-10, "1.23e-08"),
        (5e12, 1e10, "5e+12"),
        (3.0, 0.0, "3"),
        (0.0, 1.0, "0.0"),
    ],
)
def test_numbers_are_shown_to_the_second_digit_of_their_sd(value, sd, shown):
    assert rounded(value, sd) == shown


def test_what_is_printed_stays_below_forty_lines_whatever_there_is():
    rng = np.random.default_rng(1)
    rows = {f"x{k}": rng.uniform(0, 1, 2000) for k in range(30)}
    rows["y"] = rng.uniform(0, 1, 2000)
    schema = Schema.from_frame(rows, dict.fromkeys(rows, (0, 40)))
    formula = "y ~ " + " + ".join(f"x{k}" for k in range(30))
    shown = str(sample(formula, rows, schema, epsilon=100, random=Seeded(1)))
    assert "more notes" in shown
    assert len(shown.splitlines()) < 40
    assert max(map(len, shown.splitlines())) <= 88


def test_a_summary_is_a_table_and_found_by_name():
    frame = people()
    schema = Schema.from_frame(frame, BOUNDS)
    fit = sample("town ~ age + cost", frame, schema, epsilon=4.0, random=Seeded(6))
    found = fit.summary()
    assert found["b:age"] == found[1]
    assert [one.name for one in found[1:3]] == ["b:age", "b:cost"]
    with pytest.raises(KeyError, match="'bage' is none of b:Intercept"):
        found["bage"]
    heading, *lines = str(found).splitlines()
    assert heading.split() == ["mean", "sd", "5", "%", "95", "%", "R-hat", "ESS"]
    assert len({len(line) for line in (heading, *lines)}) == 1  # aligned
    for one, line in zip(found, lines, strict=True):
        name, mean, sd, low, high, r_hat, ess = line.split()
        assert name == one.name
        told = [float(number) for number in (mean, sd, low, high, r_hat, ess)]
        shown = [one.mean, one.sd, one.q05, one.q95, one.r_hat, one.ess_bulk]
        assert told == pytest.approx(shown, rel=0.06, abs=0.06 * one.sd)
    assert lines[0].rsplit(maxsplit=2)[0].split() in [
        line.split() for line in str(fit).splitlines()
    ]
    assert "<th>R-hat</th><th>ESS</th>" in found._repr_html_()


@pytest.mark.parametrize(
    ("formula", "family"),
    [("cost ~ age", "linear"), ("town ~ age", "multinomial"), ("sick ~ age", "logistic")],
)
def test_the_family_is_that_of_the_response(formula, family):
    frame = people()
    fit = sample(formula, frame, Schema.from_frame(frame, BOUNDS), epsilon=4.0, random=Seeded(2))
    assert fit.plan.spec.model.family == family


def test_the_call_with_a_model_goes_on_working():
    frame = people()
    schema = Schema.from_frame(frame, BOUNDS)
    model = ModelSpec(family="logistic", formula="sick ~ age")
    given = {"epsilon": 2.0, "delta": 1e-6}
    one = sample(frame, schema=schema, model=model, random=Seeded(4), **given)
    other = sample("sick ~ age", frame, schema, random=Seeded(4), **given)
    named = sample(data=frame, schema=schema, model=model, random=Seeded(4), **given)
    assert np.array_equal(one.draws, other.draws)
    assert np.array_equal(one.draws, named.draws)


def test_a_budget_refuses_the_call_that_would_exceed_it_and_loses_nothing():
    frame = people()
    schema, budget = Schema.from_frame(frame, BOUNDS), Budget(2.0, 1e-6)
    fit = sample("sick ~ age", frame, schema, epsilon=1.5, budget=budget)
    assert budget.spent == pytest.approx(1.5, rel=1e-3)
    left = budget.remaining
    assert 0.5 < left < 1.5  # of two Gaussians the mu add up in squares
    with pytest.raises(BudgetExhaustedError, match="is left of the budget"):
        sample("sick ~ age", frame, schema, epsilon=1.5, budget=budget)
    assert (budget.remaining, budget.calls) == (left, 1)
    sample("sick ~ age", frame, schema, epsilon=left, budget=budget)
    assert budget.spent <= 2.0
    assert budget.remaining < 0.05
    assert fit.predict([{"age": 50}])  # free
    assert str(budget).startswith("epsilon 2 at delta 1e-06: ")


def test_a_call_that_cannot_run_takes_nothing():
    frame = people()
    schema, budget = Schema.from_frame(frame, BOUNDS), Budget(2.0, 1e-6)
    for wrong in ({"formula": "sick ~ agee"}, {"formula": "sick ~ age", "sampler": "dp_hcm"}):
        with pytest.raises(SpecError):
            sample(wrong.pop("formula"), frame, schema, epsilon=1.0, budget=budget, **wrong)
    with pytest.raises(ValueError, match="must have 4000 values"):
        sample("sick ~ age", {"age": [1]}, schema, epsilon=1.0, budget=budget)
    assert (budget.spent, budget.calls) == (0.0, 0)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"agee": (18, 90)}, MISSPELT),
        ({"age": (90, 18)}, "lower below upper"),
        ({"age": (18, float("inf"))}, "finite bounds"),
        ({"age": (18,)}, "bounds (lower, upper) or two categories"),
        ({"sex": "fm"}, "bounds (lower, upper) or two categories"),
        ({"sex": ("f", "f")}, "the same category twice"),
    ],
)
def test_wrong_bounds_are_refused_where_they_are_written(bounds, told):
    with pytest.raises(ValueError, match="(?s)" + re.escape(told)):
        Schema.from_frame(people(), bounds)


def test_what_is_no_frame_is_told():
    with pytest.raises(TypeError, match="not int"):
        Schema.from_frame(3, {})
    with pytest.raises(ValueError, match="same number of values"):
        Schema.from_frame({"a": [1, 2], "b": [1]}, {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"formula": "sick ~ age"}, "/schema: is needed: Schema.from_frame"),
        (
            {"formula": "I(age) ~ sex", "schema": True},
            "/model/formula: the response must be one column",
        ),
        ({"formula": "sick ~ age", "schema": True, "sampler": "dp_hcm"}, "must be options, or one"),
        ({"formula": "sick ~ age", "schema": True, "family": "kernel"}, "one of"),
    ],
)
def test_wrong_calls_say_what_would_be_right(given, told):
    frame = people()
    if given.pop("schema", False):
        given["schema"] = Schema.from_frame(frame, BOUNDS)
    with pytest.raises(SpecError) as caught:
        sample(given.pop("formula"), frame, epsilon=1.0, **given)
    assert told in str(caught.value)


def test_a_checker_knows_the_names_of_algorithms():
    own = {options().algorithm for options in typing.get_args(AlgorithmOptions)}
    assert set(typing.get_args(AlgorithmName)) == own
    assert set(typing.get_args(FamilyName)) == set(MODELS)
    assert typing.get_type_hints(sample)["family"] == FamilyName | None


def test_the_family_is_that_of_the_response_however_it_is_written():
    columns = (
        NumberColumn(name="x", lower=0, upper=1),
        NumberColumn(name="the cost", lower=1, upper=9),
        BinaryColumn(name="ill", categories=("no", "yes")),
    )
    schema = Schema(columns=columns, rows=50_000)
    for left, family in (
        ("factor(ill)", "logistic"),
        ("`ill`", "logistic"),
        ('Q("the cost")', "linear"),
        ("log(`the cost`)", "linear"),
    ):
        assert plan(f"{left} ~ x", schema, epsilon=2).spec.model.family == family
