"""The interface of a model, and the planner's guess of its posterior."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpmcmc.families.assumptions import Guess
from dpmcmc.families.forms import Form
from dpmcmc.families.misfits import NOTHING, Misfits
from dpmcmc.families.priors import Normals, normal_priors, resolved, usual
from dpmcmc.families.rowwise import RowTarget
from dpmcmc.families.scores.base import Family
from dpmcmc.families.scores.distributions import Distribution
from dpmcmc.families.scores.given import check
from dpmcmc.families.scores.responses import Response
from dpmcmc.families.target import Floats, Target
from dpmcmc.formula.design import Design
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.kernels.arithmetic.public import interval_of_move

PROBE_MOVE = 1e-3  # the move at which widths are read


def names_of_design(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return one parameter for each column of the design."""
    return design.parameters


def unchanged(_: Design, __: JobSpec, positions: Floats) -> Floats:
    """Return positions: they are the parameters."""
    return positions


def unit_of_predictors(_: Design, __: ModelSpec) -> float:
    """Return 1.0, the unit of positions in families whose positions are in units of predictors."""
    return 1.0


def nothing(_: ModelOptions) -> None:
    """Return None, for families that cannot predict or be checked, or no release is of."""


def usual_prior(design: Design, model: ModelSpec) -> Normals:
    """Return the default priors Normal(0, 2.5) where the job names none."""
    return normal_priors(model.prior, design.parameters, usual(len(design.parameters)))


@dataclass(frozen=True, slots=True)
class Model:
    """One family. Registered by one explicit line in dpmcmc/families/__init__.py.

    check: raises SpecError where the design or the options do not suit the family.
    example: a model of columns x, a number; count, a number from 0; y, of two categories; g, of
    three. Workers begin with it, and every test that runs over the registry has it.
    form: public facts -> what the kernels need. guess: public facts -> Guess.
    guess_of_large: the same where effects are large, if a chain then gives fewer draws.
    options: the fields of ModelOptions that it knows, needed those without which check refuses.
    parameters: names of what is released.
    release: positions (..., d) -> parameters (..., d), public and one to one.
    prior: means and sds of the priors of parameters, by default where the job leaves them open.
    chains: whether chains know it; else releases alone do.
    rows: options -> what noisy_quadratic reads; None where it does not release the family.
    response: options -> what one predictor means on the response's scale, for predictions.
    pair: what stands beside the response, see Design.kind.
    distribution: options -> the distribution function of a response, by which fits are checked.
    categories: of a response with categories, in the place of that: predictors (k, n) ->
    probabilities (number of categories, n). misfits: what it says of rows that do not fit.
    room: (a model of counts that vary more than it says, about the mean count, how many times as
    much; None where that is not known) -> what of this family has room for that, in words.
    group_sd: the scale of the half normal prior of the sd of groups' effects, where a job leaves it
    open; None of a family that knows no groups. unit: what positions of coefficients are times, to
    be parameters.
    """

    family: str
    check: Callable[[Design, ModelSpec], None]
    form: Callable[[Design, JobSpec], Form]
    guess: Callable[[Design, JobSpec], Guess]
    example: ModelSpec
    options: frozenset[str] = frozenset({"ratio_slope"})
    needed: frozenset[str] = frozenset()
    parameters: Callable[[Design, ModelSpec], tuple[str, ...]] = names_of_design
    release: Callable[[Design, JobSpec, Floats], Floats] = unchanged
    prior: Callable[[Design, ModelSpec], Normals] = usual_prior
    chains: bool = True
    rows: Callable[[ModelOptions], Family | None] = nothing
    response: Callable[[ModelOptions], Response | None] = nothing
    distribution: Callable[[ModelOptions], Distribution | None] = nothing
    categories: Callable[[Floats], Floats] | None = None
    misfits: Misfits = NOTHING
    guess_of_large: Callable[[Design, JobSpec], Guess] | None = None
    room: Callable[[ModelSpec, float, float | None], str] | None = None
    group_sd: Callable[[Design, ModelSpec], float] | None = None
    unit: Callable[[Design, ModelSpec], float] = unit_of_predictors
    pair: Literal["", "trials", "event"] = ""

    def resolved(self, design: Design, model: ModelSpec) -> ModelSpec:
        """Return the model with every prior filled in. Raises SpecError."""
        known = self.prior(design, replace(model, prior=None))[0]
        names = self.parameters(design, model)[
            : len(known)
        ]  # groups' effects have the sd as theirs
        return resolved(model, names, lambda other: self.prior(design, other))

    def check_given(self, design: Design, model: ModelSpec, algorithm: str | None = None) -> None:
        """Refuse offsets and weights that are of no use here. Raises SpecError."""
        check(design, model, self.rows(model.options), algorithm)

    def target(self, design: Design, spec: JobSpec, table: Table, chains: int) -> Target:
        """Return the opened rows with all chains at the form's public start position."""
        self.check_given(design, spec.model, "chain")
        return RowTarget(self.form(design, spec), spec, table, chains)


def guess_of(form: Form, spec: JobSpec, precision: Floats, typical: Floats) -> Guess:
    """Return the guess for this precision (d, d) of rows and prior, widths taken at `typical`."""
    tempering, slope = spec.model.tempering or 1.0, spec.model.options.ratio_slope or np.inf
    d = len(typical)
    moves = np.concatenate((np.eye(d), np.ones((1, d)))) * PROBE_MOVE
    lo, hi = np.array([interval_of_move(form.public, typical, move) for move in moves]).T
    most = slope * np.sqrt((moves * moves).sum(axis=1))
    clipped = np.clip(hi, -most, most) - np.clip(lo, -most, most)
    clipped = np.where(
        clipped > 0.0, clipped, np.minimum(hi - lo, most)
    )  # the slope cuts every row: a bad one
    widths = tempering * clipped / PROBE_MOVE
    return Guess(precision, widths[:-1], float(widths[-1]), np.abs(typical - form.start))
