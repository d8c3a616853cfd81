"""Requests for inference from a released statistic, as JSON has them: family, prior, algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.queries.statistics.families import FAMILIES
from dpmcmc.queries.statistics.families.base import Family
from dpmcmc.queries.statistics.inference import (
    PARTICLES,
    AlgorithmName,
    ThetaPosterior,
    algorithm_for,
    infer,
    judged,
)
from dpmcmc.queries.statistics.inference_chains import PriorDistribution
from dpmcmc.queries.statistics.mechanisms import (
    RandomisedResponse,
    ReleasedStatistic,
    SmoothLaplaceNoise,
)
from dpmcmc.queries.statistics.populations import POPULATIONS, Population


# Priors of a family's parameter.
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
    """Gamma with mean shape * scale."""

    kind: Literal["gamma"] = "gamma"
    shape: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseGammaPrior:
    """Inverse gamma: of 1 / x, where x is Gamma of this shape and of scale 1 / scale."""

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


def frozen(prior: ThetaPrior) -> PriorDistribution:
    """Return the distribution of a prior. Raises SpecError at /prior where there is none."""
    from scipy import stats

    found: PriorDistribution
    if isinstance(prior, UniformPrior):
        _check("upper", prior.upper - prior.lower, "must be above lower, and both finite")
        found = stats.uniform(prior.lower, prior.upper - prior.lower)
    elif isinstance(prior, BetaPrior):
        found = stats.beta(_positive("a", prior.a), _positive("b", prior.b))
    elif isinstance(prior, NormalPrior):
        scale = _positive("scale", prior.scale)
        _check("loc", 1.0 + abs(prior.loc), "must be finite")
        found = stats.norm(prior.loc, scale)
    else:
        scale = _positive("scale", prior.scale)
        family = stats.gamma if isinstance(prior, GammaPrior) else stats.invgamma
        found = family(_positive("shape", prior.shape), scale=scale)
    return found


def _positive(name: str, value: float) -> float:
    """Return a number of a prior, checked to be within [LEAST, MOST]. Raises SpecError."""
    _check(name, value, f"must be {LEAST:g} to {MOST:g}")
    return value


def _check(name: str, value: float, message: str) -> None:
    """Refuse a number outside [LEAST, MOST]. Raises SpecError with this message."""
    if not LEAST <= value <= MOST:
        raise SpecError(f"/prior/{name}", message)


Kind = TypeVar("Kind")
MOST_DRAWS = 200_000  # of all chains together
MOST_SIMULATED = 4_000_000  # numbers that all chains simulate in a step: about 200 MB
STEP_SECONDS, NUMBER_SECONDS, ORDER_SECONDS = 1.5e-3, 6e-8, 4e-7  # measured on a busy core
MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceQuestion:
    """A request for posterior draws of a family's parameter theta, given a job's release.

    family: distribution of the rows; options: its known parameters, by name. prior: of theta.
    algorithm, normal_approximation, particles, chains, draws, warmup: see
    statistics.inference.infer.
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
    """Return an instance of a registered class, with its options. Raises SpecError."""
    if name not in registry:
        raise SpecError("/family", f"must be one of {', '.join(registry)}")
    member = registry[name]
    needed = {option.name for option in fields(member)}  # type: ignore[arg-type]
    if set(options) != needed:
        takes = f"the options {', '.join(sorted(needed))}" if needed else "no options"
        raise SpecError("/options", f"{name} takes {takes}")
    if not all(1e-100 <= value <= 1e100 for value in options.values()):
        raise SpecError("/options", "must be above 0, from 1e-100 to 1e100")
    return member(**options)


def settled(
    released: tuple[ReleasedStatistic, ...], question: InferenceQuestion
) -> InferenceQuestion:
    """Return the request with an algorithm. Raises SpecError where it is not possible."""
    family, prior = family_of(question.family, question.options), frozen(question.prior)
    if not 1 <= question.chains * question.draws <= MOST_DRAWS:
        raise SpecError("/draws", f"times chains must be 1 to {MOST_DRAWS}")
    if (
        max(question.particles, PARTICLES) * question.chains * _simulated(released, question)
        > MOST_SIMULATED
    ):
        raise SpecError("/particles", "too many rows to simulate: name fewer particles or chains")
    if (seconds := seconds_of(released, question)) > MOST_SECONDS:
        raise SpecError("/draws", f"would take about {seconds:.0f} s: name fewer, or particles")
    approximate = question.normal_approximation
    algorithm = algorithm_for(released, family, prior, question.algorithm, approximate=approximate)
    return replace(question, algorithm=algorithm)


def answer(released: tuple[ReleasedStatistic, ...], question: InferenceQuestion) -> ThetaPosterior:
    """Return posterior draws of theta; costs nothing. Raises SpecError."""
    question = settled(released, question)
    family, prior = family_of(question.family, question.options), frozen(question.prior)
    with np.errstate(all="ignore"):  # far thetas have a likelihood of 0
        return infer(
            released,
            family,
            prior,
            algorithm=question.algorithm,
            normal_approximation=question.normal_approximation,
            particles=question.particles,
            chains=question.chains,
            draws=question.draws,
            warmup=question.warmup,
        )


def judged_draws(question: InferenceQuestion, draws: NDArray[np.float64]) -> ThetaPosterior:
    """Return stored draws (chain, draw) of a request with their summary and verdict."""
    family = family_of(question.family, question.options)
    if question.algorithm is None:
        raise SpecError("/algorithm", "is missing: name one")
    return judged(draws, family, question.algorithm)


def seconds_of(released: tuple[ReleasedStatistic, ...], question: InferenceQuestion) -> float:
    """Return the expected run time in seconds, from public facts."""
    steps, numbers = question.draws + question.warmup, question.chains * question.particles
    numbers *= _simulated(released, question)
    ordered = any(isinstance(release.noise, SmoothLaplaceNoise) for release in released)
    return steps * (STEP_SECONDS + numbers * (ORDER_SECONDS if ordered else NUMBER_SECONDS))


def _simulated(released: tuple[ReleasedStatistic, ...], question: InferenceQuestion) -> int:
    """Return the number of normals in a particle."""
    known = all(release.form == "batch" for release in released) and question.normal_approximation
    flipped = all(isinstance(release.noise, RandomisedResponse) for release in released)
    if known or (flipped and question.algorithm in (None, "mh")):
        return 1
    return max(release.rows for release in released)
