"""What a model is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import Design
from dpmcmc.models.forms import Form
from dpmcmc.models.priors import Normals, given, resolved, usual
from dpmcmc.models.public import interval_of_move
from dpmcmc.samplers.base import Target
from dpmcmc.schema import Table
from dpmcmc.spec import JobSpec, ModelSpec

Floats = NDArray[np.float64]
NUDGE = 1e-3  # the move at which widths are read


@dataclass(frozen=True)  # no slots: a plan asks for the same inverse some hundred times
class Guess:
    """What the planner may expect of a model before it has seen a row.

    In the units of positions. precision: (d, d) of the posterior. width: (d,) most that one row can
    change the sum per unit that a coefficient moves; joint_width: the same where all coefficients
    move by one unit. distance: (d,) how far the mode is from the start. steepest: largest norm of
    the gradient of a row's log likelihood that the bounds allow, where that is known. known:
    whether the precision follows from public facts, and not from a guess of the rows. sharpest:
    most information of a row about its linear predictor, where that is known.
    """

    precision: Floats
    width: Floats
    joint_width: float
    distance: Floats
    steepest: float = np.inf
    known: bool = False
    sharpest: float = np.inf

    @cached_property
    def covariance(self) -> Floats:
        """(d, d) inverse of the precision."""
        return np.asarray(np.linalg.inv(self.precision), np.float64)


def names_of_design(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return one parameter for each column of the design."""
    return design.parameters


def unchanged(_: Design, __: JobSpec, positions: Floats) -> Floats:
    """Return positions: they are the parameters."""
    return positions


def usual_prior(design: Design, model: ModelSpec) -> Normals:
    """Return Normal(0, 2.5) for what is left open."""
    return given(model.prior, design.parameters, usual(len(design.parameters)))


@dataclass(frozen=True, slots=True)
class Model:
    """One family. Registered by one explicit line in dpmcmc/models/__init__.py.

    check: raises SpecError where the design or the options do not suit the family.
    form: public facts -> what the kernels need. guess: public facts -> Guess.
    options: the fields of ModelOptions that it knows. parameters: names of what is released.
    release: positions (..., d) -> parameters (..., d), public and one to one.
    prior: means and sds of the priors of parameters, by default where the job leaves them open.
    chains: whether chains know it; else releases alone do.
    """

    family: str
    check: Callable[[Design, ModelSpec], None]
    form: Callable[[Design, JobSpec], Form]
    guess: Callable[[Design, JobSpec], Guess]
    options: frozenset[str] = frozenset({"ratio_slope"})
    parameters: Callable[[Design, ModelSpec], tuple[str, ...]] = names_of_design
    release: Callable[[Design, JobSpec, Floats], Floats] = unchanged
    prior: Callable[[Design, ModelSpec], Normals] = usual_prior
    chains: bool = True

    def resolved(self, design: Design, model: ModelSpec) -> ModelSpec:
        """Return the model with nothing of its prior left open. Raises SpecError."""
        names = self.parameters(design, model)
        return resolved(model, names, lambda other: self.prior(design, other))

    def target(self, design: Design, spec: JobSpec, table: Table, chains: int) -> Target:
        """Open a table, all chains at the form's start."""
        from dpmcmc.families.given import check
        from dpmcmc.models.rowwise import RowTarget

        check(design, spec.model, "chain")
        return RowTarget(self.form(design, spec), spec, table, chains)


def guess_of(form: Form, spec: JobSpec, precision: Floats, typical: Floats) -> Guess:
    """Return the guess for this precision (d, d) of rows and prior, widths taken at `typical`."""
    tempering, slope = spec.model.tempering or 1.0, spec.model.options.ratio_slope or np.inf
    d = len(typical)
    moves = np.concatenate((np.eye(d), np.ones((1, d)))) * NUDGE
    lo, hi = np.array([interval_of_move(form.public, typical, move) for move in moves]).T
    most = slope * np.sqrt((moves * moves).sum(axis=1))
    cut = np.clip(hi, -most, most) - np.clip(lo, -most, most)
    cut = np.where(cut > 0.0, cut, np.minimum(hi - lo, most))  # the slope cuts every row: a bad one
    widths = tempering * cut / NUDGE
    return Guess(precision, widths[:-1], float(widths[-1]), np.abs(typical - form.start))
