"""The registry of samplers. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.samplers import (
    dp_hmc,
    dp_mala,
    dp_penalty,
    dp_penalty_component,
    dp_penalty_guided,
)
from dpmcmc.samplers.base import ComponentProposal, Proposal, Sampler
from dpmcmc.samplers.dp_hmc import DpHmcOptions
from dpmcmc.samplers.dp_mala import DpMalaOptions
from dpmcmc.samplers.dp_penalty import DpPenaltyOptions
from dpmcmc.samplers.dp_penalty_component import DpPenaltyComponentOptions
from dpmcmc.samplers.dp_penalty_guided import DpPenaltyGuidedOptions
from dpmcmc.samplers.warm_start import WarmStart

SamplerOptions = (
    DpPenaltyOptions
    | DpPenaltyComponentOptions
    | DpPenaltyGuidedOptions
    | DpHmcOptions
    | DpMalaOptions
)

SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for sampler in (
        dp_penalty.SAMPLER,
        dp_penalty_component.SAMPLER,
        dp_penalty_guided.SAMPLER,
        dp_hmc.SAMPLER,
        dp_mala.SAMPLER,
    )
}

__all__ = [
    "SAMPLERS",
    "ComponentProposal",
    "DpHmcOptions",
    "DpMalaOptions",
    "DpPenaltyComponentOptions",
    "DpPenaltyGuidedOptions",
    "DpPenaltyOptions",
    "Proposal",
    "Sampler",
    "SamplerOptions",
    "WarmStart",
]
