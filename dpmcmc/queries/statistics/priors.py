"""Priors of the one number that a released statistic is read for."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.queries.statistics.families.base import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformPrior:
    """Uniform between lower and upper."""

    kind: Literal["uniform"] = "uniform"
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrior:
    """Normal(loc, scale^2)."""

    kind: Literal["normal"] = "normal"
    loc: float = 0.0
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaPrior:
    """Gamma of mean shape times scale."""

    kind: Literal["gamma"] = "gamma"
    shape: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseGammaPrior:
    """The distribution of 1 / x where x is Gamma of this shape and of scale 1 / scale."""

    kind: Literal["inverse_gamma"] = "inverse_gamma"
    shape: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaPrior:
    """Beta(a, b), on (0, 1)."""

    kind: Literal["beta"] = "beta"
    a: float
    b: float


ThetaPrior = UniformPrior | NormalPrior | GammaPrior | InverseGammaPrior | BetaPrior
LEAST, MOST = 1e-100, 1e100  # of widths and shapes


@dataclass(frozen=True, slots=True)
class Frozen:
    """A distribution with its parameters."""

    distribution: Any

    def ppf(self, probability: Floats) -> Floats:
        """Return theta of each probability."""
        return np.asarray(self.distribution.ppf(probability), np.float64)


def frozen(prior: ThetaPrior) -> Frozen:
    """Return the distribution of a prior. Raises SpecError at /prior where there is none."""
    from scipy import stats

    if isinstance(prior, UniformPrior):
        _check("upper", prior.upper - prior.lower, "must be above lower, and both finite")
        return Frozen(stats.uniform(prior.lower, prior.upper - prior.lower))
    if isinstance(prior, BetaPrior):
        return Frozen(stats.beta(_positive("a", prior.a), _positive("b", prior.b)))
    scale = _positive("scale", prior.scale)
    if isinstance(prior, NormalPrior):
        _check("loc", 1.0 + abs(prior.loc), "must be finite")
        return Frozen(stats.norm(prior.loc, scale))
    made = stats.gamma if isinstance(prior, GammaPrior) else stats.invgamma
    return Frozen(made(_positive("shape", prior.shape), scale=scale))


def _positive(name: str, value: float) -> float:
    _check(name, value, f"must be {LEAST:g} to {MOST:g}")
    return value


def _check(name: str, value: float, message: str) -> None:
    if not LEAST <= value <= MOST:
        raise SpecError(f"/prior/{name}", message)
