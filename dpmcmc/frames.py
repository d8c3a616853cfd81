"""Data frames of any library as columns: by narwhals, the Arrow stream or `__dataframe__`."""

from collections.abc import Mapping, Sequence, Sized
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

READERS = (  # who reads what has `__dataframe__` alone, and by which call
    ("pyarrow.interchange", "from_dataframe"),
    ("polars", "from_dataframe"),
    ("pandas.api.interchange", "from_dataframe"),
)
NEEDED = "a data frame or a mapping of columns is needed"


def columns_of(data: object) -> Mapping[str, Sequence[object]]:
    """Return column name -> values of a mapping, or of any data frame.

    A value that is missing is None or not a number. Raises TypeError where it is neither a mapping
    nor a frame, ValueError where two columns have one name, or values come without a length.
    """
    if isinstance(data, Mapping):
        for name, values in data.items():
            if isinstance(values, str) or not isinstance(values, Sized):
                raise ValueError(f"column {name!r} must be a list or an array of values")
        return data
    frame = _frame(data)
    return {name: _values(frame[name]) for name in frame.columns}


def rows_of(columns: Mapping[str, Sequence[object]]) -> int:
    """Return the number of rows. Raises ValueError where columns differ in length."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError("all columns need the same number of values, and there must be one")
    return lengths.pop()


def _values(series: Any) -> Sequence[object]:
    """Return a column's values. Codes of categories have none for a missing value: a list has."""
    found = series.to_list() if series.null_count() else series.to_numpy()
    return cast("Sequence[object]", found)


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
    """Return what has an Arrow stream or `__dataframe__` as a frame. Raises TypeError."""
    import narwhals

    kind = type(data).__name__
    streams, exchanges = (hasattr(data, f"__{one}__") for one in ("arrow_c_stream", "dataframe"))
    if isinstance(data, type) or not (streams or exchanges):
        raise TypeError(f"{NEEDED}, not {kind}") from None
    try:
        for backend in ("pyarrow", "polars"):
            if streams and find_spec(backend):
                return narwhals.from_arrow(cast("Any", data), backend=backend).to_native()
        for home, call in READERS:
            if exchanges and find_spec(home.partition(".")[0]):
                return getattr(import_module(home), call)(data)
    except ValueError:  # a stream of one column
        raise TypeError(f"{NEEDED}, not {kind}") from None
    raise TypeError(f"to read a {kind}, install pyarrow, polars or pandas") from None
