"""Public facts about a table: columns with declared bounds and categories, and the row count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.types import Neighbouring


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """A numeric column. lower < upper: declared finite bounds; values outside are clamped."""

    name: str
    lower: float
    upper: float
    type: Literal["number"] = "number"


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
    """Rows, clamped to their schema. columns: name -> (rows,) float64 for numbers,
    int32 codes into the declared categories otherwise. Only ever held as Private[Table]."""

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
    rows: int
