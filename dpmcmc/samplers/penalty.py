"""The penalty step: a Metropolis step that corrects for the noise of its log ratio."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.target import Floats, Ratios, Steps
from dpmcmc.inputs.options import ChainOptions, Shape
from dpmcmc.privacy.discrete import gaussian_noise, scale_of
from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import PENALTY_DECISION
from dpmcmc.samplers.adaptation import Amounts, Walk, axes, drawn, lengths
from dpmcmc.samplers.penalty_efficiency import BACTRIAN_MODE
from dpmcmc.samplers.penalty_mixing import PenaltyMixing
from dpmcmc.samplers.starts import ChainStart, begin, with_event


def penalty_event(options: ChainOptions, noise_multiplier: float, rows: int) -> Event:
    """Return the event of a run: one Gaussian release for every step of every chain.

    The event of a start comes before, if there is one.
    """
    if options.num_steps is None or options.num_chains is None:
        raise ValueError("the number of steps and of chains must be known")
    steps = Repeat(Gaussian(noise_multiplier), options.num_steps * options.num_chains)
    return with_event(options.start, steps)


def init(
    mixing: PenaltyMixing,
    target: Ratios,
    options: Any,
    noise_multiplier: float,
    random: RandomSource,
    start: ChainStart | None = None,
) -> Walk:
    """Put chains at the public start, or at a released one, whose covariance shapes the walk."""
    begin(target, start)
    proposal, dimension = options.proposal, target.position.shape[1]
    if proposal.scale is None:
        raise ValueError("the proposal's scale must be known")
    warmup, fitted = options.num_warmup or 0, bool(proposal.adapt)
    steps, first = warmup if fitted else 0, lengths(proposal.stretch or 1.0, warmup, fitted)
    fit = mixing.fit(options, target, noise_multiplier) if steps else None
    walk = Walk(target, axes(proposal.scale, dimension, proposal.kind), steps, fit, first)
    if start is not None:
        walk.shape(start.mode, start.root @ start.root.T)
    return walk


def amounts(shape: Shape) -> Amounts:
    """Return a function (shape, random) that draws symmetric lengths of moves of variance 1."""

    def bactrian(size: tuple[int, ...], random: RandomSource) -> Floats:
        """Return draws of the bactrian distribution of variance 1."""
        normals = random.normals(size)
        sides = 2.0 * random.integers(2, size) - 1.0
        return BACTRIAN_MODE * sides + math.sqrt(1.0 - BACTRIAN_MODE**2) * normals

    def normal(size: tuple[int, ...], random: RandomSource) -> Floats:
        """Return standard normal draws."""
        return random.normals(size)

    return bactrian if shape == "bactrian" else normal


def step(
    target: Ratios,
    options: Any,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Walk,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain Gaussian events."""

    def steps(count: int) -> Floats:
        """Return the draws of the next `count` steps."""
        return taken(target, state, options.proposal.shape, noise_multiplier, count, random)

    return state.through(length, steps)


def taken(
    target: Ratios,
    walk: Walk,
    shape: Shape,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    signs: NDArray[np.int64] | None = None,
) -> Floats:
    """Return (chain, length, d) draws of steps by the walk's moves. signs: see Target.penalty_walk.

    All chains move along the same vector in a step, so that one coefficient's column is read once.
    """
    moves, chains = walk.moves, len(target.position)
    chosen, distances = drawn(moves, (length, chains), amounts(shape), random)
    deltas = moves.along(chosen, distances if signs is None else np.abs(distances))
    deltas *= walk.lengths(length)[:, None, None]
    noise = gaussian_noise(random, PENALTY_DECISION, noise_multiplier, (length, chains))
    uniforms = random.uniforms((length, chains))
    alone = moves.kind == "axes"
    steps = Steps(chosen, deltas, alone, noise, uniforms, scale_of(noise_multiplier))
    return target.penalty_walk(steps, signs)
