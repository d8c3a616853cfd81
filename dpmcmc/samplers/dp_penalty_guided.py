"""DP penalty with a guided walk: a direction keeps its side while it is accepted."""

from functools import partial

from dpmcmc.families.target import Floats, Ratios
from dpmcmc.inputs.options import DpPenaltyGuidedOptions
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.adaptation import Walk
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.penalty import init, penalty_event, taken
from dpmcmc.samplers.penalty_mixing import PenaltyMixing

MIXING = PenaltyMixing(guided=True)


def step(
    target: Ratios,
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
    mixing=MIXING,
    step=step,
    init=partial(init, MIXING),
)
