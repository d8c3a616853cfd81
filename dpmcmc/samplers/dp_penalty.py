"""DP penalty with a Gaussian random walk, of all coefficients or of one at a time."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.options import ChainOptions, Proposal
from dpmcmc.samplers.penalty import advance, begin, penalty_event
from dpmcmc.samplers.penalty_law import PenaltyLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty"] = "dp_penalty"
    proposal: Proposal = field(default_factory=Proposal)


LAW = PenaltyLaw()
SAMPLER = Sampler(
    "dp_penalty",
    DpPenaltyOptions,
    event=penalty_event,
    law=LAW,
    advance=advance,
    start=partial(begin, LAW),
)
