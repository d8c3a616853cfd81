"""DP penalty that moves one coefficient at a time: the narrowest ratios, so the least noise."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import ComponentProposal, Floats, Sampler, Target
from dpmcmc.samplers.penalty import advance_component, penalty_event, start
from dpmcmc.samplers.penalty_law import PenaltyLaw
from dpmcmc.samplers.warm_start import WarmStart


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyComponentOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included."""

    algorithm: Literal["dp_penalty_component"] = "dp_penalty_component"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    proposal: ComponentProposal = field(default_factory=ComponentProposal)
    clip_bound: float | None = None
    warm_start: WarmStart | None = None


def advance(
    target: Target,
    options: DpPenaltyComponentOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: None = None,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events."""
    return advance_component(target, options.proposal, noise_multiplier, length, random)


SAMPLER = Sampler(
    "dp_penalty_component",
    DpPenaltyComponentOptions,
    event=penalty_event,
    law=PenaltyLaw(),
    advance=advance,
    start=start,
)
