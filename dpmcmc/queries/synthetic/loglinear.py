"""The maximum entropy distribution with given marginals: a log-linear model over all cells.

p(cell) is proportional to exp(sum over the marginals of theta[cell's entry of the marginal]). Among
all distributions with its marginals it has the maximum entropy (Jaynes 1957).
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
    """A log-linear model over all possible combinations of levels, its cells.

    shape: number of levels of each column. marginals: numbers of the columns of each marginal.
    impossible: combinations without a cell, each as levels by the number of a column.
    """

    shape: tuple[int, ...]
    marginals: tuple[tuple[int, ...], ...]
    impossible: tuple[Mapping[int, Sequence[int]], ...] = ()

    @property
    def combinations(self) -> int:
        """Number of all combinations of levels, with the impossible ones."""
        return math.prod(self.shape)

    @cached_property
    def possible(self) -> NDArray[np.intp]:
        """The combinations that are cells, (cells,), the last column fastest."""
        level_of = np.unravel_index(np.arange(self.combinations), self.shape)
        is_possible = np.ones(self.combinations, bool)
        for combination in self.impossible:
            is_possible &= ~np.all(
                [np.isin(level_of[k], levels) for k, levels in combination.items()], axis=0
            )
        return np.flatnonzero(is_possible)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.possible)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of each marginal."""
        return tuple(math.prod(self.shape[k] for k in marginal) for marginal in self.marginals)

    @cached_property
    def by_cell(self) -> Any:
        """The (cells, entries) matrix that is 1 where a cell adds to an entry, else 0."""
        first = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        level_of = np.unravel_index(self.possible, self.shape)
        parts = [
            start
            + np.ravel_multi_index(
                [level_of[k] for k in marginal], [self.shape[k] for k in marginal]
            )
            for start, marginal in zip(first, self.marginals, strict=True)
        ]
        entries = np.stack(parts, axis=1).ravel()
        ends = np.arange(0, len(entries) + 1, len(self.marginals))
        return csr_array((np.ones(len(entries)), entries, ends), (self.cells, sum(self.sizes)))

    @cached_property
    def by_entry(self) -> Any:
        """The transpose of by_cell, stored by rows; it maps probabilities to marginals."""
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
    return {k for marginal in marginals for k in marginal} == set(range(len(shape)))
