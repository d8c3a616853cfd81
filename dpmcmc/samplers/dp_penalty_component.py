"""DP penalty that moves one coefficient at a time: the narrowest ratios, so the least noise."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Sampler, Target
from dpmcmc.samplers.options import ChainOptions, ComponentProposal
from dpmcmc.samplers.penalty import advance_component, penalty_event, start
from dpmcmc.samplers.penalty_law import PenaltyLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyComponentOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty_component"] = "dp_penalty_component"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


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
