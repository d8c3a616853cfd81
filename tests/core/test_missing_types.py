"""Missing codes are compared in the type of their column, or refused where it cannot hold them."""

from array import array
from decimal import Decimal

import narwhals
import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpmcmc import Budget, Schema, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.frames import columns_of
from dpmcmc.inputs.schema import NumberColumn

ROWS, LOST = 6, [1, 4]
TENS = (1.5, -9.9, 0.25, 3.5, -9.9, 2.0)
SINGLE = np.array(TENS, np.float32)
DECIMALS = [Decimal(repr(one)).quantize(Decimal("1.00")) for one in TENS]
ARROW = pa.array(DECIMALS, pa.decimal128(10, 2))


def pandas_of(values, dtype=None):
    return pandas.DataFrame({"x": pandas.Series(values, dtype=dtype)})


def hidden(mask):
    return np.ma.MaskedArray(SINGLE, mask=mask)


class Stream:
    """A frame that has nothing but an Arrow stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested=None):
        return self.table.__arrow_c_stream__(requested)


HELD = {
    "float16": {"x": np.array(TENS, np.float16)},
    "float32": {"x": SINGLE},
    "float32 of the other byte order": {"x": SINGLE.astype(">f4")},
    "float64": {"x": np.array(TENS)},
    "long double": {"x": np.array(TENS, np.longdouble)},
    "an array of Python": {"x": array("f", TENS)},
    "a list of float32": {"x": list(SINGLE)},
    "a list of what was float32": {"x": SINGLE.tolist()},
    "objects that are float32": {"x": np.array([*SINGLE[:5], 2], object)},
    "objects that are float16": {"x": np.array([*np.array(TENS[:5], np.float16), 2], object)},
    "float64 that was float32": {"x": SINGLE.astype(np.float64)},
    "float64 that was float16": {"x": np.array(TENS, np.float16).astype(np.float64)},
    "float32 that was float16": {"x": np.array(TENS, np.float16).astype(np.float32)},
    "a list of what was float16": {"x": np.array(TENS, np.float16).tolist()},
    "text": {"x": ["1.5", "-9.90", ".25", "3.5", "-99e-1", "2"]},
    "decimals": {"x": DECIMALS},
    "an unused mask": {"x": hidden(False)},
    "pandas float32": pandas_of(SINGLE),
    "pandas Float32": pandas_of(TENS, "Float32"),
    "pandas Float64": pandas_of(TENS, "Float64"),
    "pandas objects": pandas_of(list(SINGLE), object),
    "pandas with Arrow": pandas_of(TENS, pandas.ArrowDtype(pa.float32())),
    "pandas with Arrow's halves": pandas_of(
        pandas.arrays.ArrowExtensionArray(pa.array(np.array(TENS, np.float16)))
    ),
    "pandas decimals": pandas_of(DECIMALS, pandas.ArrowDtype(pa.decimal128(10, 2))),
    "pandas categories": {"x": pandas.Categorical(SINGLE)},
    "pandas sparse": pandas_of(pandas.arrays.SparseArray(SINGLE)),
    "a Series in a mapping": {"x": pandas.Series(TENS, dtype="Float32")},
    "narwhals": narwhals.from_native(pandas_of(SINGLE)),
    "a Series of narwhals": {"x": narwhals.from_native(pandas_of(SINGLE))["x"]},
    "Arrow": pa.table({"x": pa.array(SINGLE)}),
    "Arrow's halves": pa.table({"x": pa.array(SINGLE.astype(np.float16))}),
    "Arrow's decimals": pa.table({"x": ARROW}),
    "Arrow's long decimals": pa.table({"x": ARROW.cast(pa.decimal256(60, 2))}),
    "Arrow's dictionary": pa.table({"x": pa.array(SINGLE).dictionary_encode()}),
    "an Arrow array": {"x": pa.array(SINGLE)},
    "an Arrow array of decimals": {"x": ARROW},
    "chunks of Arrow": {"x": pa.chunked_array([SINGLE[:2], SINGLE[2:]])},
    "a stream of Arrow": Stream(pa.table({"x": pa.array(SINGLE)})),
}


@pytest.mark.parametrize("data", HELD.values(), ids=HELD)
@pytest.mark.parametrize("code", [-9.9, np.float32(-9.9), np.float64(-9.9)])
def test_a_code_is_found_in_every_type(data, code):
    schema = Schema.from_frame(data, bounds={"x": (0, 10)}, missing={"x": [code]})
    (column,) = schema.columns
    values = table_of(schema, columns_of(data)).columns["x"]
    assert np.flatnonzero(column.is_missing(values)).tolist() == LOST
    assert (values[LOST] == -9.9).all()
    assert np.allclose(np.delete(values, LOST), np.delete(TENS, LOST))


@pytest.mark.parametrize(
    ("short", "code"),
    [
        (np.float32, -99.7),
        (np.float32, 999999.9),
        (np.float32, -1234567.8),
        (np.float16, -99.7),
        (np.float16, Decimal("-99.7")),
    ],
)
def test_a_code_beyond_the_bounds_is_found_whatever_type_it_had_before(short, code):
    as_short = np.array([1.5, code, 2.0], short).astype(np.float64)
    schema = Schema.from_frame({"x": as_short}, bounds={"x": (0, 10)}, missing={"x": [code]})
    values = table_of(schema, columns_of({"x": as_short})).columns["x"]
    assert values.tolist() == [1.5, float(code), 2.0]


@pytest.mark.parametrize("text", ["123456790.0", "123456792.0", "1.2345679e+08"])
def test_a_code_that_was_written_with_the_digits_of_a_float32_is_found(text):
    data, code = {"x": [1.5, float(text), 2.0]}, 123456789
    schema = Schema.from_frame(data, bounds={"x": (0, 10)}, missing={"x": [code]})
    assert table_of(schema, data).columns["x"].tolist() == [1.5, code, 2.0]
    wide = Schema.from_frame(data, bounds={"x": (0, 1e9)}, missing={"x": [code]})
    assert table_of(wide, data).columns["x"].tolist() == data["x"]


@pytest.mark.parametrize("given", [b"x", bytearray(b"x"), "x"])
def test_codes_and_spikes_that_are_bytes_are_no_list(given):
    with pytest.raises(ValueError, match="missing codes of 'x' must be a list"):
        NumberColumn(name="x", lower=0, upper=200, missing=given)
    with pytest.raises(ValueError, match="spikes of 'x' must be a list"):
        NumberColumn(name="x", lower=0, upper=200, spikes=given)


def test_a_value_of_few_digits_within_the_bounds_is_no_code():
    """99.6875 is 99.7 in half precision, and a price in sixteenths of its own."""
    prices = {"x": np.array([99.6875, 99.7, 1.0])}
    schema = Schema.from_frame(prices, bounds={"x": (0, 200)}, missing={"x": [99.7]})
    (column,) = schema.columns
    values = table_of(schema, columns_of(prices)).columns["x"]
    assert column.is_missing(values).tolist() == [False, True, False]


def test_two_codes_that_a_short_type_brings_together_stay_two():
    codes = [-9.9, -9.8984375]
    data = {"x": np.array([*codes, 1.0])}
    schema = Schema.from_frame(data, bounds={"x": (0, 10)}, missing={"x": codes})
    assert table_of(schema, columns_of(data)).columns["x"].tolist() == [*codes, 1.0]


@pytest.mark.parametrize("code", [10**400, Decimal("nan"), Decimal("inf")])
def test_a_code_that_is_no_finite_number_is_refused(code):
    with pytest.raises(ValueError, match="must be finite numbers"):
        NumberColumn(name="x", lower=0, upper=1, missing=(code,))


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        (np.float32, 1e20),
        (np.float32, 123456789),
        (np.float32, 0.1),
        (np.float16, -999.9),
        (np.int8, -128),
        (np.int16, -999),
        (np.int32, -(2**31)),
        (np.int64, -(2**63)),
        (np.int64, 2**63 - 1),
        (np.int64, 2**53 + 1),
        (np.uint8, 255),
        (np.uint64, 2**64 - 1),
        (np.float64, 1e20),
        (np.float64, 999999999),
    ],
)
def test_codes_at_the_ends_of_types_are_found(dtype, code):
    data = {"x": np.array([1, code, 2], dtype)}
    schema = Schema.from_frame(data, bounds={"x": (0, 10)}, missing={"x": [1.0, code]})
    values = table_of(schema, data).columns["x"]
    assert schema.columns[0].is_missing(values).tolist() == [True, True, False]


IMPOSSIBLE = {
    "a fraction of whole numbers": (np.array([1, 2]), -9.5, "int64"),
    "below zero of numbers without a sign": (np.array([1, 2], np.uint8), -9, "uint8"),
    "too large for int8": (np.array([1, 2], np.int8), 999, "int8"),
    "too large for int64": (np.array([1, 2]), 1e20, "int64"),
    "too large for float16": (np.array([1, 2], np.float16), 99999, "float16"),
    "too large for float32": (np.array([1, 2], np.float32), 1e40, "float32"),
    "too small for float32": (np.array([0, 2], np.float32), 1e-60, "float32"),
    "truth values": (np.array([True, False]), -9, "bool"),
    "pandas": (pandas.Series([1, 2], dtype="UInt8"), -9, "uint8"),
    "a decimal with fewer digits": (pa.array(DECIMALS, pa.decimal128(10, 2)), -9.999, "decimal"),
    "a decimal too large": (pa.array(DECIMALS, pa.decimal128(4, 2)), 999, "decimal(4, 2)"),
    "a decimal far too large": (pa.array(DECIMALS, pa.decimal128(38, 10)), 1e30, "decimal"),
}


@pytest.mark.parametrize(("values", "code", "type"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_code_that_no_value_can_equal_is_refused(values, code, type):
    data, budget = {"x": values, "y": [0.5] * len(values)}, Budget(epsilon=1, delta=1e-6)
    bounds = {"x": (0, 10), "y": (0, 2)}
    with pytest.raises(ValueError, match=r"'x'.*missing code.*declare the one") as caught:
        Schema.from_frame(data, bounds=bounds, missing={"x": [code]})
    assert type in str(caught.value)
    plain = {"x": [1.0, 2.0] * (len(values) // 2), "y": data["y"]}
    schema = Schema.from_frame(plain, bounds=bounds, missing={"x": [code]})
    with pytest.raises(ValueError, match=r"'x'.*missing code"):
        sample("y ~ x", data, schema, epsilon=1, budget=budget, progress=False)
    assert budget.remaining == pytest.approx(1)


def test_a_double_near_a_code_is_no_code():
    """What was a float32 has many digits; a number with few is itself."""
    data = {"x": [1e9, 16777216.0, -9.8984375, -9.90000001]}
    codes = [999999999, 16777217, -9.9]
    schema = Schema.from_frame(data, bounds={"x": (-1e10, 1e10)}, missing={"x": codes})
    values = table_of(schema, data).columns["x"]
    assert values.tolist() == data["x"]
    assert not schema.columns[0].is_missing(values).any()


def test_a_value_beyond_a_bound_that_is_a_code_stays_a_value():
    column = NumberColumn(name="x", lower=0, upper=99, missing=(99, 0))
    values = column.clamped(np.array([150.0, 99.0, 98.0, 0.0, -5.0]))
    assert column.is_missing(values).tolist() == [False, True, False, True, False]
    assert np.allclose(values, [99, 99, 98, 0, 0])
    assert values.min() == 0
    assert values.max() == 99


def test_rows_with_a_code_in_float32_are_left_out_of_a_fit():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 20_000).astype(np.float32)
    y = 1 + 0.5 * x + rng.normal(size=20_000)
    x[:6000] = -9.9
    data = {"x": x, "y": y}
    schema = Schema.from_frame(data, bounds={"x": (0, 10), "y": (-5, 15)}, missing={"x": [-9.9]})
    fit = sample("y ~ x", data, schema, epsilon=2, progress=False)
    intercept, slope, _ = fit.summary(mixing=False)
    assert abs(slope.mean - 0.5) < 5 * slope.sd
    assert abs(intercept.mean - 1) < 5 * intercept.sd
    with pytest.raises(SpecError, match="is a missing code"):
        fit.predict([{"x": np.float32(-9.9)}])
