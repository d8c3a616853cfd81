"""Checks of synthetic tables: the noise of the marginals, the width of bins, the fit of the model.

They use public facts, released counts and the model that tables are drawn from, and cost nothing.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.mechanisms.axes import Axis
from dpmcmc.queries.synthetic.drawn import numbers_in
from dpmcmc.queries.synthetic.loglinear import LogLinear

Floats = NDArray[np.float64]
MOST_OPEN = 0.12  # sds of a column: a normal one of sds as wide as its bins has .1
MOST_OF_MEAN = 0.2  # sds of a column: error of its mean by noise
MOST_OF_CORRELATION = 0.15  # error of a correlation by noise
BOUNDS_IN_SDS = 6.0  # distance of the bounds, before anything is released
MOST_OFF = 0.05  # part of the rows that may be in another level than was released, noise apart
NOISE_SDS = 4.0


@dataclass(frozen=True, slots=True)
class NoiseErrors:
    """Standard deviations of the errors of a table that the noise of the counts causes.

    of_mean: by column, of its mean, in sds of the column; of categories, of the share of the
    commonest one. of_correlation: by pair of columns that are in one marginal.
    """

    of_mean: Mapping[str, float]
    of_correlation: Mapping[tuple[str, str], float]

    @property
    def excess(self) -> float:
        """The largest error over what is tolerated. Above 1 the tables are not reliable."""
        means = (error / MOST_OF_MEAN for error in self.of_mean.values())
        pairs = (error / MOST_OF_CORRELATION for error in self.of_correlation.values())
        return max(*means, *pairs, 0.0)

    def reasons(self) -> list[str]:
        """Return a sentence on the worst mean and on the worst correlation, if not tolerated."""
        sentences, name = [], max(self.of_mean, key=lambda name: self.of_mean[name])
        if not self.of_mean[name] <= MOST_OF_MEAN:
            error = f"{self.of_mean[name]:.2g} of its sds"
            sentences.append(f"noise alone moves the mean of {name!r} by about {error}")
        pairs = self.of_correlation
        if pairs:
            a, b = max(pairs, key=lambda pair: pairs[pair])
            if not pairs[a, b] <= MOST_OF_CORRELATION:
                error = f"{pairs[a, b]:.2g}" if pairs[a, b] < 1.0 else "all that is possible"
                sentences.append(
                    f"noise alone moves the correlation of {a!r} and {b!r} by about {error}"
                )
        return sentences

    def __str__(self) -> str:
        mean = f"noise moves means by about {max(self.of_mean.values()):.1g} sds at most"
        if not self.of_correlation:
            return mean
        return f"{mean}, correlations by {max(self.of_correlation.values()):.1g}"


def noise_errors(
    axes: Sequence[Axis], model: LogLinear, sd: float, rows: int, counts: Floats | None = None
) -> NoiseErrors:
    """Return the errors that noise of this sd in each count causes.

    counts: as released. Without them the sd of a number column is taken as its bounds' distance
    over BOUNDS_IN_SDS, and categories as equally common. The sum of counts * scores has the sd of a
    count's noise times the norm of the scores; scores of two columns multiply.
    """
    norms = []
    for k, axis in enumerate(axes):
        share = None if counts is None else _noisy_share(model, counts, k)
        norms.append(float(np.linalg.norm(_scores(axis, share))))
    pairs = {pair for m in model.marginals for pair in itertools.combinations(sorted(m), 2)}
    return NoiseErrors(
        {axis.name: _sd_of(model, sd, (k,)) / rows * norms[k] for k, axis in enumerate(axes)},
        {
            (axes[a].name, axes[b].name): _sd_of(model, sd, (a, b)) / rows * norms[a] * norms[b]
            for a, b in sorted(pairs)
        },
    )


def _sd_of(model: LogLinear, sd: float, columns: tuple[int, ...]) -> float:
    """Return the sd of noise of the counts of some columns' levels.

    Each marginal that has the columns gives these counts; they are averaged, weighted by precision.
    """
    levels = math.prod(model.shape[k] for k in columns)
    having = (
        size
        for marginal, size in zip(model.marginals, model.sizes, strict=True)
        if set(columns) <= set(marginal)
    )
    return sd / math.sqrt(sum(levels / size for size in having))


def _noisy_share(model: LogLinear, counts: Floats, column: int) -> Floats:
    """Return the share of rows in each level of a column by the released counts, at least 0."""
    by_marginal = _counts_of(model, counts, column)
    mean = np.sum([part / cells for part, cells in by_marginal], axis=0)
    positive = np.maximum(mean, 0.0)
    total = float(positive.sum())
    return positive / total if total > 0.0 else np.full(len(mean), 1.0 / len(mean))


def _counts_of(model: LogLinear, counts: Floats, column: int) -> list[tuple[Floats, float]]:
    """Return a column's counts in each marginal that has it.

    Each with the number of released counts that are added for one level.
    """
    by_marginal = []
    parts = np.split(counts, np.cumsum(model.sizes)[:-1])
    for marginal, part in zip(model.marginals, parts, strict=True):
        if column in marginal:
            table = part.reshape([model.shape[k] for k in marginal])
            others = tuple(j for j, k in enumerate(marginal) if k != column)
            by_marginal.append((table.sum(axis=others), table.size / model.shape[column]))
    return by_marginal


def _scores(axis: Axis, share: Floats | None) -> Floats:
    """Return a score of each level, (levels,), standardised by the shares of the levels.

    Numbers: where the level is. Categories: whether it is the commonest one. Missing: 0.
    """
    column = axis.column
    if axis.edges is None or not isinstance(column, NumberColumn):
        common = 1.0 / axis.size if share is None else float(share.max())
        common = min(max(common, 0.01), 0.99)  # a single category has no other to be taken for
        scores = np.full(axis.size, -common)
        scores[0 if share is None else int(share.argmax())] += 1.0
        return scores / math.sqrt(common * (1.0 - common))
    edges = np.array(axis.edges)
    positions = np.concatenate((0.5 * (edges[1:] + edges[:-1]), axis.spikes))
    width = column.upper - column.lower
    mean, sd = 0.5 * (column.lower + column.upper), width / BOUNDS_IN_SDS
    if share is not None and share[: len(positions)].sum() > 0.0:
        weight = share[: len(positions)] / share[: len(positions)].sum()
        mean = float(weight @ positions)
        inside = float(weight[: axis.bins] @ np.diff(edges) ** 2) / 12.0
        sd = math.sqrt(float(weight @ (positions - mean) ** 2) + inside)
    scores = np.zeros(axis.size)
    scores[: len(positions)] = (positions - mean) / max(sd, 1e-12 * width)
    return scores


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
    return [
        Check(_open(axis, share), _off(_counts_of(model, counts, k), share, sd, rows))
        for k, (axis, share) in enumerate(zip(axes, shares, strict=True))
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
