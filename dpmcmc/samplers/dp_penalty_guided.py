"""DP penalty with a guided walk: each coefficient keeps its direction while it is accepted."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers import penalty
from dpmcmc.samplers.base import Floats, Sampler, Target
from dpmcmc.samplers.options import ChainOptions, ComponentProposal
from dpmcmc.samplers.penalty import accept, moves, penalty_event
from dpmcmc.samplers.penalty_law import PenaltyLaw

Directions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyGuidedOptions(ChainOptions):
    """See ChainOptions."""

    algorithm: Literal["dp_penalty_guided"] = "dp_penalty_guided"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


def start(
    target: Target,
    options: DpPenaltyGuidedOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Directions:
    """Return a direction, -1 or 1, for each coefficient of each chain: (chain, d), at random."""
    penalty.start(target, options, noise_multiplier, random)
    return 2 * random.integers(2, target.position.shape) - 1


def advance(
    target: Target,
    options: DpPenaltyGuidedOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Directions,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events.

    A step moves one random coefficient in its direction; a rejection turns that direction round.
    Leaves the posterior times uniform directions invariant, without being reversible.
    Proof: docs/proofs/dp_penalty_guided.md. Source: Yıldırım and Ermiş 2019; thesis A, 3.1.
    """
    chains, dimension = target.position.shape
    components = random.integers(dimension, (length,)).tolist()
    lengths = np.abs(moves(options.proposal, (length, chains), random))
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    target.refresh()
    for t, j in enumerate(components):
        deltas = lengths[t] * state[:, j]
        ratios = target.component_ratios(j, deltas)
        accepted = np.array(accept(*ratios, noise_multiplier, normals[t], uniforms[t]))
        target.component_commit(j, deltas, accepted)
        state[~accepted, j] *= -1
        draws[:, t] = target.position
    return draws


SAMPLER = Sampler(
    "dp_penalty_guided",
    DpPenaltyGuidedOptions,
    event=penalty_event,
    law=PenaltyLaw(guided=True),
    advance=advance,
    start=start,
)
