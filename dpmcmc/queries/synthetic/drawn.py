"""Synthetic rows: cells drawn from probabilities, and the columns of these cells."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.schema import DateColumn, NumberColumn
from dpmcmc.mechanisms.axes import Axis
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Values = (
    NDArray[np.float64]
    | NDArray[np.int64]
    | NDArray[np.str_]
    | NDArray[np.object_]
    | NDArray[np.datetime64]
)
MOST_TILT = 20.0  # of the logarithm of a density over a bin


def rows_of(probabilities: Floats, count: int, random: RandomSource) -> NDArray[np.intp]:
    """Return cells of `count` independent rows. probabilities: (cells,)."""
    ends = np.cumsum(probabilities)
    unclipped = np.searchsorted(ends, random.uniforms((count,)) * ends[-1], side="right")
    cells: NDArray[np.intp] = np.minimum(unclipped, len(ends) - 1)
    return cells


def levels(axes: Sequence[Axis], cells: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Return the level of each column in each of these cells."""
    return np.unravel_index(cells, [axis.size for axis in axes])


def within(axis: Axis, level: NDArray[np.intp], tilts: Floats, random: RandomSource) -> Floats:
    """Return the position of each row's number within its bin, from 0 to below 1.

    tilts: (bins,) increase of the log density over each bin, see `tilts_of`.
    """
    if axis.edges is None:
        return np.zeros(0)
    uniform, tilt = random.uniforms(level.shape), tilts[np.minimum(level, axis.bins - 1)]
    flat = np.abs(tilt) < 1e-6
    steep = np.where(flat, 1.0, tilt)
    tilted = np.log1p(uniform * np.expm1(steep)) / steep
    position: Floats = np.clip(np.where(flat, uniform, tilted), 0.0, 1.0 - 2.0**-53)
    return position


def numbers_in(axis: Axis) -> Floats:
    """Return the sizes (bins,) of bins: the width, or the number of whole numbers in a bin.

    Spikes are not counted, unless a bin has nothing else.
    """
    width: Floats = np.diff(np.array(axis.edges))
    if not (isinstance(axis.column, NumberColumn) and axis.column.integer):
        return width
    spikes, _ = np.histogram(axis.spikes, np.array(axis.edges))
    count: Floats = np.where(width > spikes, width - spikes, width)
    return count


def tilts_of(axis: Axis, shares: Floats, rows: int) -> Floats:
    """Return the increase (bins,) of the log density over each bin.

    shares: (levels,) of the rows in each level, by the model. The slope is the smaller of those to
    both neighbouring bins, and 0 if they differ in sign (minmod limiter): exact for an exponential
    density. An empty bin counts as half a row.
    """
    if axis.bins < 2:
        return np.zeros(axis.bins)
    edges, numbers = np.array(axis.edges), numbers_in(axis)
    middle = 0.5 * (edges[1:] + edges[:-1])
    logs = np.log(np.maximum(shares[: axis.bins], 0.5 / rows) / numbers)
    slope = np.diff(logs) / np.diff(middle)
    left, right = np.append(slope[:1], slope), np.append(slope, slope[-1:])
    least = np.where(np.abs(left) < np.abs(right), left, right)
    tilts = np.where(left * right > 0.0, least, 0.0) * np.diff(edges)
    return np.asarray(np.clip(tilts, -MOST_TILT, MOST_TILT))


def values(axis: Axis, level: NDArray[np.intp], position: Floats) -> Values:
    """Return the values of these levels: categories, or numbers at positions within their bins."""
    column = axis.column
    if not isinstance(column, NumberColumn):
        words = np.array(column.categories)
        if not column.missing:
            return words[level]
        drawn: NDArray[np.object_] = words[np.minimum(level, len(words) - 1)].astype(np.object_)
        drawn[column.is_missing(level)] = None
        return drawn
    edges, bin_of = np.array(axis.edges or ()), np.minimum(level, axis.bins - 1)
    if column.integer:
        numbers = _whole(axis, bin_of, position)
    else:
        numbers = np.minimum(edges[bin_of] + position * np.diff(edges)[bin_of], column.upper)
    if axis.spikes:
        spike_number = np.clip(level - axis.bins, 0, len(axis.spikes) - 1)
        numbers = np.where(level >= axis.bins, np.array(axis.spikes)[spike_number], numbers)
    if column.missing:
        missing = np.nan if column.empty else column.missing[0]
        numbers = np.where(level == axis.bins + len(axis.spikes), missing, numbers)
    if isinstance(column, DateColumn):
        return column.dates_of(numbers)
    if column.missing and (column.empty or not float(column.missing[0]).is_integer()):
        return np.asarray(numbers)
    return numbers.astype(np.int64) if column.integer else np.asarray(numbers)


def _whole(axis: Axis, bin_of: NDArray[np.intp], position: Floats) -> Floats:
    """Return whole numbers within bins, without spikes, which have their own levels."""
    edges, numbers_of = np.array(axis.edges), numbers_in(axis)
    numbers = np.ceil(edges[bin_of]) + np.floor(position * numbers_of[bin_of])
    with_spikes = numbers_of < np.diff(edges)
    for spike in axis.spikes:
        passed = (edges[bin_of] < spike) & (spike < edges[bin_of + 1]) & with_spikes[bin_of]
        numbers = numbers + (passed & (numbers >= spike))
    return np.asarray(numbers)
