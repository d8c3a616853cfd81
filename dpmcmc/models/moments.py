"""What the planner takes the rows of a public design to be like, before it has seen any.

The constants are those of public data: experiments/ess_law.py, part 5.
"""

import numpy as np

from dpmcmc.design import Design, Factor, column_of
from dpmcmc.models.forms import Floats
from dpmcmc.schema import NumberColumn, Schema

OFF, FILL = 0.1, 0.4  # mean of a number within [-1, 1], and its sd
FAR = 2.0  # largest coefficient of such columns, in units of its row's predictor


def second_moments(design: Design) -> Floats:
    """E x x^T for rows that fill their declared domain as real ones do: see _mean_product."""
    d = len(design.terms)
    moments = np.empty((d, d))
    for i, left in enumerate(design.terms):
        for j, right in enumerate(design.terms):
            moments[i, j] = _mean_product(design.schema, left + right)
    return moments


def _mean_product(schema: Schema, factors: tuple[Factor, ...]) -> float:
    """Mean of a product of factors, columns independent.

    A number is OFF + FILL or OFF - FILL; of K categories each but the first has probability
    1 / (K + 1), since rare ones are the rule.
    """
    mean = 1.0
    for name in {factor.column for factor in factors}:
        codes = [factor.code for factor in factors if factor.column == name]
        column = column_of(schema, name)
        if isinstance(column, NumberColumn):
            mean *= 0.5 * ((OFF + FILL) ** len(codes) + (OFF - FILL) ** len(codes))
        else:
            mean *= 1.0 / (len(column.categories) + 1) if len(set(codes)) == 1 else 0.0
    return mean
