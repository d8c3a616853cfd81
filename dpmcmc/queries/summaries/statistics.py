"""Summary statistics: means, quantiles and tables of counts, and their exact values on rows."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.inputs.schema import NumberColumn, Schema, Table
from dpmcmc.mechanisms.axes import Axis, axes
from dpmcmc.mechanisms.counts import TABLE_SENSITIVITY, cells, counted
from dpmcmc.planner.checks import check_kinds

Floats = NDArray[np.float64]
GRID = 2.0**30  # standardised numbers are rounded to multiples of 1 / GRID
# L2 change of (u, u^2, 1): docs/proofs/tables.md, section 1
MOMENT_SENSITIVITY = 2.0 * (1.0 + 2.0**-12)
QUANTILE_BINS = 64


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean and sd of a number column, over the rows where it is not missing.

    Parameters
    ----------
    column
        Name of a number column.

    Examples
    --------
    >>> Mean("dose")
    """

    column: str
    kind: Literal["mean"] = "mean"


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of a number column, from a noisy histogram.

    Parameters
    ----------
    column
        Name of a number column without missing codes.
    at
        Probabilities between 0 and 1.
    bins
        Number of bins of equal width between the declared bounds.

    Examples
    --------
    >>> Quantiles("dose", at=(0.5,))
    """

    column: str
    at: tuple[float, ...] = (0.25, 0.5, 0.75)
    bins: int = QUANTILE_BINS
    kind: Literal["quantiles"] = "quantiles"


@dataclass(frozen=True, slots=True)
class Counts:
    """A histogram of one column, or a contingency table of several.

    Parameters
    ----------
    columns
        Names of the columns.
    bins
        For number columns, by name: inner edges of bins, or a number of bins of equal width.

    Examples
    --------
    >>> Counts(("cured", "dose"), bins={"dose": 5})
    """

    columns: tuple[str, ...]
    bins: dict[str, int | tuple[float, ...]] = field(default_factory=dict)
    kind: Literal["counts"] = "counts"


Statistic = Mean | Quantiles | Counts


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A requested statistic with its axes. size: number of released values."""

    statistic: Statistic
    axes: tuple[Axis, ...]
    size: int

    @property
    def column(self) -> NumberColumn:
        """The number column of a mean or of quantiles."""
        column = self.axes[0].column
        if not isinstance(column, NumberColumn):
            raise TypeError("not a number column")
        return column

    def cells(self, rows: Table) -> NDArray[np.int64]:
        """Return what some of the rows add, in whole numbers (size,). Not released."""
        if self.statistic.kind == "mean":
            return moments(rows, self.column)
        return counted(rows, self.axes).astype(np.int64)

    def of(self, total: NDArray[np.int64]) -> Floats:
        """Return the statistic of all rows, of L2 sensitivity sqrt(2). Not released.

        total: what they add together.
        """
        if self.statistic.kind == "mean":
            steps = np.array([GRID, GRID, 1.0])
            return np.asarray(total / steps * (TABLE_SENSITIVITY / MOMENT_SENSITIVITY))
        return total.astype(np.float64)


def request_of(schema: Schema, statistic: Statistic) -> SummaryRequest:
    """Return the request for a statistic on a schema. Raises SpecError where it does not fit."""
    if not isinstance(statistic, get_args(Statistic)):
        remedy = 'must be Mean(column="x"), Quantiles(column="x") or Counts(columns=("x", "y"))'
        raise SpecError("/statistics", f"each of them {remedy}")
    check_kinds(statistic, "/statistics")
    if isinstance(statistic, Counts):
        if not set(statistic.bins) <= set(statistic.columns):
            raise SpecError("/statistics", "bins name a column that is not counted")
        found_axes = axes(schema, statistic.columns, statistic.bins)
        if not found_axes:
            raise SpecError("/statistics", "counts need a column")
        return SummaryRequest(statistic, found_axes, cells(found_axes))
    bins = statistic.bins if isinstance(statistic, Quantiles) else 1
    found_axes = axes(schema, (statistic.column,), {statistic.column: bins}, spikes=False)
    column = found_axes[0].column
    if not isinstance(column, NumberColumn):
        raise SpecError("/statistics", f"{statistic.column!r} is not a number column")
    if isinstance(statistic, Quantiles):
        if column.missing:
            raise SpecError("/statistics", f"{column.name!r} has missing codes: ask for its counts")
        at = statistic.at
        if not len(at) or not all(is_number(q) and 0.0 < q < 1.0 for q in at):
            raise SpecError("/statistics", "quantiles must lie between 0 and 1")
        return SummaryRequest(statistic, found_axes, cells(found_axes))
    return SummaryRequest(statistic, found_axes, 3)


def moments(rows: Table, column: NumberColumn) -> NDArray[np.int64]:
    """Return sums over rows of (u, u^2, 1), u standardised to [-1, 1]; missing values add 0.

    Exact in any order of rows: u and u^2 are rounded toward zero to multiples of 2^-30, and the
    first two sums are whole numbers of these.
    """
    values = rows.columns[column.name].astype(np.float64)
    present = ~column.is_missing(values)
    if rows.present is not None:
        present &= rows.present
    half = 0.5 * column.upper - 0.5 * column.lower
    middle = 0.5 * column.lower + 0.5 * column.upper
    u = np.where(present, np.clip((values - middle) / half, -1.0, 1.0), 0.0)
    u = np.trunc(u * GRID) / GRID
    first, second = (int(np.trunc(part * GRID).astype(np.int64).sum()) for part in (u, u * u))
    return np.array([first, second, int(present.sum())], np.int64)
