"""Categories that are missing, and columns that a call does not read, in frames of any library."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpmcmc import Budget, Schema, describe, sample, synthesise
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.frames import columns_of
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn
from dpmcmc.mechanisms.axes import axes
from dpmcmc.queries.statistics.call import release_statistic
from dpmcmc.queries.summaries.statistics import Counts, Mean
from dpmcmc.queries.synthetic.drawn import values

BOUNDS = {"region": ("north", "south", "west"), "cured": ("no", "yes")}
MAY_BE_MISSING = {"region": True, "cured": True}
REGIONS, CURED = ["south", None, "north", "west"], ["yes", "no", None, "no"]
FRAMES = {
    "pandas": pd.DataFrame({"region": REGIONS, "cured": CURED}),
    "pandas categorical": pd.DataFrame({"region": pd.Categorical(REGIONS), "cured": CURED}),
    "pandas strings": pd.DataFrame({"region": pd.array(REGIONS, "string"), "cured": CURED}),
    "Arrow": pa.table({"region": pa.array(REGIONS).dictionary_encode(), "cured": CURED}),
    "lists": {"region": ["south", pd.NA, "north", "west"], "cured": ["yes", "no", np.nan, "no"]},
}


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_categories_of_any_frame_are_stored_alike(kind: str) -> None:
    schema = Schema.from_frame(FRAMES[kind], BOUNDS, missing=MAY_BE_MISSING)
    table = table_of(schema, columns_of(FRAMES[kind]))
    assert table.columns["region"].tolist() == [1, 3, 0, 2]
    assert table.columns["cured"].tolist() == [1, 0, 2, 0]


def test_truth_values_and_numbers_of_categories_may_be_missing() -> None:
    rows = {"smokes": [True, None, False], "grade": [1.0, np.nan, 2.0]}
    bounds = {"smokes": (False, True), "grade": ("1", "2", "3")}
    schema = Schema.from_frame(rows, bounds, missing={"smokes": True, "grade": True})
    table = table_of(schema, columns_of(rows))
    assert table.columns["smokes"].tolist() == [1, 2, 0]
    assert table.columns["grade"].tolist() == [0, 3, 1]


def test_undeclared_missing_categories_are_counted_and_refused_with_the_remedy() -> None:
    schema = Schema.from_frame(FRAMES["lists"], BOUNDS)
    with pytest.raises(
        ValueError, match=r"'region' has missing values, 1 in all: .*\{'region': True\}"
    ):
        table_of(schema, columns_of(FRAMES["lists"]))


@pytest.mark.parametrize("missing", [(-9,), "NA", ["NA"], 1])
def test_categories_have_no_missing_codes(missing: object) -> None:
    with pytest.raises(ValueError, match="'region' must be True"):
        CategoryColumn(name="region", categories=("n", "s", "w"), missing=missing)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'region' must be True"):
        Schema.from_frame(FRAMES["lists"], BOUNDS, missing={"region": missing})  # type: ignore[dict-item]


def many(rows: int = 8000, seed: int = 5) -> tuple[dict[str, object], np.ndarray]:
    """Rows of which a third have no region and a fifth no answer, and which are complete."""
    random = np.random.default_rng(seed)
    region, dose = random.integers(0, 2, rows), random.uniform(0, 10, rows)
    cured = random.random(rows) < 1 / (1 + np.exp(1 - 1.5 * region - 0.1 * dose))
    no_region, no_answer = random.random(rows) < 1 / 3, random.random(rows) < 0.2
    words = np.array(["north", "south"], object)[region]
    answers = np.array(["no", "yes"], object)[cured.astype(int)]
    words[no_region], answers[no_answer] = None, None
    return {"region": words, "dose": dose, "cured": answers}, ~(no_region | no_answer)


MANY_BOUNDS = {"region": ("north", "south"), "dose": (0, 10), "cured": ("no", "yes")}


def test_rows_without_a_category_are_left_out_of_models_that_use_it() -> None:
    rows, complete = many()
    schema = Schema.from_frame(rows, MANY_BOUNDS, missing=MAY_BE_MISSING)
    design = make_design(schema, "cured ~ region + dose")
    table = table_of(schema, columns_of(rows))
    np.testing.assert_array_equal(design.left_out(table), ~complete)
    x, y = design.build(table)
    assert not x[:, ~complete].any()
    np.testing.assert_array_equal(np.isnan(y), ~complete)
    kept = {name: np.asarray(column)[complete] for name, column in rows.items()}
    whole = Schema.from_frame(kept, MANY_BOUNDS)
    x_kept, y_kept = make_design(whole, "cured ~ region + dose").build(table_of(whole, kept))
    np.testing.assert_array_equal(x[:, complete], x_kept)
    np.testing.assert_array_equal(y[complete], y_kept)


@pytest.mark.parametrize("sampler", ["noisy_quadratic", "dp_penalty"])
def test_a_fit_is_that_of_complete_rows(sampler: str) -> None:
    rows, complete = many()
    schema = Schema.from_frame(rows, MANY_BOUNDS, missing=MAY_BE_MISSING)
    asked = {"epsilon": 50, "delta": 1e-6, "sampler": sampler, "accept_low_quality": True}
    fit = sample("cured ~ region + dose", rows, schema, **asked)
    kept = {name: np.asarray(column)[complete] for name, column in rows.items()}
    of_kept = sample("cured ~ region + dose", kept, Schema.from_frame(kept, MANY_BOUNDS), **asked)
    there, expected = (
        {one.name: (one.mean, one.sd) for one in result.summary()} for result in (fit, of_kept)
    )
    for name, (mean, sd) in expected.items():
        assert abs(there[name][0] - mean) < 4 * np.hypot(sd, there[name][1]), name


def test_counts_and_synthetic_tables_have_a_level_for_no_value() -> None:
    rows, complete = many()
    schema = Schema.from_frame(rows, MANY_BOUNDS, missing=MAY_BE_MISSING)
    shares = describe(rows, [Counts(("region",))], schema=schema, epsilon=8).estimates()
    assert [one.name for one in shares][-1] == "share of region missing"
    without = sum(word is None for word in rows["region"]) / len(complete)  # type: ignore[attr-defined]
    assert abs(shares[-1].estimate - without) < 0.02
    made = synthesise(rows, schema=schema, epsilon=8, columns=["region", "cured"], tables=2)
    drawn = made.table(0)["region"]
    assert set(drawn) == {"north", "south", None}
    assert abs(np.mean([word is None for word in drawn]) - without) < 0.05


def test_the_level_of_no_value_is_no_declared_category() -> None:
    column = BinaryColumn(name="x", categories=("missing", "there"), missing=True)
    (axis,) = axes(Schema(columns=(column,), rows=3), ["x"], {})
    assert len(set(axis.labels)) == 3
    assert values(axis, np.array([0, 2]), np.zeros(2)).tolist() == ["missing", None]


def test_a_statistic_of_a_column_without_all_values_is_refused() -> None:
    rows, _ = many(200)
    schema = Schema.from_frame(rows, MANY_BOUNDS, missing=MAY_BE_MISSING)
    with pytest.raises(SpecError, match="'cured' may have no value"):
        release_statistic(rows, "cured", schema=schema, epsilon=1, noise="gaussian", delta=1e-6)


def test_missing_values_of_columns_that_are_not_read_are_no_error() -> None:
    rows, complete = many(3000)
    rows = {**rows, "region": np.where(complete, "north", None)}
    rows["cured"] = np.where(np.arange(3000) % 2, "yes", "no")
    schema, budget = Schema.from_frame(rows, MANY_BOUNDS), Budget(epsilon=9, delta=1e-6)
    fit = sample("cured ~ dose", rows, schema, epsilon=4, budget=budget, accept_low_quality=True)
    assert len(fit.summary()) == 2
    describe(rows, [Mean("dose")], schema=schema, epsilon=0.1, budget=budget)
    release_statistic(rows, "dose", schema=schema, epsilon=0.1, noise="gaussian", delta=1e-6)
    synthesise(
        rows, schema=schema, epsilon=2, columns=["cured", "dose"], tables=2, budget=budget,
        accept_low_quality=True,
    )  # fmt: skip
    spent = budget.spent
    with pytest.raises(ValueError, match="'region' has missing values"):
        sample("cured ~ region", rows, schema, epsilon=1, budget=budget, accept_low_quality=True)
    assert budget.spent == spent


def test_words_for_truth_are_read_in_any_case() -> None:
    rows = {"smokes": ["TRUE", "False", "true", None]}
    schema = Schema.from_frame(rows, {"smokes": (False, True)}, missing={"smokes": True})
    assert table_of(schema, rows).columns["smokes"].tolist() == [1, 0, 1, 2]
