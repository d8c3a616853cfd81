"""Rows drawn from the probabilities of cells, and the columns that they stand for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.mechanisms.axes import Axis
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Values = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.str_]
MOST_TILT = 20.0  # of the logarithm of a density over a bin


def rows_of(probabilities: Floats, count: int, random: RandomSource) -> NDArray[np.intp]:
    """Return cells of `count` independent rows. probabilities: (cells,)."""
    ends = np.cumsum(probabilities)
    found = np.searchsorted(ends, random.uniforms((count,)) * ends[-1], side="right")
    kept: NDArray[np.intp] = np.minimum(found, len(ends) - 1)
    return kept


def levels(axes: Sequence[Axis], cells: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Return the level of each column in each of these cells."""
    return np.unravel_index(cells, [axis.size for axis in axes])


def within(axis: Axis, level: NDArray[np.intp], tilts: Floats, random: RandomSource) -> Floats:
    """Return where in its bin each row's number lies, from 0 to below 1.

    tilts: (bins,) by how much the logarithm of the density rises over each bin: see `tilts_of`.
    """
    if axis.edges is None:
        return np.zeros(0)
    uniform, tilt = random.uniforms(level.shape), tilts[np.minimum(level, axis.bins - 1)]
    flat = np.abs(tilt) < 1e-6
    steep = np.where(flat, 1.0, tilt)
    tilted = np.log1p(uniform * np.expm1(steep)) / steep
    place: Floats = np.clip(np.where(flat, uniform, tilted), 0.0, 1.0 - 2.0**-53)
    return place


def numbers_in(axis: Axis) -> Floats:
    """Return (bins,) how many numbers a bin has room for: its width, or how many whole ones.

    Spikes are apart, unless there is nothing else.
    """
    width: Floats = np.diff(np.array(axis.edges))
    if not (isinstance(axis.column, NumberColumn) and axis.column.integer):
        return width
    apart, _ = np.histogram(axis.spikes, np.array(axis.edges))
    room: Floats = np.where(width > apart, width - apart, width)
    return room


def tilts_of(axis: Axis, shares: Floats, rows: int) -> Floats:
    """Return (bins,) by how much the logarithm of the density rises over each bin.

    shares: (levels,) of the rows in each level, as the model has them. The slope is the smaller of
    those towards the bins on either side, and 0 where they differ in sign (minmod): exact where the
    density is exponential, as tails are, and none where nothing is known. Half a row stands for an
    empty bin.
    """
    if axis.bins < 2:
        return np.zeros(axis.bins)
    edges, room = np.array(axis.edges), numbers_in(axis)
    middle = 0.5 * (edges[1:] + edges[:-1])
    logs = np.log(np.maximum(shares[: axis.bins], 0.5 / rows) / room)
    slope = np.diff(logs) / np.diff(middle)
    left, right = np.append(slope[:1], slope), np.append(slope, slope[-1:])
    least = np.where(np.abs(left) < np.abs(right), left, right)
    tilts = np.where(left * right > 0.0, least, 0.0) * np.diff(edges)
    return np.asarray(np.clip(tilts, -MOST_TILT, MOST_TILT))


def values(axis: Axis, level: NDArray[np.intp], place: Floats) -> Values:
    """Return the column of these levels: words, or numbers within their bins."""
    column = axis.column
    if axis.edges is None or not isinstance(column, NumberColumn):
        return np.array(axis.labels)[level]
    edges, bin_of = np.array(axis.edges), np.minimum(level, axis.bins - 1)
    if column.integer:
        numbers = _whole(axis, bin_of, place)
    else:
        numbers = np.minimum(edges[bin_of] + place * np.diff(edges)[bin_of], column.upper)
    if axis.spikes:
        own = np.clip(level - axis.bins, 0, len(axis.spikes) - 1)
        numbers = np.where(level >= axis.bins, np.array(axis.spikes)[own], numbers)
    if column.missing:
        numbers = np.where(level == axis.bins + len(axis.spikes), column.missing[0], numbers)
        if not float(column.missing[0]).is_integer():
            return np.asarray(numbers)
    return numbers.astype(np.int64) if column.integer else np.asarray(numbers)


def _whole(axis: Axis, bin_of: NDArray[np.intp], place: Floats) -> Floats:
    """Return whole numbers of bins, none of them a spike that has a level of its own."""
    edges, room = np.array(axis.edges), numbers_in(axis)
    numbers = np.ceil(edges[bin_of]) + np.floor(place * room[bin_of])
    spared = room < np.diff(edges)
    for spike in axis.spikes:
        here = (edges[bin_of] < spike) & (spike < edges[bin_of + 1]) & spared[bin_of]
        numbers = numbers + (here & (numbers >= spike))
    return np.asarray(numbers)
