"""Public facts about a table: columns with declared bounds and categories, and the row count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.types import Neighbouring


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """A column of exactly two declared categories; the second one is coded as 1."""

    name: str
    categories: tuple[str, str]
    type: Literal["binary"] = "binary"


Column = NumberColumn | CategoryColumn | BinaryColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Everything about a dataset that is public. rows is public under replace_one."""

    columns: tuple[Column, ...]
    rows: int
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, clamped to their schema. columns: name -> (rows,) float64 for numbers (or a missing
    code), int32 codes into the declared categories otherwise. Only ever held as Private[Table]."""

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
    rows: int
