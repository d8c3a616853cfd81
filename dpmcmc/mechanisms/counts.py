"""Counts of the cells of contingency tables, and their release. Proof: docs/proofs/tables.md."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import Table
from dpmcmc.mechanisms.axes import Axis
from dpmcmc.mechanisms.sums import release_sums
from dpmcmc.privacy.discrete import scale_of
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import RELEASED_COUNTS

Floats = NDArray[np.float64]
TABLE_SENSITIVITY = math.sqrt(2.0)  # L2 change of a table of counts when one row is replaced
MOST_CELLS = 2**22  # of all tables of one release together


def cells(table: Sequence[Axis]) -> int:
    """Return the number of cells of a contingency table with these axes."""
    return math.prod(axis.size for axis in table)


def check_cells(tables: Sequence[Sequence[Axis]]) -> None:
    """Refuse more cells than are useful to release. Raises SpecError."""
    if sum(map(cells, tables)) > MOST_CELLS:
        raise SpecError("/marginals", f"have more than {MOST_CELLS} cells: take fewer or coarser")


def counted(rows: Table, table: Sequence[Axis]) -> Floats:
    """Return the exact counts of the cells, flat, last axis fastest. Not released."""
    codes = np.zeros(rows.rows, np.int64)
    for axis in table:
        codes = codes * axis.size + axis.codes(rows)
    used = None if rows.present is None else rows.present.astype(np.float64)
    # weighted, and not selected: how long it takes must not tell how many rows are in use
    return np.bincount(codes, used, minlength=cells(table)).astype(np.float64)


def released(
    statistic: Floats, parts: int, noise_multiplier: float, random: RandomSource
) -> Floats:
    """Return noisy counts. statistic: of `parts` tables, each of L2 sensitivity sqrt(2).

    statistic: (d,). Privacy: one event Gaussian(noise_multiplier), under replace-one, for all of
    them. Noise of sd noise_sd(d, parts, noise_multiplier) on each number.
    Proof: docs/proofs/tables.md. Raises ValueError on a multiplier that the proof leaves out.
    """
    together = TABLE_SENSITIVITY * math.sqrt(parts)
    return release_sums(random, RELEASED_COUNTS, [statistic], together, noise_multiplier)[0]


def noise_sd(dimension: int, parts: int, noise_multiplier: float) -> float:
    """Return the sd of the noise of `released`, with the margin for rounding."""
    unit, sd = scale_of(noise_multiplier, dimension)
    return TABLE_SENSITIVITY * math.sqrt(parts) * unit * sd
