"""The registry of samplers. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.samplers import dp_penalty, dp_penalty_component, dp_penalty_guided
from dpmcmc.samplers.base import ComponentProposal, Proposal, Sampler
from dpmcmc.samplers.dp_penalty import DpPenaltyOptions
from dpmcmc.samplers.dp_penalty_component import DpPenaltyComponentOptions
from dpmcmc.samplers.dp_penalty_guided import DpPenaltyGuidedOptions

SamplerOptions = DpPenaltyOptions | DpPenaltyComponentOptions | DpPenaltyGuidedOptions

SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for sampler in (dp_penalty.SAMPLER, dp_penalty_component.SAMPLER, dp_penalty_guided.SAMPLER)
}

__all__ = [
    "SAMPLERS",
    "ComponentProposal",
    "DpPenaltyComponentOptions",
    "DpPenaltyGuidedOptions",
    "DpPenaltyOptions",
    "Proposal",
    "Sampler",
    "SamplerOptions",
]
