"""DP penalty with a guided walk: a direction keeps its side while it is accepted."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Sampler, Target
from dpmcmc.samplers.options import ChainOptions, ComponentProposal, Shape
from dpmcmc.samplers.penalty import accept, amounts, begin, penalty_event
from dpmcmc.samplers.penalty_law import PenaltyLaw
from dpmcmc.samplers.shaping import Walk, drawn


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
        return _guided(target, options.proposal.shape, noise_multiplier, count, random, state)

    return state.through(length, steps)


def _guided(
    target: Target, shape: Shape, z: float, length: int, random: RandomSource, walk: Walk
) -> Floats:
    chains, dimension = target.position.shape
    moves, draws = walk.moves, np.empty((chains, length, dimension))
    signs = walk.signs
    if signs is None:
        signs = walk.signs = 2 * random.integers(2, (chains, len(moves.vectors))) - 1
    chosen, lengths = drawn(moves, (length, chains), amounts(shape), random)
    deltas = moves.along(chosen, np.abs(lengths))
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    target.refresh()
    for t, k in enumerate(chosen.tolist()):
        delta = deltas[t] * signs[:, k, None]
        if moves.kind == "axes":
            ratios = target.component_ratios(k, delta[:, k])
            accepted = np.array(accept(*ratios, z, normals[t], uniforms[t]))
            target.component_commit(k, delta[:, k], accepted)
        else:
            ratios = target.vector_ratios(delta)
            accepted = np.array(accept(*ratios, z, normals[t], uniforms[t]))
            target.vector_commit(delta, accepted)
        signs[~accepted, k] *= -1
        draws[:, t] = target.position
    return draws


SAMPLER = Sampler(
    "dp_penalty_guided",
    DpPenaltyGuidedOptions,
    event=penalty_event,
    law=LAW,
    advance=advance,
    start=partial(begin, LAW),
)
