"""DP penalty that moves one coefficient at a time: the narrowest ratios, so the least noise."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.options import ChainOptions, ComponentProposal
from dpmcmc.samplers.penalty import advance, begin, penalty_event
from dpmcmc.samplers.penalty_law import PenaltyLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyComponentOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty_component"] = "dp_penalty_component"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


LAW = PenaltyLaw()
SAMPLER = Sampler(
    "dp_penalty_component",
    DpPenaltyComponentOptions,
    event=penalty_event,
    law=LAW,
    advance=advance,
    start=partial(begin, LAW),
)
