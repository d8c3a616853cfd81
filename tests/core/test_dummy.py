"""Rows made from a schema alone: valid, the same for a seed, and read by every call."""

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    DateColumn,
    NumberColumn,
    Schema,
    sample,
    synthesise,
)
from dpmcmc.inputs.schema import PrivacyUnit

COLUMNS = (
    NumberColumn(name="dose", lower=-2.5, upper=7.5),
    NumberColumn(name="visits", lower=0, upper=9, integer=True, spikes=(0,), missing=(-9,)),
    NumberColumn(name="pay", lower=0, upper=90_000, missing=True),
    CategoryColumn(name="ward", categories=("north", "south", "west")),
    BinaryColumn(name="cured", categories=("no", "yes")),
)
SCHEMA = Schema(columns=COLUMNS, rows=500)


def test_values_are_those_that_were_declared():
    rows = SCHEMA.dummy(5000)
    assert list(rows) == [column.name for column in COLUMNS]
    assert {len(values) for values in rows.values()} == {5000}
    assert (rows["dose"] >= -2.5).all()
    assert (rows["dose"] <= 7.5).all()
    assert rows["dose"].std() > 2.5  # all of the bounds
    assert rows["visits"].dtype.kind == "i"
    assert set(rows["visits"].tolist()) == {-9, *range(10)}
    assert (rows["visits"] == 0).mean() > 0.25
    assert 0.02 < np.isnan(rows["pay"]).mean() < 0.1
    assert set(rows["ward"]) == {"north", "south", "west"}
    assert set(rows["cured"]) == {"no", "yes"}


def test_a_seed_gives_the_same_rows_whatever_the_number_of_true_ones():
    first, again = SCHEMA.dummy(50, seed=3), Schema(columns=COLUMNS, rows=7).dummy(50, seed=3)
    other = SCHEMA.dummy(50, seed=4)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert any((first[name] != other[name]).any() for name in ("dose", "ward"))


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1e300, 1e300), (-1.7e308, 1.7e308), (0, 5e-323), (1, 1 + 1e-15)]
)
def test_bounds_of_any_size_hold(lower, upper):
    schema = Schema(columns=(NumberColumn(name="x", lower=lower, upper=upper),), rows=1)
    values = schema.dummy(1000)["x"]
    assert np.isfinite(values).all()
    assert ((values >= lower) & (values <= upper)).all()


def test_persons_have_up_to_max_rows_rows():
    unit = PrivacyUnit(column="patient", max_rows=3)
    rows = Schema(columns=COLUMNS, rows=300, privacy_unit=unit).dummy(600)
    assert next(iter(rows)) == "patient"
    _, sizes = np.unique(rows["patient"], return_counts=True)
    assert set(sizes) == {1, 2, 3}


def test_a_fit_and_a_synthetic_table_run_on_them():
    unit = PrivacyUnit(column="patient", max_rows=3)
    rows = Schema(columns=COLUMNS, rows=3, privacy_unit=unit).dummy(4000)
    units = len(set(rows["patient"]))
    schema = Schema(columns=COLUMNS, rows=3 * units, privacy_unit=unit)
    fitted = sample("cured ~ dose + visits + ward", rows, schema, epsilon=4, delta=1e-6)
    assert fitted.verdict.status == "reliable"
    single = {name: values for name, values in rows.items() if name != "patient"}
    schema = Schema(columns=COLUMNS, rows=4000)
    made = synthesise(single, schema=schema, columns=["dose", "ward"], epsilon=1, delta=1e-6)
    assert set(made.table(0)) == {"dose", "ward"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rows": -1}, "rows must be between"),
        ({"rows": 10**7}, "rows must be between 0 and 1,000,000"),
        ({"rows": 1.5}, "rows must be a whole number"),
        ({"rows": True}, "rows must be a whole number"),
        ({"seed": -1}, "seed must be between"),
        ({"seed": None}, "seed must be a whole number"),
    ],
)
def test_what_is_no_number_of_rows_is_refused(asked, said):
    with pytest.raises(ValueError, match=said):
        SCHEMA.dummy(**asked)


def test_dates_and_missing_categories_are_made_up_as_they_are_declared():
    columns = (
        DateColumn(name="seen", lower="2020-01-01", upper="2020-12-31", missing=True),
        CategoryColumn(name="ward", categories=("a", "b"), missing=True),
    )
    schema = Schema(columns=columns, rows=9)
    rows = schema.dummy(1000)
    there = rows["seen"][~np.isnat(rows["seen"])]
    assert (there.min(), there.max()) > (np.datetime64("2020-01-01"), np.datetime64("2020-12-01"))
    assert there.max() <= np.datetime64("2020-12-31")
    assert 900 < len(there) < 1000
    assert set(rows["ward"]) == {"a", "b", None}
    again = Schema.from_frame(
        rows, {"seen": ("2020-01-01", "2020-12-31"), "ward": ("a", "b", "c")},
        missing={"seen": True, "ward": True},
    )  # fmt: skip
    assert again.rows == 1000
