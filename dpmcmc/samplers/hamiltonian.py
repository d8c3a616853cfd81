"""The step of DP HMC and DP MALA: leapfrog with noisy gradients, decided by a noisy ratio."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.discrete import Integers, discrete_gaussian, log2_sd, noisy_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers import warm_start
from dpmcmc.samplers.base import Floats, Target
from dpmcmc.samplers.options import WarmStart
from dpmcmc.samplers.penalty import accept

FARTHEST = 1e9  # a trajectory that leaves +- this is rejected


class HamiltonianOptions(Protocol):
    """What HMC and MALA are told."""

    @property
    def num_steps(self) -> int | None:
        """Steps of each chain, warm-up included."""

    @property
    def num_chains(self) -> int | None:
        """Number of chains; all of them are paid for."""

    @property
    def num_leapfrog(self) -> int:
        """Gradients a step."""

    @property
    def step_size(self) -> float | None:
        """Of a leapfrog step, where the mass matrix is near the posterior's precision."""

    @property
    def mass(self) -> tuple[float, ...] | None:
        """Diagonal of the mass matrix; a warm start's released precision takes its place."""

    @property
    def gradient_clip(self) -> float | None:
        """Largest norm that one row's gradient keeps."""

    @property
    def gradient_noise_multiplier(self) -> float | None:
        """Of every gradient; the job's noise multiplier is that of every ratio."""

    @property
    def warm_start(self) -> WarmStart | None:
        """Where the chain starts from."""


@dataclass(slots=True)
class HamiltonianState:
    """What a chain carries beside its position.

    root: (d, d), root @ root.T is the inverse mass matrix. gradients: (chain, d), the released
    noisy gradients of the log posterior at the positions.
    """

    root: Floats
    gradients: Floats


def hamiltonian_event(options: HamiltonianOptions, noise_multiplier: float, rows: int) -> Event:
    """Return one gradient to begin with, num_leapfrog more and a ratio a step, for every chain.

    Proof: docs/proofs/dp_hmc.md.
    """
    z, steps, chains = options.gradient_noise_multiplier, options.num_steps, options.num_chains
    if z is None or steps is None or chains is None:
        raise ValueError("the number of steps and of chains, and the noise, must be known")
    gradients = Repeat(Gaussian(z), chains * (steps * options.num_leapfrog + 1))
    ratios = Repeat(Gaussian(noise_multiplier), chains * steps)
    return warm_start.with_event(options.warm_start, Compose((gradients, ratios)))


def start(
    target: Target, options: HamiltonianOptions, noise_multiplier: float, random: RandomSource
) -> HamiltonianState:
    """Warm up, if asked to, and release the gradient at the start. One Gaussian event a chain."""
    found = warm_start.begin(target, options.warm_start, random)
    root = np.diag(_known(options.mass)) ** 0.5 if found is None else found.root
    noise = _noise(options, random, target.position.shape)
    return HamiltonianState(root, _gradients(target, options, target.position, noise))


def _known(mass: tuple[float, ...] | None) -> Floats:
    if mass is None:
        raise ValueError("the mass matrix must be known")
    return 1.0 / np.array(mass)


def _noise(options: HamiltonianOptions, random: RandomSource, shape: tuple[int, ...]) -> Integers:
    return discrete_gaussian(random, log2_sd(options.gradient_noise_multiplier or math.nan), shape)


def _gradients(
    target: Target, options: HamiltonianOptions, positions: Floats, noise: Integers
) -> Floats:
    """Release the gradient of the log posterior, (chain, d). Privacy: one Gaussian event a chain.

    Proof: docs/proofs/gaussian_release.md, sections 1 and 2.
    """
    sums, sensitivity = target.gradient(positions, options.gradient_clip or math.nan)
    z = options.gradient_noise_multiplier or math.nan
    return noisy_sums(sums, sensitivity, z, noise) + target.log_prior_gradient(positions)


def advance(
    target: Target,
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
    noise = _noise(options, random, (length, options.num_leapfrog, chains, dimension))
    normals = random.normals((length, chains))
    uniforms = random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    target.refresh()
    for t in range(length):
        ends, after, gradients, lost = _leapfrog(target, options, state, momenta[t], noise[t])
        deltas = np.where(lost[:, None], 0.0, ends - target.position)
        sums, sensitivities, priors = target.vector_ratios(deltas)
        kinetic = 0.5 * (momenta[t] ** 2 - after**2).sum(axis=1)
        decided = accept(
            sums, sensitivities, priors + kinetic, noise_multiplier, normals[t], uniforms[t]
        )
        accepted = np.array(decided) & ~lost
        target.vector_commit(deltas, accepted)
        state.gradients = np.where(accepted[:, None], gradients, state.gradients)
        draws[:, t] = target.position
    return draws


def _leapfrog(
    target: Target,
    options: HamiltonianOptions,
    state: HamiltonianState,
    momenta: Floats,
    noise: Integers,
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return (positions, momenta, gradients) at the ends of the trajectories, and which are lost.

    momenta: (chain, d) of unit variance, in the coordinates that root makes of the positions.
    noise: (leapfrog, chain, d). A lost trajectory went where no number is exact; it is paid for.
    """
    step, root = options.step_size or math.nan, state.root
    positions, gradients = target.position.copy(), state.gradients
    lost = np.zeros(len(positions), dtype=np.bool_)
    for fresh in noise:
        momenta = momenta + 0.5 * step * gradients @ root
        moved = positions + step * momenta @ root.T
        lost |= ~(np.abs(moved) < FARTHEST).all(axis=1)
        positions = np.where(lost[:, None], target.position, moved)
        gradients = _gradients(target, options, positions, fresh)
        momenta = momenta + 0.5 * step * gradients @ root
    return positions, momenta, gradients, lost
