"""DP penalty with a Gaussian random walk, of all coefficients or of one at a time."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Proposal, Sampler, Target
from dpmcmc.samplers.penalty import advance_component, advance_vector, penalty_event, start
from dpmcmc.samplers.penalty_law import PenaltyLaw
from dpmcmc.samplers.warm_start import WarmStart


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included."""

    algorithm: Literal["dp_penalty"] = "dp_penalty"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    proposal: Proposal = field(default_factory=Proposal)
    clip_bound: float | None = None
    warm_start: WarmStart | None = None


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
