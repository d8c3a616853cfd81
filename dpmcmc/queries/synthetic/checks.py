"""Checks of synthetic tables against the released marginals, and of the width of bins.

They use released counts and the model that tables are drawn from, and cost nothing.
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
    """Two measures of error of one column.

    open: largest error of its mean, since the positions of rows within a bin are unknown; in its
    sds, or in its distance to a bound if that is less. 0 of categories. off: share of the rows that
    the model has in other levels than the released counts, beyond the noise.
    """

    open: float
    off: float

    def reasons(self, axis: Axis) -> list[str]:
        """Return sentences on what is wrong, each with a remedy."""
        sentences = []
        if not self.open <= MOST_OPEN:
            sentences.append(
                f"the bins of {axis.name!r} are too wide for where its rows are: its mean may be"
                f" off by {100.0 * self.open:.0f} % of its sd or of itself. Declare narrower"
                " bounds, or spikes where many rows have the same value, or give bins that are"
                " narrow where most rows are"
            )
        if not self.off <= MOST_OFF:
            sentences.append(
                f"{100.0 * self.off:.0f} % of the rows are in other levels of {axis.name!r} than"
                " the released counts say: name fewer levels or marginals"
            )
        return sentences


def shares_of(model: LogLinear, probabilities: Floats) -> list[Floats]:
    """Return the share of rows in each level, (levels,) of each column.

    probabilities: (cells,).
    """
    full = np.zeros(model.combinations)
    full[model.possible] = probabilities
    table, columns = full.reshape(model.shape), range(len(model.shape))
    return [table.sum(axis=tuple(other for other in columns if other != k)) for k in columns]


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
    counts_of: list[list[tuple[Floats, float]]] = [[] for _ in axes]
    for marginal, part in zip(
        model.marginals, np.split(counts, np.cumsum(model.sizes)[:-1]), strict=True
    ):
        table = part.reshape([model.shape[k] for k in marginal])
        for axis_number, k in enumerate(marginal):
            others = tuple(other for other in range(len(marginal)) if other != axis_number)
            counts_of[k].append((table.sum(axis=others), table.size / model.shape[k]))
    return [
        Check(_open(axis, share), _off(by_marginal, share, sd, rows))
        for axis, by_marginal, share in zip(axes, counts_of, shares, strict=True)
    ]


def _off(by_marginal: Sequence[tuple[Floats, float]], share: Floats, sd: float, rows: int) -> float:
    """Return the measure `off`. by_marginal: counts of levels, and cells added for each count."""
    weight = sum(1.0 / cells for _, cells in by_marginal)
    mean = sum(counts / cells for counts, cells in by_marginal) / weight / rows
    noise = NOISE_SDS * sd / math.sqrt(weight) / rows
    return 0.5 * float(np.maximum(np.abs(mean - share) - noise, 0.0).sum())


def _open(axis: Axis, share: Floats) -> float:
    """Return the measure `open`.

    In a bin with more rows than the line between its neighbours' densities, the surplus may be
    anywhere: it counts with half of the bin's width.
    """
    column = axis.column
    if axis.edges is None or not isinstance(column, NumberColumn):
        return 0.0
    edges, numbers, bins = np.array(axis.edges), numbers_in(axis), axis.bins
    shares, middle = np.maximum(share[:bins], 0.0), 0.5 * (edges[1:] + edges[:-1])
    density = shares / numbers
    reach = 0.5 * (numbers - 1.0 if column.integer else numbers)
    left, right = np.append(density[1:2], density[:-1]), np.append(density[1:], density[-2:-1])
    line = 0.5 * (left + right) if bins > 1 else np.zeros(1)
    above = np.maximum(shares - line * numbers, 0.0)
    positions = np.concatenate((middle, axis.spikes))
    weight = np.concatenate((shares, np.maximum(share[bins : bins + len(axis.spikes)], 0.0)))
    total = float(weight.sum())
    if not total > 0.0:
        return 0.0
    mean = float(weight @ positions) / total
    variance = (float(weight @ (positions - mean) ** 2) + float(shares @ reach**2) / 3.0) / total
    scale = min(math.sqrt(variance), mean - column.lower, column.upper - mean)
    return float(above @ reach) / total / max(scale, 1e-12 * (column.upper - column.lower))
