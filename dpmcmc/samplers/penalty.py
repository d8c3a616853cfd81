"""The penalty step: a Metropolis step that is right although its log ratio is noisy."""

import math
from typing import Any

import numpy as np

from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers import warm_start
from dpmcmc.samplers.base import Floats, Target
from dpmcmc.samplers.options import ChainOptions, Shape
from dpmcmc.samplers.penalty_law import SPREAD, PenaltyLaw
from dpmcmc.samplers.shaping import Amounts, Moves, Walk, axes, drawn


def penalty_event(options: ChainOptions, noise_multiplier: float, rows: int) -> Event:
    """Return the event of a run: one Gaussian release for every step of every chain.

    A warm start comes before, where one is asked for.
    """
    if options.num_steps is None or options.num_chains is None:
        raise ValueError("the number of steps and of chains must be known")
    steps = Repeat(Gaussian(noise_multiplier), options.num_steps * options.num_chains)
    return warm_start.with_event(options.warm_start, steps)


def begin(
    law: PenaltyLaw, target: Target, options: Any, noise_multiplier: float, random: RandomSource
) -> Walk:
    """Begin at the prior mean, or near the mode after a warm start, which also shapes the walk."""
    found = warm_start.begin(target, options.warm_start, random)
    proposal, dimension = options.proposal, target.position.shape[1]
    if proposal.scale is None:
        raise ValueError("the proposal's scale must be known")
    steps = (options.num_warmup or 0) if proposal.adapt else 0
    fit = law.fit(options, target, noise_multiplier) if steps else None
    walk = Walk(target, axes(proposal.scale, dimension, proposal.kind), steps, fit)
    if found is not None:
        walk.shape(found.mode, found.root @ found.root.T)
    return walk


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


def amounts(shape: Shape) -> Amounts:
    """Return what draws how far to move, (shape, random) -> symmetric numbers of variance 1."""

    def bactrian(size: tuple[int, ...], random: RandomSource) -> Floats:
        normals = random.normals(size)
        sides = 2.0 * random.integers(2, size) - 1.0
        return SPREAD * sides + math.sqrt(1.0 - SPREAD**2) * normals

    def normal(size: tuple[int, ...], random: RandomSource) -> Floats:
        return random.normals(size)

    return bactrian if shape == "bactrian" else normal


def advance(
    target: Target,
    options: Any,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Walk,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events."""

    def steps(count: int) -> Floats:
        one_by_one = state.moves.kind == "axes"
        return (_along_axes if one_by_one else _along_vectors)(
            target, state.moves, options.proposal.shape, noise_multiplier, count, random
        )

    return state.through(length, steps)


def _along_axes(
    target: Target,
    moves: Moves,
    shape: Shape,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
) -> Floats:
    """Return (chain, length, d) draws of steps that move one random coefficient each.

    All chains move the same coefficient in a step, so that its column is read once.
    """
    chains, dimension = target.position.shape
    chosen, deltas = drawn(moves, (length, chains), amounts(shape), random)
    deltas *= np.diag(moves.vectors)[chosen][:, None]
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    target.refresh()
    for t, j in enumerate(chosen.tolist()):
        ratios = target.component_ratios(j, deltas[t])
        accepted = accept(*ratios, noise_multiplier, normals[t], uniforms[t])
        target.component_commit(j, deltas[t], np.array(accepted))
        draws[:, t] = target.position
    return draws


def _along_vectors(
    target: Target,
    moves: Moves,
    shape: Shape,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
) -> Floats:
    """Return (chain, length, d) draws of steps that move several coefficients at once."""
    chains, dimension = target.position.shape
    deltas = moves.along(*drawn(moves, (length, chains), amounts(shape), random))
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
