"""Coefficients in the units of the columns, from those of the standardised design, and back.

The map is linear, public and one to one. Columns of the design are linear combinations of the
columns of the formula, x = M' raw with M square, so that M theta are the coefficients of the raw
columns. Applied to released draws it is post-processing: nothing is charged. The intercept is then
the predictor where all raw terms are 0. Basis functions (poly, bs, cr) and categories have no other
unit.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import LOG_SCALES
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design

Floats = NDArray[np.float64]
Scale = Literal["original", "design"]
SCALES: tuple[Scale, ...] = ("original", "design")
ROWS_AT_ONCE = 65536  # at once


def matrix(design: Design, parameters: Sequence[str]) -> Floats:
    """Return M (p, p): parameters in units of columns are M times those of the design.

    parameters: one for each column of the design, or several such blocks, one for each category, or
    cuts in the place of the first; behind them perhaps the log of a scale and what smooths and
    groups have, which stay as they are, but for what is of a slope that differs by group: levels of
    groups are those in the middle of its bounds.
    """
    d, p = len(design.parameters), len(parameters)
    of_family = p - len(design.beside_families)
    block, blocks = np.zeros((d, d)), np.eye(p)
    for k, j, weight in design.mixing:
        block[k, j] = weight
    for name in design.of_slopes:
        k = of_family + design.beside_families.index(name)
        blocks[k, k] = design.slope_unit
    first_slope = cuts.count(design, parameters)
    if first_slope:  # which have the sign of an intercept, and slopes the other one
        blocks[:first_slope, first_slope:] = -block[0, 1:]
        blocks[first_slope:, first_slope:] = block[1:, 1:]
        return blocks
    for first in range(0, of_family - (parameters[of_family - 1] in LOG_SCALES), d):
        blocks[first : first + d, first : first + d] = block
    return blocks


def in_units(
    design: Design, parameters: Sequence[str], draws: Floats, scale: Scale = "original"
) -> Floats:
    """Return draws (..., p) of the design's parameters on this scale, free of charge.

    Raises SpecError where there is no such scale.
    """
    if scale not in SCALES:
        raise SpecError("/scale", f"must be one of {', '.join(SCALES)}")
    to_units = matrix(design, parameters)
    if scale == "design" or np.array_equal(to_units, np.eye(len(to_units))):
        return draws
    converted, flat = np.empty(draws.shape), draws.reshape(-1, len(to_units))
    flat_converted = converted.reshape(-1, len(to_units))
    for start in range(0, len(flat), ROWS_AT_ONCE):
        flat_converted[start : start + ROWS_AT_ONCE] = (
            flat[start : start + ROWS_AT_ONCE] @ to_units.T
        )
    return converted
