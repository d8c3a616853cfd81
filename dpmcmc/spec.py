"""What an analyst asks for. A plan fills what was left open and is again a JobSpec."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.samplers import SamplerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrior:
    """Independent Normal(0, scale^2) on every coefficient of the public design."""

    scale: float = 2.5
    kind: Literal["normal"] = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """family: a name in dpmcmc.models.MODELS. tempering: T in (0, 1] multiplies the likelihood."""

    family: str
    formula: str
    prior: NormalPrior = field(default_factory=NormalPrior)
    tempering: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySpec:
    """delta and one of epsilon or noise_multiplier (per step, sigma / sensitivity)."""

    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One sampling job, apart from the dataset it runs on."""

    model: ModelSpec
    sampler: SamplerOptions
    privacy: PrivacySpec
