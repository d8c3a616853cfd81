"""Rows drawn from the probabilities of cells, and the columns that they stand for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.contingency.axes import Axis
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.schema import NumberColumn

Floats = NDArray[np.float64]
Values = NDArray[np.float64] | NDArray[np.str_]


def rows_of(probabilities: Floats, count: int, random: RandomSource) -> NDArray[np.intp]:
    """Return cells of `count` independent rows. probabilities: (cells,)."""
    ends = np.cumsum(probabilities)
    found = np.searchsorted(ends, random.uniforms((count,)) * ends[-1], side="right")
    kept: NDArray[np.intp] = np.minimum(found, len(ends) - 1)
    return kept


def levels(axes: Sequence[Axis], cells: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Return the level of each column in each of these cells."""
    return np.unravel_index(cells, [axis.size for axis in axes])


def within(axis: Axis, count: int, random: RandomSource) -> Floats:
    """Return where in its bin each row's number lies, 0 to 1: uniform, as nothing more is known."""
    return random.uniforms((count,)) if axis.edges is not None else np.zeros(0)


def values(axis: Axis, level: NDArray[np.intp], place: Floats) -> Values:
    """Return the column of these levels: words, or numbers within their bins."""
    if axis.edges is None or not isinstance(axis.column, NumberColumn):
        return np.array(axis.labels)[level]
    edges = np.array(axis.edges)
    bin_of = np.minimum(level, len(edges) - 2)
    numbers = edges[bin_of] + place * np.diff(edges)[bin_of]
    if axis.column.missing:
        numbers = np.where(level == len(edges) - 1, axis.column.missing[0], numbers)
    return np.asarray(numbers)
