"""Effective draws of a step of a penalty chain, and its steps from the start to the mode.

The constants of `efficiency` and `best_scale` are measured by experiments/ess_per_step.py, which
solves the chain on N(0, 1) exactly.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import erfc, ndtr

from dpmcmc.families.assumptions import Guess
from dpmcmc.families.target import Floats
from dpmcmc.inputs.options import ComponentProposal, Proposal, Shape
from dpmcmc.samplers.adaptation import STRETCHED_SHARES

BACTRIAN_MODE = 0.95  # of a Bactrian proposal: the distance of its two humps from 0, in its sds
FREE_STEP = 2.4  # best proposal sd without noise, in conditional posterior sds
NOISY_STEP = 2.45  # best sd of the noise on lambda for a proposal of one sd, where noise rules
LARGE_STEP = {"normal": 3.7, "bactrian": 1.8}  # steps a draw that the diffusion limit leaves out
GUIDED_GAIN = 1.1  # of a guided walk in units of its spread: moves outwards are rejected more often
LONG_STEP = {"normal": 3.1, "bactrian": 2.7}  # proposal sd from which they grow,
GROWTH = {"normal": 2.0, "bactrian": 6.0}  # and how fast
SAME_NOISE = 0.02  # relative difference below which the noises of two moves count as equal
MIN_EFFICIENCY = 1e-12  # effective draws a step of a chain that practically never accepts
MOST_STRETCH = 1e9
SLOWER, TRIES = (
    1.5,
    8.0,
)  # of first moves: factor on the steps of `stride`; steps added per coefficient
TRIED_SCALES = np.geomspace(0.4, 1.6, 13)  # times the best scale of a plain walk
_HERMITE, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_TOTAL = _WEIGHTS.sum()
# of Bactrian moves of one sd
_LENGTHS = np.abs(BACTRIAN_MODE + math.sqrt(1.0 - BACTRIAN_MODE**2) * _HERMITE)
_SQUARES = _LENGTHS * _LENGTHS


def best_scale(noise: float) -> float:
    """Return the best proposal sd, in conditional posterior sds.

    noise: sd of the noise on lambda for a proposal that moves by one conditional posterior sd.
    """
    return 1.0 / math.hypot(1.0 / FREE_STEP, noise / NOISY_STEP)


def efficiency(shape: Shape, noise: float, scale: float) -> float:
    """Return the effective draws of N(0, 1) that one step gives.

    Within a quarter for scales of up to 4 and any noise (experiments/ess_per_step.py).

    noise: as in best_scale. scale: proposal sd in posterior sds. The first term is exact for short
    steps: half of E[step^2 Phi(-noise |step| / 2)]. Long ones move by E[step^2 a] a step, a what is
    accepted of them at stationarity, and no chain forgets faster than one whose lag 1 correlation
    is 1 less half of that.
    """
    diffusion = 0.5 * scale * scale * _accepted_square(shape, 0.5 * noise * scale)
    diffusion = max(diffusion, MIN_EFFICIENCY)
    long = (scale / LONG_STEP[shape]) ** GROWTH[shape]
    usual = 1.0 / (1.0 / diffusion + LARGE_STEP[shape] * math.sqrt(1.0 + long))
    moved = scale * scale * _accepted_square(shape, 0.5 * math.hypot(1.0, noise) * scale)
    return min(usual, max(2.0 * moved, MIN_EFFICIENCY) / max(4.0 - 2.0 * moved, 1.0))


def _accepted_square(shape: Shape, beta: float) -> float:
    """Return E[u^2 Phi(-beta |u|)] of a proposal of unit variance."""
    if shape == "bactrian":
        return float(_WEIGHTS @ (_SQUARES * ndtr(-beta * _LENGTHS)) / _TOTAL)
    if beta > 100.0:
        return 4.0 / (3.0 * math.pi * beta**3)  # where the difference below cancels
    return 0.5 - (math.atan(beta) + beta / (1.0 + beta * beta)) / math.pi


def guided_efficiency(shape: Shape, noise: float, scale: float) -> float:
    """Return the effective draws of N(0, 1) that one guided step gives.

    Within a quarter up to the best scale (experiments/ess_per_step.py). noise, scale: as in
    `efficiency`. A step of length e is accepted with probability a(e), and a rejection reverses the
    direction, so the directions of consecutive moves have correlation 2 E a - 1 and the walk
    spreads by E[e^2 a] + E[e a]^2 / (1 - E a) a step; the effective draws are a quarter of that
    where steps are short. Long ones turn where the posterior falls, and so cross the mode more
    often than a walk that turns anywhere.
    """
    hump, hump_sd = (
        (BACTRIAN_MODE, math.sqrt(1.0 - BACTRIAN_MODE**2)) if shape == "bactrian" else (0.0, 1.0)
    )
    u = hump + hump_sd * _HERMITE
    e, weights = scale * np.abs(u), _WEIGHTS / _WEIGHTS.sum()
    a = erfc(math.sqrt(0.125 * (noise * noise + 1.0)) * e)
    spread = weights @ (e * e * a) + (weights @ (e * a)) ** 2 / max(
        1.0 - weights @ a, MIN_EFFICIENCY
    )
    draws = 0.25 * float(spread)
    return max(draws * (1.0 + GUIDED_GAIN * draws), MIN_EFFICIENCY)


@lru_cache(maxsize=4096)
def best_step(shape: Shape, guided: bool, noise: float, vectors: int) -> tuple[float, float]:
    """Return the best scale of a move along directions of one posterior sd, and its draws per step.

    noise: as in best_scale, of a move of one sd. vectors: number of directions moved along at once.
    """
    if vectors > 1:
        size = math.sqrt(0.125 * (2.0 / math.pi * noise**2 + vectors))
        scales = 2.4 * TRIED_SCALES / math.hypot(noise, math.sqrt(vectors))
        candidates = [(0.25 * s * s * math.erfc(size * s), s) for s in scales.tolist()]
    else:
        per_step = guided_efficiency if guided else efficiency
        candidates = [
            (per_step(shape, noise, s), s) for s in (best_scale(noise) * TRIED_SCALES).tolist()
        ]
    draws, scale = max(candidates)
    return scale, max(draws, MIN_EFFICIENCY)


@lru_cache(maxsize=65536)
def step_draws(shape: Shape, guided: bool, noise: float, vectors: int, scale: float) -> float:
    """Return the effective draws of a step of this scale. See best_step."""
    if vectors > 1:
        size = math.sqrt(0.125 * (2.0 / math.pi * noise**2 + vectors))
        draws = 0.25 * scale * scale * math.erfc(size * scale)
    else:
        draws = (guided_efficiency if guided else efficiency)(shape, noise, scale)
    return max(draws, MIN_EFFICIENCY)


def best_length(
    shape: Shape, guided: bool, noises: Floats, vectors: int, lengths: Floats
) -> tuple[float, float]:
    """Return the best scale of a move along a direction of one posterior sd, and its draws.

    noises: sd of the noise on lambda over the length, for moves of these lengths. It is constant
    unless intervals are clipped or not linear: then the best of the lengths is taken, since a clip
    that short moves do not reach leaves long ones less noise for their length.
    """
    short = float(f"{float(noises[0]):.3g}")
    scale, draws = best_step(shape, guided, short, vectors)
    noise_there = float(np.interp(scale, lengths, noises))
    constant = abs(noise_there - noises[0]) <= SAME_NOISE * noises[0]
    if constant and np.ptp(noises) <= SAME_NOISE * noises[0]:
        return scale, draws
    pairs = zip(noises.tolist(), lengths.tolist(), strict=True)
    candidates = [(step_draws(shape, guided, float(f"{n:.3g}"), vectors, s), s) for n, s in pairs]
    draws, scale = max([*candidates, (draws, scale)] if constant else candidates)
    return scale, draws


def mobility(
    proposal: Proposal | ComponentProposal,
    precision: Floats,
    width: Floats,
    joint_width: float,
    scale: float,
    noise_multiplier: float,
    per_step: Callable[[Shape, float, float], float] = efficiency,
) -> Floats:
    """Return mobility (d,): near the mode E[move] = -mobility * precision @ (theta - mode).

    precision: (d, d) of the posterior. width: (d,) of one row's interval per unit move of a
    coefficient; joint_width: the same where all move by one. scale: proposal sd. per_step: of one
    coefficient.
    """
    curvature = np.diag(precision)
    d = len(curvature)
    if proposal.kind == "full":
        noise = noise_multiplier * joint_width * math.sqrt(2.0 / math.pi) * scale
        energy = scale * scale * float(curvature.sum())
        rate = scale**2 * 0.5 * math.erfc(math.sqrt(0.125 * (noise**2 + energy)))
        return np.full(d, max(rate, MIN_EFFICIENCY / float(curvature.max())))
    sds = curvature**-0.5
    steps = [
        per_step(proposal.shape, noise_multiplier * w * s, scale / s)
        for w, s in zip(width.tolist(), sds.tolist(), strict=True)
    ]
    mobilities: Floats = 2.0 * np.array(steps) / (curvature * d)
    return mobilities


LEAST_RATE = 1e-12  # of convergence: bounds that nearly meet lose the slowest direction in rounding


def draws_a_step(guess: Guess, mobility: Floats) -> float:
    """Return the effective draws of a step of a stationary chain, averaged over the coefficients.

    Near the mode the chain is d theta = -M Q (theta - mode) dt + noise with covariance C = Q^-1;
    the integrated autocorrelation time of coefficient j is 2 (C M^-1 C)_jj / C_jj.
    """
    covariance = guess.covariance
    times = 2.0 * np.diag(covariance / mobility @ covariance) / np.diag(covariance)
    return float(np.mean(1.0 / np.maximum(times, 1.0)))


def walk(guess: Guess, mobility: Floats, scale: float) -> int:
    """Return the steps from the prior mean to within one posterior sd of the mode.

    Far away every step in the right direction is accepted: E|move| / 2 per step. Near the mode the
    slowest direction converges exponentially.
    """
    distance = float(guess.distance.max())
    rate, near, closing = _closing(guess, mobility, scale)
    return math.ceil((distance - near) / (rate * near) + closing / rate)


def stride(guess: Guess, mobility: Floats, scale: float, fitted: bool) -> tuple[float, int]:
    """Return the best factor of the first moves of such a walk, and its steps to the mode with it.

    It is the distance over that at which moves of `scale` converge exponentially, so that the walk
    converges exponentially from the start. Moves shrink more slowly than that, so that no
    coefficient is left far away. fitted: whether moves are fitted to the draws of the warm-up.
    """
    rate, near, closing = _closing(guess, mobility, scale)
    stretch = min(float(guess.distance.max()) / near, MOST_STRETCH)
    first = math.log(stretch) * (SLOWER / rate + TRIES * len(mobility))
    return stretch, math.ceil(max(first / STRETCHED_SHARES[fitted], first + closing / rate))


def _closing(guess: Guess, mobility: Floats, scale: float) -> tuple[float, float, float]:
    """Return the rate of exponential convergence, the distance where it begins, and its log."""
    root = np.sqrt(mobility)
    rates = np.linalg.eigvalsh(root[:, None] * guess.precision * root)
    rate = max(float(rates.min()), LEAST_RATE)
    sd = float(np.sqrt(np.diag(guess.covariance)).max())
    speed = scale / math.sqrt(2.0 * math.pi) * float(np.max(mobility / mobility.sum()))
    near = max(min(float(guess.distance.max()), speed / rate), LEAST_RATE * sd)
    return rate, near, max(math.log(max(near / sd, 1.0)), 1.0)
