"""Missing values of data frames that are declared with `missing=True`, without a code."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpmcmc.fit.local import table_of
from dpmcmc.inputs.frames import columns_of
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.mechanisms.axes import axes
from dpmcmc.queries.synthetic.drawn import values

BOUNDS = {"age": (0, 90), "dose": (0.5, 10)}
AGES, CODE = [30, None, -1, 95], -1.0
DOSES = [1.0, 2.0, None, 4.0]
FRAMES = {
    "pandas": pd.DataFrame({"age": AGES, "dose": DOSES}),
    "pandas nullable": pd.DataFrame({"age": pd.array(AGES, "Int64"), "dose": DOSES}),
    "Arrow": pa.table({"age": AGES, "dose": DOSES}),
    "lists": {"age": [30, pd.NA, -1, 95], "dose": [1.0, 2.0, float("nan"), 4.0]},
    "NumPy": {"age": np.array([30, np.nan, -1, 95]), "dose": np.ma.masked_equal([1, 2, 3, 4], 3)},
}


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_of_any_frame_are_stored_alike(kind: str) -> None:
    schema = Schema.from_frame(FRAMES[kind], BOUNDS, missing={"age": True, "dose": True})
    table = table_of(schema, columns_of(FRAMES[kind]))
    np.testing.assert_array_equal(table.columns["age"], [30.0, CODE, 0.0, 90.0])
    np.testing.assert_array_equal(table.columns["dose"], [1.0, 2.0, -1.0, 4.0])


def test_undeclared_missing_values_are_refused_with_both_remedies() -> None:
    schema = Schema.from_frame(FRAMES["lists"], BOUNDS)
    with pytest.raises(ValueError, match=r"missing=\{'age': True\}.*\[code\]"):
        table_of(schema, columns_of(FRAMES["lists"]))


@pytest.mark.parametrize("lower", [-1e30, -1.0, -0.5, 0.0, 1e-9, 2.0**53, 1e30])
def test_the_code_is_below_the_bounds_and_of_them_alone(lower: float) -> None:
    column = NumberColumn(name="x", lower=lower, upper=2e30, empty=True)
    assert -np.inf < column.missing[0] < lower
    clamped = column.clamped(column.filled(np.array([column.missing[0], np.nan])))
    np.testing.assert_array_equal(clamped, [lower, *column.missing])


def test_codes_and_empty_values_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        NumberColumn(name="x", lower=0, upper=1, missing=(-9,), empty=True)


def test_synthetic_values_that_are_missing_are_not_a_number() -> None:
    column = NumberColumn(name="age", lower=0, upper=4, integer=True, empty=True)
    (axis,) = axes(Schema(columns=(column,), rows=2), ["age"], {"age": 5})
    last = len(axis.labels) - 1
    drawn = values(axis, np.array([0, last]), np.zeros(2))
    assert drawn[0] == 0
    assert np.isnan(drawn[1])
