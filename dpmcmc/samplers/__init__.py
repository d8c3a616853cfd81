"""The registry of samplers. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.samplers import (
    dp_barker,
    dp_hmc,
    dp_mala,
    dp_penalty,
    dp_penalty_component,
    dp_penalty_guided,
    dp_penalty_subsampled,
)
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.dp_barker import DpBarkerOptions
from dpmcmc.samplers.dp_hmc import DpHmcOptions
from dpmcmc.samplers.dp_mala import DpMalaOptions
from dpmcmc.samplers.dp_penalty import DpPenaltyOptions
from dpmcmc.samplers.dp_penalty_component import DpPenaltyComponentOptions
from dpmcmc.samplers.dp_penalty_guided import DpPenaltyGuidedOptions
from dpmcmc.samplers.dp_penalty_subsampled import DpPenaltySubsampledOptions
from dpmcmc.samplers.options import ComponentProposal, Proposal, Start

SamplerOptions = (
    DpPenaltyOptions
    | DpPenaltyComponentOptions
    | DpPenaltyGuidedOptions
    | DpPenaltySubsampledOptions
    | DpBarkerOptions
    | DpHmcOptions
    | DpMalaOptions
)

SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for sampler in (
        dp_penalty.SAMPLER,
        dp_penalty_component.SAMPLER,
        dp_penalty_guided.SAMPLER,
        dp_penalty_subsampled.SAMPLER,
        dp_barker.SAMPLER,
        dp_hmc.SAMPLER,
        dp_mala.SAMPLER,
    )
}

__all__ = [
    "SAMPLERS",
    "ComponentProposal",
    "DpBarkerOptions",
    "DpHmcOptions",
    "DpMalaOptions",
    "DpPenaltyComponentOptions",
    "DpPenaltyGuidedOptions",
    "DpPenaltyOptions",
    "DpPenaltySubsampledOptions",
    "Proposal",
    "Sampler",
    "SamplerOptions",
    "Start",
]
