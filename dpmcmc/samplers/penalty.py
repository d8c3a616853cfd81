"""The penalty step: a Metropolis step that is right although its log ratio is noisy."""

import math

import numpy as np

from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers import warm_start
from dpmcmc.samplers.base import Floats, Target
from dpmcmc.samplers.options import ChainOptions, ComponentProposal, Proposal
from dpmcmc.samplers.penalty_law import SPREAD


def penalty_event(options: ChainOptions, noise_multiplier: float, rows: int) -> Event:
    """Return the event of a run: one Gaussian release for every step of every chain.

    A warm start comes before, where one is asked for.
    """
    if options.num_steps is None or options.num_chains is None:
        raise ValueError("the number of steps and of chains must be known")
    steps = Repeat(Gaussian(noise_multiplier), options.num_steps * options.num_chains)
    return warm_start.with_event(options.warm_start, steps)


def start(
    target: Target, options: ChainOptions, noise_multiplier: float, random: RandomSource
) -> None:
    """Begin at the prior mean, or near the mode after a warm start."""
    warm_start.begin(target, options.warm_start, random)


def accept(
    sums: Floats,
    sensitivities: Floats,
    log_prior_ratios: Floats,
    noise_multiplier: float,
    normals: Floats,
    uniforms: Floats,
) -> list[bool]:
    """Decide one step of every chain from noisy sums. All arguments (chain,) but the multiplier.

    lambda = sum + s N(0, 1) with s = noise multiplier * sensitivity; accepted with probability
    min(1, exp(lambda + log prior ratio - s^2 / 2)).
    Privacy: one Gaussian event per chain. Proof: docs/proofs/dp_penalty.md.
    Source: Ceperley and Dewing 1999; Yıldırım and Ermiş 2019, Proposition 1.
    """
    decisions = []
    for total, sensitivity, prior, normal, uniform in zip(
        sums.tolist(),
        sensitivities.tolist(),
        log_prior_ratios.tolist(),
        normals.tolist(),
        uniforms.tolist(),
        strict=True,
    ):
        s = noise_multiplier * sensitivity
        noisy = total + s * normal
        decisions.append(math.log(uniform) < noisy + prior - 0.5 * s * s)
    return decisions


def moves(
    proposal: Proposal | ComponentProposal, shape: tuple[int, ...], random: RandomSource
) -> Floats:
    """Return proposed moves of this shape, each symmetric around 0 with sd proposal.scale."""
    if proposal.scale is None:
        raise ValueError("the proposal's scale must be known")
    normals = random.normals(shape)
    if proposal.shape == "bactrian":
        sides = 2.0 * random.integers(2, shape) - 1.0
        normals = SPREAD * sides + math.sqrt(1.0 - SPREAD**2) * normals
    return proposal.scale * normals


def advance_component(
    target: Target,
    proposal: Proposal | ComponentProposal,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
) -> Floats:
    """Return (chain, length, d) draws of steps that move one random coefficient each.

    All chains move the same coefficient in a step, so that its column is read once.
    """
    chains, dimension = target.position.shape
    components = random.integers(dimension, (length,)).tolist()
    deltas = moves(proposal, (length, chains), random)
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    target.refresh()
    for t, j in enumerate(components):
        ratios = target.component_ratios(j, deltas[t])
        accepted = accept(*ratios, noise_multiplier, normals[t], uniforms[t])
        target.component_commit(j, deltas[t], np.array(accepted))
        draws[:, t] = target.position
    return draws


def advance_vector(
    target: Target,
    proposal: Proposal | ComponentProposal,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
) -> Floats:
    """Return (chain, length, d) draws of steps that move all coefficients."""
    chains, dimension = target.position.shape
    deltas = moves(proposal, (length, chains, dimension), random)
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    target.refresh()
    for t in range(length):
        ratios = target.vector_ratios(deltas[t])
        accepted = accept(*ratios, noise_multiplier, normals[t], uniforms[t])
        target.vector_commit(deltas[t], np.array(accepted))
        draws[:, t] = target.position
    return draws
