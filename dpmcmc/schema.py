"""Public facts about a table: columns with declared bounds and categories, and the row count."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpmcmc.errors import near
from dpmcmc.privacy.types import Neighbouring

LARGEST_BOUND = 1e30  # of a number that is modelled: inverses of sums of its squares stay finite


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """A numeric column. lower < upper: declared finite bounds; values outside are clamped.

    missing: codes, wherever they lie, that stand for no value. They are kept as they are, and a row
    with one in a column of a model is left out of that model. It counts as a row all the same.
    """

    name: str
    lower: float
    upper: float
    type: Literal["number"] = "number"
    missing: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))

    def clamped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values within the bounds, missing codes as they are."""
        within = np.clip(values, self.lower, self.upper)
        return np.where(self.is_missing(values), values, within) if self.missing else within

    def is_missing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are missing codes, compared exactly."""
        return np.isin(values, self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryColumn:
    """A column of declared categories (at least two, distinct)."""

    name: str
    categories: tuple[str, ...]
    type: Literal["category"] = "category"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", tuple(map(word_of, self.categories)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """A column of exactly two declared categories; the second one is coded as 1."""

    name: str
    categories: tuple[str, str]
    type: Literal["binary"] = "binary"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", tuple(map(word_of, self.categories)))


Column = NumberColumn | CategoryColumn | BinaryColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Everything about a dataset that is public. rows is public under replace_one.

    holders: where several data holders have the rows, how many each of them has, in the order of
    the rows; who holds a row is public then, and a replaced row stays with its holder. Raises
    ValueError where they do not add up to the rows.
    """

    columns: tuple[Column, ...]
    rows: int
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    holders: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "holders", tuple(self.holders))
        if self.holders and (min(self.holders) < 1 or sum(self.holders) != self.rows):
            raise ValueError("holders need a row each, and their rows add up to all rows")

    @classmethod
    def from_frame(
        cls,
        frame: object,
        bounds: Mapping[str, Sequence[object]],
        *,
        missing: Mapping[str, Sequence[float]] | None = None,
    ) -> "Schema":
        """Return the schema of a data frame: its number of rows, and what you declare of columns.

        frame: pandas, polars, Arrow or any other that narwhals reads, or column name -> values.
        bounds: of each column that is used, its bounds (lower, upper) where it holds numbers, or
        its categories as words; two categories make a binary column, whose second one is coded 1.
        missing: of number columns, the codes that stand for no value. Bounds and categories are
        public promises: state them from what is known of the world, not from these rows.
        Raises ValueError on a column that is not there, and on bounds that are none.
        """
        there = set(columns_of(frame))
        for name in (*bounds, *(missing or {})):
            if name not in there:
                raise ValueError(f"there is no column {name!r}{near(name, there)}")
        codes = missing or {}
        columns = tuple(_declared(name, told, codes.get(name, ())) for name, told in bounds.items())
        return cls(columns=columns, rows=rows_of(frame))


def columns_of(data: object) -> Mapping[str, Sequence[object]]:
    """Return column name -> values of a mapping, or of any data frame that narwhals reads.

    Raises TypeError where it is neither.
    """
    if isinstance(data, Mapping):
        return data
    import narwhals  # a service has no data frames, and starts without it

    try:
        frame: Any = narwhals.from_native(cast("Any", data), eager_only=True)
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"a data frame or a mapping of columns is needed, not {kind}") from None
    return {name: frame[name].to_numpy() for name in frame.columns}


def rows_of(data: object) -> int:
    """Return the number of rows. Raises ValueError where columns differ in length."""
    lengths = {len(values) for values in columns_of(data).values()}
    if len(lengths) != 1:
        raise ValueError("all columns need the same number of values, and there must be one")
    return lengths.pop()


def _declared(name: str, told: Sequence[object], missing: Sequence[float]) -> Column:
    """Return a column from its bounds or categories."""
    if isinstance(told, str) or not isinstance(told, Sized) or len(told) < 2:
        raise ValueError(f"{name!r} needs bounds (lower, upper) or two categories or more")
    numbers = [float(one) for one in told if isinstance(one, int | float)]
    if len(told) == len(numbers) == 2 and not all(isinstance(one, bool) for one in told):
        if not -np.inf < numbers[0] < numbers[1] < np.inf:
            raise ValueError(f"{name!r} needs finite bounds with lower below upper")
        return NumberColumn(name=name, lower=numbers[0], upper=numbers[1], missing=tuple(missing))
    words = tuple(map(word_of, told))
    if len(set(words)) < len(words):
        raise ValueError(f"{name!r} has the same category twice")
    if len(words) == 2:
        return BinaryColumn(name=name, categories=(words[0], words[1]))
    return CategoryColumn(name=name, categories=words)


def word_of(value: object) -> str:
    """Return a value as the name of its category: 1.0 as "1"."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, clamped to their schema. columns: name -> (rows,) float64 for numbers (or a missing
    code), int32 codes into the declared categories otherwise. Only ever held as Private[Table]."""

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
    rows: int
