"""Series of a mapping: rows belong together by their index, or the call is refused."""

import narwhals
import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpmcmc import Budget, Schema, sample
from dpmcmc.inputs.frames import columns_of

ROWS = 2_000
BOUNDS = {"x": (0, 10), "y": (-5, 15)}
FRAME = pandas.DataFrame({"x": np.random.default_rng(1).uniform(0, 10, ROWS)})
FRAME["y"] = 1 + FRAME.x + np.random.default_rng(2).normal(size=ROWS)
OTHER = FRAME.sample(frac=1, random_state=3)
DATED = FRAME.set_axis(pandas.date_range("2020-01-01", periods=ROWS), axis=0)
NESTED = FRAME.set_axis(pandas.MultiIndex.from_product([range(2), range(ROWS // 2)]), axis=0)
TWICE = FRAME.set_axis(np.arange(ROWS) // 2, axis=0)
OVERLAPPING = pandas.IntervalIndex.from_tuples([(0, 2), (1, 3), (2, 4)])


def shuffled(frame):
    return frame.sample(frac=1, random_state=4)


ALIGNED = {
    "another order": {"x": FRAME.x, "y": OTHER.y},
    "the other one": {"x": OTHER.x, "y": FRAME.y},
    "dates": {"x": DATED.x, "y": shuffled(DATED).y},
    "several levels": {"x": NESTED.x, "y": shuffled(NESTED).y},
    "sorted": {"x": FRAME.x, "y": FRAME.sort_values("y").y},
    "one index": {"x": OTHER.x, "y": OTHER.y},
    "one index with labels twice": {"x": TWICE.x, "y": TWICE.y},
    "filtered alike": {"x": FRAME[FRAME.x > 0].x, "y": FRAME[FRAME.x > 0].y},
    "labels that are equal numbers": {
        "x": FRAME.x,
        "y": OTHER.y.set_axis(OTHER.index.astype(float)),
    },
    "nullable": {"x": FRAME.x.astype("Float32"), "y": OTHER.y.astype("Float64")},
    "Series of narwhals": {
        "x": narwhals.from_native(FRAME)["x"],
        "y": narwhals.from_native(OTHER)["y"],
    },
    "arrays of xarray": {"x": FRAME.x.to_xarray(), "y": OTHER.y.to_xarray()},
    "a dataset of xarray": OTHER.to_xarray(),
    "xarray beside pandas": {"x": FRAME.x, "y": OTHER.y.to_xarray()},
    "beside an array": {"x": OTHER.x, "y": OTHER.y.to_numpy()},
    "beside Arrow": {"x": OTHER.x, "y": pa.array(OTHER.y.to_numpy())},
    "beside a list": {"x": OTHER.x.tolist(), "y": OTHER.y},
    "labels that are names of a table's": {
        "x": FRAME.x.set_axis(["columns", "schema", "data_vars", "ngroups", *range(4, ROWS)]),
        "y": FRAME.y.to_numpy(),
    },
}


@pytest.mark.parametrize("data", ALIGNED.values(), ids=ALIGNED)
def test_rows_belong_together_by_their_labels(data):
    columns = {name: np.asarray(values, float) for name, values in columns_of(data).items()}
    slope, _ = np.polyfit(columns["x"], columns["y"], 1)
    assert slope == pytest.approx(1, abs=0.05)
    assert len(columns["x"]) == len(data["x"])


REFUSED = {
    "shifted": ({"x": FRAME.x, "y": FRAME.y.set_axis(range(5, ROWS + 5))}, "different indexes"),
    "no label alike": ({"x": FRAME.x, "y": DATED.y}, "different indexes"),
    "words for numbers": (
        {"x": FRAME.x, "y": FRAME.y.set_axis(map(str, FRAME.index))},
        "different",
    ),
    "fewer rows": ({"x": FRAME.x, "y": FRAME.y[5:]}, "different indexes"),
    "more rows": ({"x": FRAME.x[5:], "y": FRAME.y}, "different indexes"),
    "labels twice": ({"x": TWICE.x, "y": shuffled(TWICE).y}, "different indexes"),
    "labels twice in one": ({"x": FRAME.x, "y": TWICE.y}, "different indexes"),
    "an array beside two orders": (
        {"x": FRAME.x, "y": OTHER.y, "z": np.zeros(ROWS)},
        "different orders",
    ),
    "truth values for numbers": (
        {"x": FRAME.x[:2], "y": FRAME.y[:2].set_axis([True, False])},
        "different indexes",
    ),
    "whole numbers that are one double": (
        {
            "x": FRAME.x[:2].set_axis([2**53, 2**53 + 1]),
            "y": FRAME.y[:2].set_axis([2.0**53 + 2, 2.0**53]),
        },
        "different indexes",
    ),
    "intervals that overlap": (
        {"x": FRAME.x[:3].set_axis(OVERLAPPING), "y": FRAME.y[:3].set_axis(OVERLAPPING[::-1])},
        "different indexes",
    ),
    "narwhals": (
        {"x": narwhals.from_native(FRAME)["x"], "y": FRAME.y.set_axis(range(5, ROWS + 5))},
        "different indexes",
    ),
}


@pytest.mark.parametrize(("data", "told"), REFUSED.values(), ids=REFUSED)
def test_series_that_do_not_fit_are_refused_before_the_budget(data, told):
    budget = Budget(epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match=told) as caught:
        Schema.from_frame(data, bounds=BOUNDS)
    assert "'x'" in str(caught.value)
    assert "'y'" in str(caught.value)
    schema = Schema.from_frame(FRAME, bounds=BOUNDS)
    with pytest.raises(ValueError, match=told):
        sample("y ~ x", data, schema, epsilon=1, budget=budget, progress=False)
    assert budget.remaining == pytest.approx(1)


NO_COLUMN = {
    "a data frame of one column": (FRAME[["x"]], r"a table: give one of its columns, such as"),
    "a data frame of two": (FRAME, "a table"),
    "a data frame of none": (FRAME[[]], "a table"),
    "a frame turned round": (FRAME[["x"]].T, "a table"),
    "a table of Arrow": (pa.table({"x": FRAME.x}), "a table"),
    "a batch of Arrow": (pa.record_batch({"x": FRAME.x}), "a table"),
    "a dataset of xarray": (FRAME[["x"]].to_xarray(), "a table"),
    "a frame of narwhals": (narwhals.from_native(FRAME[["x"]]), "a table"),
    "groups": (FRAME.groupby("x"), "a list or an array"),
    "a standing array": (FRAME[["x"]].to_numpy(), "one dimension"),
    "a lying array": (FRAME[["x"]].to_numpy().T, "one dimension"),
    "xarray of two dimensions": (FRAME.x.to_xarray().expand_dims("z"), "one dimension"),
    "a number": (np.array(1.0), "one dimension"),
    "lists": ([[value] for value in FRAME.x], "one dimension"),
    "arrays": ([np.array([value]) for value in FRAME.x], "one dimension"),
    "tuples after numbers": ([*FRAME.x[:-1], (1.0,)], "one dimension"),
    "a set": (set(FRAME.x), "a list or an array"),
    "a frozen set": (frozenset(FRAME.x), "a list or an array"),
    "keys": (dict.fromkeys(FRAME.x).keys(), "a list or an array"),
    "a mapping": (dict.fromkeys(range(ROWS), 0.5), "a list or an array"),
    "bytes": (b"a" * ROWS, "a list or an array"),
    "a text": ("a" * ROWS, "a list or an array"),
    "a record": (np.zeros(ROWS, [("x", float), ("z", float)]), "a table"),
}


@pytest.mark.parametrize("name", NO_COLUMN)
def test_what_is_no_column_of_a_mapping_is_refused_and_told(name):
    """Before the budget is touched, and where a schema is made as well."""
    values, message = NO_COLUMN[name]
    data = {"x": values, "y": FRAME.y.to_numpy()}
    with pytest.raises(ValueError, match="column 'x' .*" + message) as found:
        Schema.from_frame(data, BOUNDS)
    assert len(str(found.value).splitlines()) == 1
    budget = Budget(8.0, 1e-6)
    schema = Schema.from_frame(FRAME, BOUNDS)
    with pytest.raises(ValueError, match="column 'x' .*" + message):
        sample("y ~ x", data, schema, epsilon=4.0, budget=budget)
    assert budget.calls == 0
