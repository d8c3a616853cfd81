"""The step of DP HMC and DP MALA: leapfrog with noisy gradients, decided by a noisy ratio."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpmcmc.families.target import Floats, Gradients, Path, Trajectories
from dpmcmc.inputs.options import Start
from dpmcmc.privacy.discrete import Integers, gaussian_noise, noisy_sums, scale_of
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import TRAJECTORY_DECISION, TRAJECTORY_GRADIENT
from dpmcmc.samplers.hamiltonian_mixing import (
    START_GRADIENT_ERROR,
    ratio_clip,
    trajectory_draws,
    with_control_variate,
)
from dpmcmc.samplers.starts import ChainStart, begin, with_event

DIRECTIONS, NUDGE = 32, 1e-3  # in which widths of ratios are computed, and their length in sds
SIGNIFICANT_RATIO = 4.0  # of a squared error over what noise alone gives
MIN_STEP_RATIO = 1e-3  # step size over the planned one


class HamiltonianOptions(Protocol):
    """The options that HMC and MALA share."""

    @property
    def num_steps(self) -> int | None:
        """Steps of each chain, warm-up included."""

    @property
    def num_chains(self) -> int | None:
        """Number of chains; each is charged."""

    @property
    def num_leapfrog(self) -> int:
        """Leapfrog steps of a trajectory, with a gradient each."""

    @property
    def step_size(self) -> float | None:
        """Leapfrog step size, in units where the mass matrix is near the posterior precision."""

    @property
    def mass(self) -> tuple[float, ...] | None:
        """Diagonal of the mass matrix; with a start, the released precision is used instead."""

    @property
    def gradient_clip(self) -> float | None:
        """Norm to which per-row gradients are clipped."""

    @property
    def gradient_noise_multiplier(self) -> float | None:
        """Noise multiplier of every gradient; the job's noise multiplier is that of ratios."""

    @property
    def start(self) -> Start | None:
        """The release that the chain starts from."""


@dataclass(slots=True)
class HamiltonianState:
    """The state of a chain without its position.

    root: (d, d), root @ root.T is the inverse mass matrix. back: (d, d), from the coordinates that
    gradients are clipped in, see Target.spread, times the weight of noisy gradients. step_size,
    clip: of all trajectories. (position - centre (d,)) @ pull (d, d) and offset (d,) are added to
    every gradient. gradients: (chain, d), the released noisy gradients of the log
    posterior at the positions, offset included.
    """

    root: Floats
    back: Floats
    step_size: float
    clip: float
    centre: Floats
    pull: Floats
    offset: Floats
    gradients: Floats = field(default_factory=lambda: np.empty(0))


def hamiltonian_event(options: HamiltonianOptions, noise_multiplier: float, rows: int) -> Event:
    """Return the event: a first gradient, then num_leapfrog gradients and a ratio per step.

    Proof: docs/proofs/dp_hmc.md.
    """
    z, steps, chains = options.gradient_noise_multiplier, options.num_steps, options.num_chains
    if z is None or steps is None or chains is None:
        raise ValueError("the number of steps and of chains, and the noise, must be known")
    gradients = Repeat(Gaussian(z), chains * (steps * options.num_leapfrog + 1))
    ratios = Repeat(Gaussian(noise_multiplier), chains * steps)
    return with_event(options.start, Compose((gradients, ratios)))


def init(
    target: Gradients,
    options: HamiltonianOptions,
    noise_multiplier: float,
    random: RandomSource,
    start: ChainStart | None = None,
) -> HamiltonianState:
    """Release the gradient at the starting points. Privacy: one Gaussian event for each chain."""
    begin(target, start)
    z = options.gradient_noise_multiplier or math.nan
    noise = gradient_noise(random, z, target.position.shape)
    if start is None:
        root = np.diag(_inverse(options.mass)) ** 0.5
        d = len(root)
        state = HamiltonianState(root, np.eye(d), *_planned(options), *_no_control_variate(d))
        state.gradients = _gradients(target, options, state, target.position, noise)
        return state
    state = _fitted(target, options, noise_multiplier, start, random)
    state.gradients = _gradients(target, options, state, target.position, noise)
    clipping_error = _clipping_error(target, start, state, _noise_root(target, options, state))
    state.offset, state.gradients = state.offset + clipping_error, state.gradients + clipping_error
    return state


def _planned(options: HamiltonianOptions) -> tuple[float, float]:
    """Return the step size and the gradient clip."""
    if options.step_size is None or options.gradient_clip is None:
        raise ValueError("the step size and the gradient clip must be known")
    return options.step_size, options.gradient_clip


def _fitted(
    target: Gradients,
    options: HamiltonianOptions,
    noise_multiplier: float,
    start: ChainStart,
    random: RandomSource,
) -> HamiltonianState:
    """Return the state of chains from a released start. Proof: docs/proofs/dp_hmc.md."""
    root, (step, clip) = start.root, _planned(options)
    back, factor = target.use_coordinates(root)
    facts = target.rows, target.tempering, noise_multiplier, len(root)
    most = ratio_clip(*facts, bounded=target.bounded)
    if most < math.inf:
        target.narrow_clip(np.asarray(most * np.linalg.inv(root).T))
    clip *= float(target.information_scale(start.mode[None], start.moments)[1][0]) * factor
    state = HamiltonianState(root, back, step, clip, *_no_control_variate(len(root)))
    start_error = _weigh_gradients(target, options, state, start)
    state.step_size = _shortened(target, options, noise_multiplier, state, start_error, random)
    return state


def _no_control_variate(dimension: int) -> tuple[Floats, Floats, Floats]:
    """Return centre, pull and offset of gradients without a control variate."""
    return np.zeros(dimension), np.zeros((dimension, dimension)), np.zeros(dimension)


def _weigh_gradients(
    target: Gradients,
    options: HamiltonianOptions,
    state: HamiltonianState,
    start: ChainStart,
) -> float:
    """Weight noisy gradients against those of the released normal approximation.

    Returns the squared error of the approximation, in posterior sds. Proof: docs/proofs/dp_hmc.md.
    """
    back, d = np.linalg.inv(start.root), len(start.mode)
    start_error = d * START_GRADIENT_ERROR**2 + float(np.trace(back @ start.error @ back.T))
    noise_square = (_noise_root(target, options, state) ** 2).sum()
    weight, _, total_error = with_control_variate(noise_square, start_error, options.num_leapfrog)
    likelihood = back.T @ back - np.diag(start.prior)
    score = -target.log_prior_gradient(start.mode[None])[0]  # of the likelihood, at the mode
    state.back, state.centre = weight * state.back, start.mode
    state.pull, state.offset = -(1.0 - weight) * likelihood, (1.0 - weight) * score
    return float(total_error)


def _noise_root(target: Gradients, options: HamiltonianOptions, state: HamiltonianState) -> Floats:
    """Return a root (d, d) of the covariance of a gradient's noise, in posterior sds."""
    sd = (options.gradient_noise_multiplier or math.nan) * 2.0 * state.clip * target.tempering
    return np.asarray(sd * state.back @ state.root)


def _clipping_error(
    target: Gradients, start: ChainStart, state: HamiltonianState, noise: Floats
) -> Floats:
    """Return the significant bias (d,) of clipped gradients near the mode.

    Clipping a few outlying rows shifts the zero of the gradient by several sds. At the start of a
    chain the expected gradient is known: the precision times the difference to the mode. noise:
    see _noise_root.
    """
    back = np.linalg.inv(start.root)
    expected = (start.mode - target.position) @ back.T @ back
    gap = (expected - state.gradients).mean(axis=0)
    noise_square = float((noise**2).sum() / len(expected) + np.trace(back @ start.error @ back.T))
    size = float(((gap @ start.root) ** 2).sum())
    significant = max(size - SIGNIFICANT_RATIO * noise_square, 0.0)
    return np.asarray(gap * (significant / size if significant else 0.0))


def _shortened(
    target: Gradients,
    options: HamiltonianOptions,
    noise_multiplier: float,
    state: HamiltonianState,
    start_error: float,
    random: RandomSource,
) -> float:
    """Return the planned step size, or a smaller one that is better for the released covariance.

    Where ratios or gradients have more noise than planned, shorter trajectories are accepted more
    often. A function of public and released numbers.
    """
    directions = random.normals((DIRECTIONS, *target.position.shape)) @ state.root.T
    widths = [target.widths(target.position, NUDGE * direction) for direction in directions]
    steps = state.step_size * np.geomspace(MIN_STEP_RATIO, 1.0, 100)
    ratio = noise_multiplier * float(np.mean(widths)) / NUDGE
    noise = _noise_root(target, options, state)
    noise_square, d = float((noise**2).sum()), len(noise)
    draws = trajectory_draws(steps, options.num_leapfrog, ratio, noise_square, d, start_error)
    return float(steps[int(np.argmax(draws))])


def _inverse(mass: tuple[float, ...] | None) -> Floats:
    """Return the diagonal (d,) of the inverse mass matrix."""
    if mass is None:
        raise ValueError("the mass matrix must be known")
    return 1.0 / np.array(mass)


def gradient_noise(random: RandomSource, z: float, shape: tuple[int, ...]) -> Integers:
    """Return the noise of gradients, for noisy_sums. Privacy: a Gaussian(z) event for each."""
    return gaussian_noise(random, TRAJECTORY_GRADIENT, z, shape)


def _gradients(
    target: Gradients,
    options: HamiltonianOptions,
    state: HamiltonianState,
    positions: Floats,
    noise: Integers,
) -> Floats:
    """Release the gradient of the log posterior, (chain, d). Privacy: one Gaussian event a chain.

    Proof: docs/proofs/gaussian_release.md, sections 1 and 2.
    """
    sums, sensitivity = target.gradient(positions, state.clip)
    released = noisy_sums(sums, sensitivity, options.gradient_noise_multiplier or math.nan, noise)
    public = target.log_prior_gradient(positions) + (positions - state.centre) @ state.pull
    return np.asarray(released @ state.back + public + state.offset)


def step(
    target: Gradients,
    options: HamiltonianOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: HamiltonianState,
) -> Floats:
    """Return (chain, length, d) draws.

    Privacy: num_leapfrog gradients and one ratio for each step and chain, all Gaussian events.
    Proof: docs/proofs/dp_hmc.md. Source: thesis A, Algorithm 3, corrected.
    """
    chains, dimension = target.position.shape
    momenta = random.normals((length, chains, dimension))
    z = options.gradient_noise_multiplier or math.nan
    noise = gradient_noise(random, z, (length, options.num_leapfrog, chains, dimension))
    decisions = gaussian_noise(random, TRAJECTORY_DECISION, noise_multiplier, (length, chains))
    uniforms = random.uniforms((length, chains))
    path = Path(
        *(state.step_size, state.clip, z, state.root, state.back),
        *(state.centre, state.pull, state.offset),
    )
    steps = Trajectories(momenta, noise, decisions, uniforms, scale_of(noise_multiplier))
    return target.hamiltonian_walk(path, steps, state.gradients)
