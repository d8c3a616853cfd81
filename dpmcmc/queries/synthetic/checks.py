"""Whether synthetic tables have the columns that were released, and what bins leave open.

Made of released counts and of the model that tables are drawn from: nothing is charged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.mechanisms.axes import Axis
from dpmcmc.queries.synthetic.drawn import numbers_in
from dpmcmc.queries.synthetic.loglinear import LogLinear

Floats = NDArray[np.float64]
MOST_OPEN = 0.12  # sds of a column: a normal one of sds as wide as its bins has .1
MOST_OFF = 0.05  # part of the rows that may be in another level than was released, noise apart
NOISE_SDS = 4.0


@dataclass(frozen=True, slots=True)
class Check:
    """What is wrong with one column, in numbers.

    open: how far off its mean may be, as counts of bins say nothing of where in a bin rows are; in
    its sds, or in its distance to a bound where that is less. 0 of categories. off: part of the
    rows that the model has in other levels than the released counts do, beyond what noise explains.
    """

    open: float
    off: float

    def reasons(self, axis: Axis) -> list[str]:
        """Return what is wrong, in words, each with a remedy."""
        found = []
        if not self.open <= MOST_OPEN:
            found.append(
                f"the bins of {axis.name!r} are too wide for where its rows are: its mean may be"
                f" off by {100.0 * self.open:.0f} % of its sd or of itself. Declare narrower"
                " bounds, or spikes where many rows have the same value, or give bins that are"
                " narrow where most rows are"
            )
        if not self.off <= MOST_OFF:
            found.append(
                f"{100.0 * self.off:.0f} % of the rows are in other levels of {axis.name!r} than"
                " the released counts say: name fewer levels or marginals"
            )
        return found


def shares_of(model: LogLinear, probabilities: Floats) -> list[Floats]:
    """Return the share of rows in each level, (levels,) of each column.

    probabilities: (cells,).
    """
    full = np.zeros(model.combinations)
    full[model.possible] = probabilities
    table, every = full.reshape(model.shape), range(len(model.shape))
    return [table.sum(axis=tuple(other for other in every if other != k)) for k in every]


def checked(
    axes: Sequence[Axis],
    model: LogLinear,
    counts: Floats,
    sd: float,
    rows: int,
    shares: Sequence[Floats],
) -> list[Check]:
    """Return a check of each column.

    counts: as released, with noise of this sd. shares: of the model.
    """
    seen: list[list[tuple[Floats, float]]] = [[] for _ in axes]
    for one, part in zip(
        model.marginals, np.split(counts, np.cumsum(model.sizes)[:-1]), strict=True
    ):
        table = part.reshape([model.shape[k] for k in one])
        for at, k in enumerate(one):
            others = tuple(other for other in range(len(one)) if other != at)
            seen[k].append((table.sum(axis=others), table.size / model.shape[k]))
    return [
        Check(_open(axis, share), _off(own, share, sd, rows))
        for axis, own, share in zip(axes, seen, shares, strict=True)
    ]


def _off(seen: Sequence[tuple[Floats, float]], share: Floats, sd: float, rows: int) -> float:
    """seen: counts of levels by each marginal, and how many cells were added up for one."""
    weight = sum(1.0 / cells for _, cells in seen)
    mean = sum(counts / cells for counts, cells in seen) / weight / rows
    noise = NOISE_SDS * sd / math.sqrt(weight) / rows
    return 0.5 * float(np.maximum(np.abs(mean - share) - noise, 0.0).sum())


def _open(axis: Axis, share: Floats) -> float:
    """Return how far off the mean may be, in sds, or in distances to a bound that is nearer.

    Rows of a bin that has more than the line between its neighbours' densities may crowd anywhere
    in it: the part above that line counts with half of the bin's width.
    """
    column = axis.column
    if axis.edges is None or not isinstance(column, NumberColumn):
        return 0.0
    edges, room, bins = np.array(axis.edges), numbers_in(axis), axis.bins
    own, middle = np.maximum(share[:bins], 0.0), 0.5 * (edges[1:] + edges[:-1])
    density = own / room
    reach = 0.5 * (room - 1.0 if column.integer else room)
    left, right = np.append(density[1:2], density[:-1]), np.append(density[1:], density[-2:-1])
    line = 0.5 * (left + right) if bins > 1 else np.zeros(1)
    above = np.maximum(own - line * room, 0.0)
    places = np.concatenate((middle, axis.spikes))
    weight = np.concatenate((own, np.maximum(share[bins : bins + len(axis.spikes)], 0.0)))
    total = float(weight.sum())
    if not total > 0.0:
        return 0.0
    mean = float(weight @ places) / total
    variance = (float(weight @ (places - mean) ** 2) + float(own @ reach**2) / 3.0) / total
    scale = min(math.sqrt(variance), mean - column.lower, column.upper - mean)
    return float(above @ reach) / total / max(scale, 1e-12 * (column.upper - column.lower))
