"""The maximum entropy distribution with given marginals: a log-linear model over all cells.

p(cell) is proportional to exp(sum over the marginals of theta[cell's entry of the marginal]). Among
all distributions with its marginals it has the greatest entropy (Jaynes 1957), so that it adds
nothing that was not released.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogLinear:
    """shape: levels of each column. marginals: the columns' numbers, of each marginal.

    impossible: what no row can be: columns' numbers -> levels, together. Such combinations are left
    out of the cells.
    """

    shape: tuple[int, ...]
    marginals: tuple[tuple[int, ...], ...]
    impossible: tuple[Mapping[int, Sequence[int]], ...] = ()

    @property
    def combinations(self) -> int:
        """How many combinations of levels there are, impossible ones among them."""
        return math.prod(self.shape)

    @cached_property
    def possible(self) -> NDArray[np.intp]:
        """The combinations that are cells, (cells,), the last column fastest."""
        where = np.unravel_index(np.arange(self.combinations), self.shape)
        kept = np.ones(self.combinations, bool)
        for one in self.impossible:
            kept &= ~np.all([np.isin(where[k], levels) for k, levels in one.items()], axis=0)
        return np.flatnonzero(kept)

    @property
    def cells(self) -> int:
        """How many cells the model has."""
        return len(self.possible)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many entries each marginal has."""
        return tuple(math.prod(self.shape[k] for k in one) for one in self.marginals)

    @cached_property
    def by_cell(self) -> Any:
        """The (cells, entries) matrix of 0 and 1 that says which entries a cell belongs to."""
        first = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        where = np.unravel_index(self.possible, self.shape)
        parts = [
            start + np.ravel_multi_index([where[k] for k in one], [self.shape[k] for k in one])
            for start, one in zip(first, self.marginals, strict=True)
        ]
        entries = np.stack(parts, axis=1).ravel()
        ends = np.arange(0, len(entries) + 1, len(self.marginals))
        return csr_array((np.ones(len(entries)), entries, ends), (self.cells, sum(self.sizes)))

    @cached_property
    def by_entry(self) -> Any:
        """Its transpose, stored by rows: it makes marginals of probabilities."""
        return self.by_cell.T.tocsr()

    def probabilities(self, theta: Floats) -> Floats:
        """Return the cells' probabilities (cells, k) of parameters (entries, k)."""
        logits = self.by_cell @ theta
        weights = np.exp(logits - logits.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))

    def covariance(self, p: Floats) -> Floats:
        """Return the covariance of one row's entries under the probabilities p (cells,)."""
        mean = self.by_entry @ p
        second = (self.by_entry * p) @ self.by_cell
        return np.asarray(second.todense()) - np.outer(mean, mean)


def covers(shape: Sequence[int], marginals: Sequence[Sequence[int]]) -> bool:
    """Return whether every column is in a marginal."""
    return {k for one in marginals for k in one} == set(range(len(shape)))
