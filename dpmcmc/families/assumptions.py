"""What the planner assumes of a model, and of a release that chains start from, before any row."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpmcmc.families.target import Floats
from dpmcmc.inputs.options import Start


@dataclass(frozen=True)  # no slots: a plan asks for the same inverse some hundred times
class Guess:
    """The guess of a posterior from public facts, before any row is read.

    In the units of positions. precision: (d, d) of the posterior. width: (d,) most that one row can
    change the sum per unit that a coefficient moves; joint_width: the same where all coefficients
    move by one unit. distance: (d,) how far the mode is from the start. steepest: largest norm of
    the gradient of a row's log likelihood that the bounds allow, where that is known. known:
    whether the precision follows from public facts, and not from a guess of the rows. sharpest:
    most information of a row about its linear predictor, where that is known. longest: about how
    far out scores are clipped, in mean lengths, where the family bounds them; else 0.
    """

    precision: Floats
    width: Floats
    joint_width: float
    distance: Floats
    steepest: float = np.inf
    known: bool = False
    sharpest: float = np.inf
    longest: float = 0.0

    @cached_property
    def covariance(self) -> Floats:
        """(d, d) inverse of the precision."""
        return np.asarray(np.linalg.inv(self.precision), np.float64)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What to expect of a release that chains may start from.

    settle: (start, its noise multiplier) -> start with what the release needs to be told.
    sd_inflation: noise multiplier -> (d,) expected sds of draws given it over those of the
    posterior.
    poor: noise multiplier -> whether nothing is promised of it.
    """

    settle: Callable[[Start, float], Start]
    sd_inflation: Callable[[float], Floats]
    poor: Callable[[float], bool]


@dataclass(frozen=True)  # no slots: a plan asks for the same sds a thousand times
class Assumptions:
    """What the planner assumes. guess: of the posterior. rows: n. tempering: T.

    mu: of the whole job's budget, where it is given as an epsilon. beginning: of the release that
    chains may start from; None where the model has none.
    """

    guess: Guess
    rows: int
    tempering: float
    mu: float | None = None
    beginning: Beginning | None = None

    @cached_property
    def sds(self) -> Floats:
        """Conditional posterior standard deviations (d,) of the coefficients."""
        sds: Floats = np.diag(self.guess.precision) ** -0.5
        return sds

    @cached_property
    def mean_sd(self) -> float:
        """The mean of `sds`."""
        return float(self.sds.mean())
