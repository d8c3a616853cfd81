"""Cuts between ordered categories, which stand in the place of an intercept.

Coefficients are k cuts in order, and then a slope for every column of a design but its first, the
intercept. A row x has k predictors, cut - slopes @ x: the log odds of a category up to each cut.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.names import INTERCEPT
from dpmcmc.formula.design import Design

Floats = NDArray[np.float64]


def count(design: Design, parameters: Sequence[str]) -> int:
    """Return how many cuts parameters begin with; 0 where an intercept has a parameter, or none is.

    parameters: names of all of a model's.
    """
    names = design.parameters
    if names[0] != INTERCEPT or any(name.split(":")[-1] == INTERCEPT for name in parameters):
        return 0
    return len(parameters) - len(names) + 1


def spread_out(cuts: int, columns: int) -> Floats:
    """Return (k d, p), which takes coefficients (p,) to those of each predictor (k, d) in turn.

    cuts: k. columns: d, of the design, so that p = k + d - 1.
    """
    matrix = np.zeros((cuts, columns, cuts + columns - 1))
    matrix[range(cuts), 0, range(cuts)] = 1.0
    matrix[:, range(1, columns), range(cuts, cuts + columns - 1)] = -1.0
    return matrix.reshape(cuts * columns, -1)
