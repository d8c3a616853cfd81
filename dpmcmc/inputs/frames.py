"""Data frames of any library as columns: by narwhals, the Arrow stream or `__dataframe__`."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

READERS = (  # (module, function) that reads objects with `__dataframe__` alone
    ("pyarrow.interchange", "from_dataframe"),
    ("polars", "from_dataframe"),
    ("pandas.api.interchange", "from_dataframe"),
)
NEEDED = "a data frame or a mapping of columns is needed"
TABLES = ("columns", "schema", "data_vars")  # attributes of tables, one of each kind
NESTED = (list, tuple, set, np.ndarray)
EARLIER = (np.dtype(np.float32), np.dtype(np.float16))  # that a column may have been before
LONG = 12  # digits of what was a float32 before, and hardly any other number
WRITTEN = 15  # digits of a double in a text of R or a database


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A type of decimal numbers. precision: their digits; scale: how many are after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        """Return the type as it is written in Arrow and SQL."""
        return f"decimal({self.precision}, {self.scale})"


ValueType = np.dtype[Any] | DecimalType


class Decimals(list[object]):
    """The values of a column of decimal numbers, with their type."""

    def __init__(self, values: Sequence[object], type: DecimalType) -> None:
        super().__init__(values)
        self.type = type


def batches_of(
    data: object, names: Collection[str]
) -> Iterator[Mapping[str, Sequence[object]]] | None:
    """Return the named columns of an Arrow dataset or an iterator of frames, batch by batch.

    None of other data. Of a dataset no other column is read. Raises TypeError and ValueError as
    `columns_of` does, also while batches are taken.
    """
    if _is_dataset(data):
        source: Any = data
        wanted = _named_in(source, names)
        batches = source.to_batches(columns=wanted, batch_readahead=2, fragment_readahead=1)
    elif isinstance(data, Iterator) or hasattr(data, "read_next_batch"):
        batches = data
    else:
        return None
    return (_named(batch, names) for batch in batches)


def _named(batch: object, names: Collection[str]) -> Mapping[str, Sequence[object]]:
    """Return the named columns of a frame or a mapping."""
    if isinstance(batch, Mapping):
        return columns_of({name: values for name, values in batch.items() if name in names})
    frame = _frame(batch)
    return {name: _values(frame[name]) for name in frame.columns if name in names}


def _is_dataset(data: object) -> bool:
    """Return whether data are an Arrow dataset, whose rows are in files."""
    return hasattr(data, "count_rows") and hasattr(data, "to_batches") and hasattr(data, "schema")


def _named_in(dataset: Any, names: Collection[object] | None) -> list[str]:
    """Return the requested columns of an Arrow dataset; all where None.

    Raises ValueError where two columns have one name.
    """
    _check_once(dataset.schema.names)
    return [name for name in dataset.schema.names if names is None or name in names]


def _check_once(names: Sequence[str]) -> None:
    """Refuse a name that occurs twice."""
    if len(set(names)) < len(names):
        raise ValueError("two columns of the data frame have the same name: rename one")


def columns_of(
    data: object, names: Sequence[object] | None = None
) -> Mapping[str, Sequence[object]]:
    """Return column name -> values of a mapping, or of any data frame.

    names: columns that are needed of a dataset of Arrow, which are all that is read of it.

    A value that is missing is None or not a number. The pandas Series of a mapping, and arrays of
    xarray, are brought into the order of the first one's index, as pandas does. Raises TypeError
    where it is neither a mapping nor a frame, ValueError where two columns have one name, what a
    mapping has in the place of a column is none, or the indexes of Series do not have the same
    labels.
    """
    if isinstance(data, Mapping):
        native = {name: _native(values) for name, values in data.items()}
        for name, values in native.items():
            _check_column(name, values)
        return {name: _plain(values) for name, values in _aligned(native).items()}
    if _is_dataset(data):
        source: Any = data
        data = source.to_table(columns=_named_in(source, names))
    frame = _frame(data)
    return {name: _values(frame[name]) for name in frame.columns}


def _native(values: Any) -> Any:
    """Return the data behind narwhals' or xarray's object."""
    if hasattr(values, "to_native"):
        return values.to_native()
    is_array = hasattr(values, "coords") and hasattr(values, "to_series")
    return values.to_series() if is_array and values.ndim == 1 else values


def _check_column(name: object, values: Any) -> None:
    """Raise ValueError where a mapping's value is not a column."""
    names = getattr(getattr(values, "dtype", None), "names", None)
    if names or any(hasattr(type(values), table) for table in TABLES):
        raise ValueError(
            f"column {name!r} of this mapping is a table: give one of its columns, such as"
            f" table[{str(name)!r}], or the table alone in place of the mapping"
        )
    is_list = isinstance(values, Sized) and hasattr(values, "__getitem__")
    if not is_list or isinstance(values, str | bytes | Mapping) or hasattr(type(values), "ngroups"):
        raise ValueError(f"column {name!r} must be a list or an array of values")
    cells = values if isinstance(values, list | tuple) else ()
    if getattr(values, "ndim", 1) != 1 or any(isinstance(cell, NESTED) for cell in cells):
        raise ValueError(
            f"column {name!r} must have one dimension, a value for each row: give .ravel() of an"
            " array, or one value in the place of each list"
        )


def type_of(values: Sequence[object]) -> ValueType:
    """Return the type of the values of a column; object where each value has its own."""
    return values.type if isinstance(values, Decimals) else np.asarray(values).dtype


def representations(number: float, type: ValueType) -> tuple[float, ...]:
    """Return the doubles that may stand for this number in a column of this type.

    Empty where no value of the type can equal it. See `earlier` for columns of another type before.
    """
    number = float(number)
    if isinstance(type, DecimalType):
        exponent = Decimal(repr(number)).normalize().as_tuple().exponent
        representable = isinstance(exponent, int) and exponent >= -type.scale
        representable = representable and abs(Decimal(number)) < Decimal(10) ** (
            type.precision - type.scale
        )
        return (number,) if representable else ()
    if type.kind in "biu":
        least, most = (0, 1) if type.kind == "b" else (np.iinfo(type).min, np.iinfo(type).max)
        representable = number.is_integer() and float(least) <= number <= float(most)
        return (number,) if representable else ()
    if type.kind == "f" and type.itemsize < 8:
        return _rounded(number, type)
    return (number,)


def earlier(number: float, type: ValueType, lower: float, upper: float) -> tuple[float, ...]:
    """Return the doubles equal to this number in a column that had a shorter type.

    A float32 of -9.9 is -9.899999618530273 as a double, a float16 is -9.8984375. In a text with no
    more digits than its type needs, a float32 of 123456789 is 123456790. Within the bounds, where
    such a value may be one of its own, it has to have more digits than numbers usually have.
    """
    if isinstance(type, DecimalType) or type.kind in "biu":
        return ()
    size = type.itemsize if type.kind == "f" else np.dtype(np.float64).itemsize
    before = {
        double
        for shorter in EARLIER
        if shorter.itemsize < size
        for value in _rounded(number, shorter)
        for double in (value, float(str(shorter.type(value))))
    }
    if size >= np.dtype(np.float64).itemsize:
        before.add(float(f"{number:.{WRITTEN}g}"))
    return tuple(
        value
        for value in before
        if not lower <= value <= upper or len(Decimal(repr(value)).as_tuple().digits) >= LONG
    )


def _rounded(number: float, type: np.dtype[Any]) -> tuple[float, ...]:
    """Return the number rounded to a shorter type; an empty tuple where it is out of range."""
    with np.errstate(over="ignore", under="ignore"):
        short = float(np.float64(number).astype(type))
    return (short,) if np.isfinite(short) and (short == 0) == (number == 0) else ()


def rows_of(columns: Mapping[str, Sequence[object]]) -> int:
    """Return the number of rows. Raises ValueError where columns differ in length."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError("all columns need the same number of values, and there must be one")
    return lengths.pop()


def _aligned(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return columns with all pandas Series in the first one's order.

    Raises ValueError where their index labels differ.
    """
    series = {name: values for name, values in columns.items() if _is_indexed(values)}
    if len(series) < 2:
        return columns
    first, *others = series
    moved = {k: v for k in others if not (v := series[k]).index.equals(series[first].index)}
    if not moved:
        return columns
    index = series[first].index
    for name, values in moved.items():
        same = index.is_unique and values.index.is_unique and len(index) == len(values.index)
        if not same or not _has_labels(values, index):
            raise ValueError(
                f"the pandas Series of {first!r} and {name!r} have different indexes: take both"
                " from one data frame, or, where their rows are in the same order already, give"
                " .to_numpy() of each"
            )
    if len(series) < len(columns):
        raise ValueError(
            f"the pandas Series of {first!r} and {next(iter(moved))!r} have their indexes in"
            " different orders, and other columns have none: give a data frame"
        )
    return {k: v.reindex(index) if k in moved else v for k, v in columns.items()}


def _has_labels(values: Any, index: Any) -> bool:
    """Return whether an index has each label once, so that `reindex` is unambiguous.

    Of True and 1, which are equal, it finds neither; of intervals that overlap, none.
    """
    try:
        places = type(values)(range(len(values)), index=values.index).reindex(index)
    except ValueError:
        return False
    return bool(values.index.isin(index).all() and sorted(places) == list(range(len(values))))


def _is_indexed(values: object) -> bool:
    """Return whether values have an index, as a pandas Series."""
    return hasattr(values, "reindex") and hasattr(getattr(values, "index", None), "equals")


def _plain(values: Any) -> Sequence[object]:
    """Return the values of a mapping's column without changing their type."""
    if isinstance(values, list | tuple | np.ndarray):
        return cast("Sequence[object]", values)
    import narwhals

    dated = str(getattr(values, "type", "")).startswith(("date", "timestamp"))
    if dated and hasattr(values, "to_pylist") and not hasattr(values, "chunks"):
        import pyarrow

        values = pyarrow.chunked_array([values])  # which narwhals reads, with its time zone
    series: Any = narwhals.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, narwhals.Series):
        return _values(series)
    type = _decimal_type(values)
    return cast(
        "Sequence[object]", values if type is None else Decimals(list(np.asarray(values)), type)
    )


def _values(series: Any) -> Sequence[object]:
    """Return a column's values; as a list where some are missing, so that those are None."""
    type = _decimal_type(series.to_native())
    if type is not None:
        return Decimals(series.to_list(), type)
    if getattr(series.dtype, "time_zone", None):  # a day is one of the clock that the frame shows
        series = series.dt.replace_time_zone(None)
    values = series.to_list() if series.null_count() else series.to_numpy()
    return cast("Sequence[object]", values)


def _decimal_type(values: Any) -> DecimalType | None:
    """Return the decimal type of pandas, polars or Arrow values; None of others."""
    type = getattr(values, "dtype", None) or getattr(values, "type", None)
    type = getattr(type, "pyarrow_dtype", type)
    digits = getattr(type, "precision", None), getattr(type, "scale", None)
    if not all(isinstance(digit, int) for digit in digits):
        return None
    return DecimalType(*cast("tuple[int, int]", digits))


def _frame(data: object) -> Any:
    """Return data as narwhals reads it. Raises TypeError, ValueError."""
    import narwhals  # a service has no data frames, and starts without it
    from narwhals.exceptions import DuplicateError

    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        kind = type(data).__name__
        raise TypeError(f"{NEEDED}, and a {kind} is none yet: give it after .collect()")
    try:
        try:
            frame: Any = narwhals.from_native(cast("Any", data), eager_only=True)
        except TypeError:
            frame = narwhals.from_native(_exchanged(data), eager_only=True)
        names = frame.columns
    except DuplicateError:
        raise ValueError("two columns of the data frame have the same name: rename one") from None
    if not all(isinstance(name, str) for name in names):
        raise ValueError("the names of the data frame's columns must be words: rename them")
    return frame


def _exchanged(data: object) -> Any:
    """Return a frame from an object with an Arrow stream or `__dataframe__`. Raises TypeError."""
    import narwhals

    kind = type(data).__name__
    streams, exchanges = (
        hasattr(data, f"__{protocol}__") for protocol in ("arrow_c_stream", "dataframe")
    )
    if isinstance(data, type) or not (streams or exchanges):
        raise TypeError(f"{NEEDED}, not {kind}") from None
    try:
        for backend in ("pyarrow", "polars"):
            if streams and find_spec(backend):
                return narwhals.from_arrow(cast("Any", data), backend=backend).to_native()
        for module, call in READERS:
            if exchanges and find_spec(module.partition(".")[0]):
                return getattr(import_module(module), call)(data)
    except ValueError:  # a stream of one column
        raise TypeError(f"{NEEDED}, not {kind}") from None
    raise TypeError(f"to read a {kind}, install pyarrow, polars or pandas") from None


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # a decimal that signals that it is no number
        return True
