"""The mean of several number columns with known variances: rows N(mean, diag(variances)).

Formula `~ a + b`: the columns. Parameters: their means. Priors, where none are given: around the
middle of a column's declared bounds, its range the sd.
options.variances: one for each column, by default the square of a quarter of its declared range.
"""

import math
from dataclasses import replace

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, guess_of
from dpmcmc.families.forms import GaussianForm
from dpmcmc.families.priors import Normals, normal_priors
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, check_measured
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import IDENTITY


def check(design: Design, model: ModelSpec) -> None:
    """Refuse a response, columns that are no numbers, and variances of another length."""
    if design.response:
        raise SpecError(POINTER, "this model has no response: write ~ column + column")
    numbers_of(design)
    variances = model.options.variances
    if variances is not None and len(variances) != len(design.parameters):
        raise SpecError("/model/options/variances", "one for each column is needed")


def numbers_of(design: Design) -> list[NumberColumn]:
    """Return the columns of the formula. Raises SpecError where one is not a plain number."""
    columns = []
    for term in design.terms:
        plain = len(term) == 1 and term[0].source is None
        column = column_of(design.schema, term[0].column) if plain else None
        if not isinstance(column, NumberColumn):
            raise SpecError(POINTER, "only columns of numbers, each for itself, have a mean")
        check_measured(column)
        columns.append(column)
    return columns


def scales(design: Design, model: ModelSpec) -> tuple[Floats, Floats, Floats]:
    """Return mid-ranges, half ranges and known sds of the columns, each (d,)."""
    lower = np.array([column.lower for column in numbers_of(design)])
    upper = np.array([column.upper for column in numbers_of(design)])
    half = 0.5 * upper - 0.5 * lower
    variances = model.options.variances
    return (
        0.5 * lower + 0.5 * upper,
        half,
        0.5 * half if variances is None else np.sqrt(variances),
    )


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors of the means, in the columns' own units."""
    middle, half, _ = scales(design, model)
    return normal_priors(model.prior, design.parameters, (middle, 2.0 * half))


class MeanForm(GaussianForm):
    """Positions are the means in sds from the middle of the bounds. See Form."""

    family = IDENTITY

    def __init__(self, design: Design, spec: JobSpec) -> None:
        middle, half, sds = scales(design, spec.model)
        self.design, self._middle, self._sds = design, middle, sds
        self._names = [column.name for column in numbers_of(design)]
        self._half_widths = half / sds
        self.max_row_norm = math.hypot(*self._half_widths)
        means, widths = prior(design, spec.model)
        self.prior_mean = (means - middle) / sds
        self.prior_precision = (sds / widths) ** 2
        self.start = np.zeros(len(sds))
        self.public = self._facts(-self._half_widths, self._half_widths, np.arange(len(sds)))

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return (z (columns, n), zeros (n,)): clamped columns in units of their known sds."""
        z = np.stack([table.columns[name] for name in self._names]).astype(np.float64)
        z = (z - self._middle[:, None]) / self._sds[:, None]
        z = np.fmin(np.fmax(z, -self._half_widths[:, None]), self._half_widths[:, None])
        out = self.design.left_out(table)
        return np.where(out, 0.0, z), np.where(out, np.nan, 0.0)


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected before the rows are read, means within one sd of mid-range."""
    form, tempering = MeanForm(design, spec), spec.model.tempering or 1.0
    d = len(form.start)
    precision = design.schema.rows * tempering * np.eye(d) + np.diag(form.prior_precision)
    return replace(guess_of(form, spec, precision, np.ones(d)), known=True)


def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
    """Return positions as means (..., d) in the columns' own units."""
    middle, _, sds = scales(design, spec.model)
    return np.asarray(middle + sds * positions)


MODEL = Model(
    "gaussian_mean",
    check=check,
    form=MeanForm,
    guess=guess,
    example=ModelSpec(family="gaussian_mean", formula="~ x + count"),
    options=frozenset({"ratio_slope", "variances"}),
    release=release,
    prior=prior,
)
