"""Columns of a design that depend on one another in every row that the schema allows.

No data tell their coefficients apart, so such a formula is refused before it costs anything. It
is looked at on public points that are always the same. Columns that only the rows at hand make
agree cannot be seen without them: their coefficients keep the prior along the direction that is
not told.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.columns import Floats
from dpmcmc.formula.design import POINTER, Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn, Table

POINTS, EACH = 2048, 64  # rows that are looked at: at least, and for each column
RESIDUAL_TOLERANCE = 1e-11  # of a column's length, once what others explain is taken off: rounding
MIN_EIGENVALUE = 1e-9  # smallest eigenvalue of correlations, above which no column is near that
MAX_NEGATIVE_EXPONENT = 16.0  # minus the power of 10 of the distance to an end of a number's bounds
SPLITMIX_CONSTANTS = tuple(
    map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
)


@lru_cache(maxsize=256)  # the same question is planned at one budget after the other
def check_dependence(design: Design) -> None:
    """Refuse columns that are a sum of others whatever the row: SpecError."""
    if design.answer is None:
        return
    x = _points(design)
    lengths = np.sqrt((x**2).sum(axis=1))
    seen = np.flatnonzero(lengths > 0.0)
    x = x[seen] / lengths[seen, None]
    if len(x) == 0 or np.linalg.eigvalsh(x @ x.T)[0] > MIN_EIGENVALUE:
        return
    root: Floats = np.asarray(np.linalg.qr(x.T, mode="r"), dtype=np.float64)
    left = np.flatnonzero(np.abs(np.diag(root)) < RESIDUAL_TOLERANCE)
    if len(left) == 0:
        return
    last = int(left[0])
    weights = np.abs(np.linalg.solve(root[:last, :last], root[:last, last]))
    others = [seen[k] for k in np.flatnonzero(weights > 1e-6 * weights.max())]
    raise SpecError(POINTER, _why(design, int(seen[last]), [int(k) for k in others]))


def _why(design: Design, column: int, others: list[int]) -> str:
    """Say which columns, and what to do."""
    names = [repr(design.parameters[k]) for k in others]
    told = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{design.parameters[column]!r} follows from {told} in every possible row, so that nothing"
        " tells their coefficients apart; leave one of these terms out"
    )


def _points(design: Design) -> Floats:
    """Return the design (d, m) at random points of the declared domain, many of them at its ends.

    Functions may be steep there, and flat everywhere else.
    """
    count = max(POINTS, EACH * len(design.parameters))
    columns = {}
    for k, name in enumerate(design.covariates):
        column = column_of(design.schema, name)
        near, far, inner, side = (_scattered(count, 4 * k + part) for part in range(4))
        if isinstance(column, NumberColumn):
            part = inner * np.where(near < 0.5, 10.0 ** (-MAX_NEGATIVE_EXPONENT * far), 1.0)
            part = np.where(side < 0.5, part, 1.0 - part)
            columns[name] = column.lower * (1.0 - part) + column.upper * part
        else:
            columns[name] = (inner * len(column.categories)).astype(np.int32)
    table = Table(columns=columns, rows=count)
    with np.errstate(all="ignore"):
        return replace(design, answer=None).build(table)[0]


def _scattered(count: int, stream: int) -> Floats:
    """Return quasi-random numbers of [0, 1), the same in every call.

    Source: Steele, Lea and Flood 2014, SplitMix.
    """
    z = (
        np.arange(count, dtype=np.uint64) + np.uint64(stream << 32) + np.uint64(1)
    ) * SPLITMIX_CONSTANTS[0]
    z = (z ^ (z >> np.uint64(30))) * SPLITMIX_CONSTANTS[1]
    z = (z ^ (z >> np.uint64(27))) * SPLITMIX_CONSTANTS[2]
    return np.asarray(((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53, np.float64)
