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
