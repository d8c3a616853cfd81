"""The second moments of a design's rows that the planner assumes before it reads any row.

The constants are measured on public data by experiments/ess_per_step.py, part 5.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.families.forms import Floats
from dpmcmc.formula.columns import Factor
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn, Schema, Table

OFF, FILL = 0.1, 0.4  # mean of a number within [-1, 1], and its sd
LARGEST_COEFFICIENT = 2.0  # largest coefficient of such columns, in units of its row's predictor


SAMPLED_POINTS = 512  # at which a formula that computes with columns is looked at
LATTICE_STEPS = np.sqrt(
    np.array([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0, 31.0, 37.0])
)


def second_moments(design: Design) -> Floats:
    """Return E[x x^T] (d, d) of rows that fill their declared bounds as real ones do."""
    if any(factor.source is not None for term in design.terms for factor in term):
        return _at_points(design)
    d = len(design.terms)
    moments = np.empty((d, d))
    for i, left in enumerate(design.terms):
        for j, right in enumerate(design.terms):
            moments[i, j] = _mean_product(design.schema, left + right)
    return moments


def _at_points(design: Design) -> Floats:
    """Return E[x x^T] (d, d) as the mean over quasi-random public points, numbers being normal."""
    columns: dict[str, NDArray[np.float64] | NDArray[np.int32]] = {}
    for k, name in enumerate(design.covariates):
        steps = (
            np.arange(1, SAMPLED_POINTS + 1)
            * LATTICE_STEPS[k % len(LATTICE_STEPS)]
            * (1.0 + k // len(LATTICE_STEPS))
        )
        even, column = steps % 1.0, column_of(design.schema, name)
        if isinstance(column, NumberColumn):
            point = np.clip(OFF + FILL * ndtri(np.clip(even, 1e-9, 1.0 - 1e-9)), -1.0, 1.0)
            middle, half = _half(column)
            columns[name] = middle + half * point
        else:
            count = len(column.categories)
            rare = np.floor(even * (count + 1)).astype(np.int32)
            columns[name] = np.where(rare < count, rare, 0).astype(np.int32)
    x, _ = replace(design, answer=None).build(Table(columns=columns, rows=SAMPLED_POINTS))
    return np.asarray(x @ x.T / SAMPLED_POINTS)


def _mean_product(schema: Schema, factors: tuple[Factor, ...]) -> float:
    """Return the mean of a product of factors, where columns are independent.

    A number is OFF + FILL or OFF - FILL of half its range from its middle; of K categories each but
    the first has probability 1 / (K + 1), since rare ones are the rule.
    """
    mean = 1.0
    for name in dict.fromkeys(factor.column for factor in factors):
        of_column = [factor for factor in factors if factor.column == name]
        column = column_of(schema, name)
        if isinstance(column, NumberColumn):
            middle, half = _half(column)
            ends = [
                math.prod(point * (half / f.half) + (middle - f.middle) / f.half for f in of_column)
                for point in (OFF + FILL, OFF - FILL)
            ]
            mean *= 0.5 * sum(ends)
        elif len({factor.code for factor in of_column}) > 1:
            return 0.0
        else:
            mean *= (1.0 if of_column[0].code else 2.0) / (len(column.categories) + 1)
    return mean


def _half(column: NumberColumn) -> tuple[float, float]:
    """Return mid-range and half range of a column."""
    return 0.5 * column.lower + 0.5 * column.upper, 0.5 * column.upper - 0.5 * column.lower
