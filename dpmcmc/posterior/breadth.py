"""Columns whose values fill only a small part of their declared bounds, according to a release.

A function of released numbers and public facts, so it costs nothing. It helps with the next
dataset: the bounds of this one were declared before.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.names import INTERCEPT
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import DateColumn, NumberColumn

Floats = NDArray[np.float64]
# half of the declared range over the sd of the rows, from which bounds are far too wide
MUCH_TOO_WIDE = 10.0
SUGGESTED_SDS = 8.0  # sds to either side of the mean in the suggested bounds
MAX_MOMENT_NOISE = 0.25  # relative noise of a moment, above which there is no note


@dataclass(frozen=True, slots=True)
class Note:
    """A note for the next dataset. column: its name."""

    column: str
    sentence: str


def notes(design: Design, moments: Floats, blur: float) -> tuple[Note, ...]:
    """Return a note for each number column whose values fill little of its bounds.

    moments: (d, d), released mean of x x^T over the design's rows. blur: its relative noise, the
    largest over directions. Rows with a large norm may have been clipped, so that a column with a
    few large values looks narrow; the note says so.
    """
    if blur > MAX_MOMENT_NOISE:
        return ()
    column_notes = []
    for j, term in enumerate(design.terms):
        if len(term) != 1 or term[0].source is not None:
            continue  # what is computed has no bounds of its own to declare
        column = column_of(design.schema, term[0].column)
        if isinstance(column, NumberColumn):
            mean, sd = _mean_and_sd(design, moments, j)
            if MUCH_TOO_WIDE * sd < 1.0:
                column_notes.append(Note(column.name, _sentence(column, mean, sd)))
    return tuple(column_notes)


def _mean_and_sd(design: Design, moments: Floats, j: int) -> tuple[float, float]:
    """Return mean and sd of a column within [-1, 1]; mean 0 where there is no intercept."""
    square = float(moments[j, j])
    if INTERCEPT not in design.parameters:
        return 0.0, math.sqrt(max(square, 0.0))
    k = design.parameters.index(INTERCEPT)
    mean = float(moments[k, j] / moments[k, k])
    return mean, math.sqrt(max(square - mean * float(moments[k, j]), 0.0))


def _sentence(column: NumberColumn, mean: float, sd: float) -> str:
    """Return the sentence of a note on a column's declared bounds."""
    middle, half = 0.5 * (column.lower + column.upper), 0.5 * (column.upper - column.lower)
    low = max(column.lower, middle + half * (mean - SUGGESTED_SDS * sd))
    high = min(column.upper, middle + half * (mean + SUGGESTED_SDS * sd))
    unit, center = "", f"{middle + half * mean:.3g}"
    shown = [f"{column.lower:g}", f"{column.upper:g}", _plain(low), _plain(high)]
    if isinstance(column, DateColumn):
        unit, center = " days", str(column.date_of(middle + half * mean))
        shown = [str(column.date_of(days)) for days in (column.lower, column.upper, low, high)]
    return (
        f"{column.name} varies by about {_plain(half * sd)}{unit} around {center},"
        f" {1 / sd:.0f} times less than half of its declared range of {shown[0]} to"
        f" {shown[1]}: for the next dataset, bounds of about {shown[2]} to"
        f" {shown[3]} would cost less noise, if you know that rows beyond them are few"
        " (they would be clamped)"
    )


def _plain(value: float) -> str:
    """Return a number with two significant digits, if possible without an exponent."""
    return f"{float(f'{value:.2g}'):g}"
