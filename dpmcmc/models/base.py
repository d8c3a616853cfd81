"""What a model is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import Design
from dpmcmc.samplers.base import Target
from dpmcmc.schema import Schema, Table
from dpmcmc.spec import JobSpec

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Guess:
    """What the planner may expect of a model before it has seen a row.

    precision: (d, d) of the posterior. width: (d,) most that one row can change the sum per unit
    that a coefficient moves; joint_width: the same where all coefficients move by one unit.
    distance: (d,) how far the mode is from the prior mean.
    """

    precision: Floats
    width: Floats
    joint_width: float
    distance: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """One family. Registered by one explicit line in dpmcmc/models/__init__.py.

    check: raises SpecError where the design does not suit the family.
    guess: public facts -> Guess. target: opens a table at the prior mean for that many chains.
    """

    family: str
    check: Callable[[Schema, Design], None]
    guess: Callable[[Design, JobSpec], Guess]
    target: Callable[[Design, JobSpec, Table, int], Target]
