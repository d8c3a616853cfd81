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

    information: (d, d) Fisher information of one row. width: (d,) width of the public interval of one
    row's log ratio per unit that a coefficient moves. distance: (d,) how far the mode is from the
    prior mean.
    """

    information: Floats
    width: Floats
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
