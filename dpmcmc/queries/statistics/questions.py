"""What is asked of a released statistic, in words that JSON holds: a family, a prior, a way."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.queries.statistics.families import FAMILIES
from dpmcmc.queries.statistics.families.base import Family, Floats
from dpmcmc.queries.statistics.inference import (
    PARTICLES,
    AlgorithmName,
    Posterior,
    algorithm_for,
    infer,
    judged,
)
from dpmcmc.queries.statistics.mechanisms import RandomisedResponse, Released, SmoothLaplaceNoise
from dpmcmc.queries.statistics.populations import POPULATIONS, Population


# Priors of the one number that a released statistic is read for.
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


Kind = TypeVar("Kind")
MOST_DRAWS = 200_000  # of all chains together
MOST_SIMULATED = 4_000_000  # numbers that all chains simulate in a step: about 200 MB
STEP_SECONDS, NUMBER_SECONDS, ORDER_SECONDS = 1.5e-3, 6e-8, 4e-7  # measured on a busy core
MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Draws of a family's one unknown number theta, given what a job released.

    family: how rows come about; options: what is known of it, by name. prior: of theta. algorithm,
    normal_approximation, particles, chains, draws, warmup: see statistics.inference.infer.
    """

    family: str
    options: dict[str, float] = field(default_factory=dict)
    prior: ThetaPrior
    algorithm: AlgorithmName | None = None
    normal_approximation: bool = True
    particles: int = PARTICLES
    chains: int = 4
    draws: int = 2000
    warmup: int = 500


def family_of(name: str, options: Mapping[str, float]) -> Family:
    """Return a family by its name. Raises SpecError at /family or /options."""
    return _named(FAMILIES, name, options)


def population_of(name: str, options: Mapping[str, float]) -> Population:
    """Return a population by its name. Raises SpecError at /family or /options."""
    return _named(POPULATIONS, name, options)


def _named(registry: Mapping[str, type[Kind]], name: str, options: Mapping[str, float]) -> Kind:
    if name not in registry:
        raise SpecError("/family", f"must be one of {', '.join(registry)}")
    made = registry[name]
    needed = {one.name for one in fields(made)}  # type: ignore[arg-type]
    if set(options) != needed:
        what = f"the options {', '.join(sorted(needed))}" if needed else "no options"
        raise SpecError("/options", f"{name} takes {what}")
    if not all(1e-100 <= value <= 1e100 for value in options.values()):
        raise SpecError("/options", "must be above 0, from 1e-100 to 1e100")
    return made(**options)


def settled(released: tuple[Released, ...], asked: Question) -> Question:
    """Return the question with its algorithm named. Raises SpecError where it cannot be asked."""
    family, prior = family_of(asked.family, asked.options), frozen(asked.prior)
    if not 1 <= asked.chains * asked.draws <= MOST_DRAWS:
        raise SpecError("/draws", f"times chains must be 1 to {MOST_DRAWS}")
    if (
        max(asked.particles, PARTICLES) * asked.chains * _simulated(released, asked)
        > MOST_SIMULATED
    ):
        raise SpecError("/particles", "too many rows to simulate: name fewer particles or chains")
    if (seconds := seconds_of(released, asked)) > MOST_SECONDS:
        raise SpecError("/draws", f"would take about {seconds:.0f} s: name fewer, or particles")
    near = asked.normal_approximation
    named = algorithm_for(released, family, prior, asked.algorithm, approximate=near)
    return replace(asked, algorithm=named)


def answer(released: tuple[Released, ...], asked: Question) -> Posterior:
    """Return draws of theta. Free. Raises SpecError."""
    asked = settled(released, asked)
    family, prior = family_of(asked.family, asked.options), frozen(asked.prior)
    with np.errstate(all="ignore"):  # thetas far out explain nothing: their likelihood is 0
        return infer(
            released,
            family,
            prior,
            algorithm=asked.algorithm,
            normal_approximation=asked.normal_approximation,
            particles=asked.particles,
            chains=asked.chains,
            draws=asked.draws,
            warmup=asked.warmup,
        )


def judged_draws(asked: Question, draws: NDArray[np.float64]) -> Posterior:
    """Return the draws (chain, draw) that a settled question was answered with, judged anew."""
    family = family_of(asked.family, asked.options)
    if asked.algorithm is None:
        raise SpecError("/algorithm", "is not settled")
    return judged(draws, family, asked.algorithm)


def seconds_of(released: tuple[Released, ...], asked: Question) -> float:
    """Return about how long an answer takes, from public facts."""
    steps, numbers = asked.draws + asked.warmup, asked.chains * asked.particles
    numbers *= _simulated(released, asked)
    ordered = any(isinstance(one.noise, SmoothLaplaceNoise) for one in released)
    return steps * (STEP_SECONDS + numbers * (ORDER_SECONDS if ordered else NUMBER_SECONDS))


def _simulated(released: tuple[Released, ...], asked: Question) -> int:
    """Return how many numbers a particle has."""
    known = all(one.form == "batch" for one in released) and asked.normal_approximation
    flipped = all(isinstance(one.noise, RandomisedResponse) for one in released)
    if known or (flipped and asked.algorithm in (None, "mh")):
        return 1
    return max(one.rows for one in released)
