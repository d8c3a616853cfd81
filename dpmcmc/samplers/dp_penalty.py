"""DP penalty with a Gaussian random walk, of all coefficients or of one at a time."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Sampler, Target
from dpmcmc.samplers.options import ChainOptions, Proposal
from dpmcmc.samplers.penalty import advance_component, advance_vector, penalty_event, start
from dpmcmc.samplers.penalty_law import PenaltyLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty"] = "dp_penalty"
    proposal: Proposal = field(default_factory=Proposal)


def advance(
    target: Target,
    options: DpPenaltyOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: None = None,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events."""
    if options.proposal.kind == "component":
        return advance_component(target, options.proposal, noise_multiplier, length, random)
    return advance_vector(target, options.proposal, noise_multiplier, length, random)


SAMPLER = Sampler(
    "dp_penalty",
    DpPenaltyOptions,
    event=penalty_event,
    law=PenaltyLaw(),
    advance=advance,
    start=start,
)
