"""DP penalty with a guided walk: a direction keeps its sign until a move is rejected."""

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

    A step moves along one random vector of the walk, with the sign that each chain has for it; a
    rejection reverses the sign. It leaves the posterior times uniform signs invariant, and is not
    reversible.
    Proof: docs/proofs/dp_penalty_guided.md. Source: Yıldırım and Ermiş 2019; thesis A, 3.1.
    """

    def steps(count: int) -> Floats:
        """Return the draws of the next `count` steps."""
        moves, chains = state.moves, len(target.position)
        if state.signs is None:
            state.signs = 2 * random.integers(2, (chains, len(moves.vectors))) - 1
        arguments = options.proposal.shape, noise_multiplier, count, random
        return taken(target, state, *arguments, state.signs)

    return state.through(length, steps)


SAMPLER = Sampler(
    "dp_penalty_guided",
    DpPenaltyGuidedOptions,
    event=penalty_event,
    mixing=MIXING,
    step=step,
    init=partial(init, MIXING),
)
