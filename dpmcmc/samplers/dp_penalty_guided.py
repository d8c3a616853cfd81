"""DP penalty with a guided walk: a direction keeps its side while it is accepted."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Sampler, Target
from dpmcmc.samplers.options import ChainOptions, ComponentProposal
from dpmcmc.samplers.penalty import begin, penalty_event, taken
from dpmcmc.samplers.penalty_law import PenaltyLaw
from dpmcmc.samplers.shaping import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyGuidedOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty_guided"] = "dp_penalty_guided"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


LAW = PenaltyLaw(guided=True)


def advance(
    target: Target,
    options: DpPenaltyGuidedOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Walk,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events.

    A step moves along one random vector of the walk, on the side that each chain has kept for it; a
    rejection turns that side round. Leaves the posterior times uniform sides invariant, without
    being reversible.
    Proof: docs/proofs/dp_penalty_guided.md. Source: Yıldırım and Ermiş 2019; thesis A, 3.1.
    """

    def steps(count: int) -> Floats:
        moves, chains = state.moves, len(target.position)
        if state.signs is None:
            state.signs = 2 * random.integers(2, (chains, len(moves.vectors))) - 1
        how = options.proposal.shape, noise_multiplier, count, random
        return taken(target, state, *how, state.signs)

    return state.through(length, steps)


SAMPLER = Sampler(
    "dp_penalty_guided",
    DpPenaltyGuidedOptions,
    event=penalty_event,
    law=LAW,
    advance=advance,
    start=partial(begin, LAW),
)
