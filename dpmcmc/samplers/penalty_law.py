"""How far a penalty chain moves a step: what the planner needs of these samplers.

Every constant is measured by experiments/ess_law.py, which solves the chain on N(0, 1) exactly.
"""

import math

import numpy as np
from scipy.special import ndtr

from dpmcmc.samplers.base import ComponentProposal, Floats, Proposal, Shape

SPREAD = 0.95  # of a Bactrian proposal: the distance of its two humps from 0, in its sds
FREE_STEP = 2.4  # best proposal sd without noise, in conditional posterior sds
NOISY_STEP = 2.45  # best sd of the noise on lambda for a proposal of one sd, where noise rules
LARGE_STEP = {"normal": 3.7, "bactrian": 1.8}  # steps a draw that the diffusion limit leaves out
LONG_STEP = {"normal": 3.1, "bactrian": 2.7}  # proposal sd from which they grow,
GROWTH = {"normal": 2.0, "bactrian": 6.0}  # and how fast
STUCK = 1e-12  # effective draws a step of a chain that practically never accepts
_HERMITE, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


def best_scale(noise: float) -> float:
    """Return the best proposal sd, in conditional posterior sds.

    noise: sd of the noise on lambda for a proposal that moves by one conditional posterior sd.
    """
    return 1.0 / math.hypot(1.0 / FREE_STEP, noise / NOISY_STEP)


def efficiency(shape: Shape, noise: float, scale: float) -> float:
    """Return the effective draws of N(0, 1) that one step gives.

    Within 20 % up to the best scale, within 60 % at 1.6 times the best scale.

    noise: as in best_scale. scale: proposal sd in posterior sds. The first term is exact for short
    steps: half of E[step^2 Phi(-noise |step| / 2)].
    """
    diffusion = 0.5 * scale * scale * _accepted_square(shape, 0.5 * noise * scale)
    diffusion = max(diffusion, STUCK)
    long = (scale / LONG_STEP[shape]) ** GROWTH[shape]
    return 1.0 / (1.0 / diffusion + LARGE_STEP[shape] * math.sqrt(1.0 + long))


def _accepted_square(shape: Shape, beta: float) -> float:
    """Return E[u^2 Phi(-beta |u|)] of a proposal of unit variance."""
    if shape == "bactrian":
        u = SPREAD + math.sqrt(1.0 - SPREAD**2) * _HERMITE
        return float(_WEIGHTS @ (u * u * ndtr(-beta * np.abs(u))) / _WEIGHTS.sum())
    if beta > 100.0:
        return 4.0 / (3.0 * math.pi * beta**3)  # where the difference below cancels
    return 0.5 - (math.atan(beta) + beta / (1.0 + beta * beta)) / math.pi


def mobility(
    proposal: Proposal | ComponentProposal,
    precision: Floats,
    width: Floats,
    joint_width: float,
    scale: float,
    noise_multiplier: float,
) -> Floats:
    """Return (d,) mobility a step: near the mode E[move] = -mobility * precision @ (theta - mode).

    precision: (d, d) of the posterior. width: (d,) of one row's interval per unit move of a
    coefficient; joint_width: the same where all move by one. scale: proposal sd.
    """
    curvature = np.diag(precision)
    d = len(curvature)
    if proposal.kind == "full":
        noise = noise_multiplier * joint_width * math.sqrt(2.0 / math.pi) * scale
        energy = scale * scale * float(curvature.sum())
        rate = scale**2 * 0.5 * math.erfc(math.sqrt(0.125 * (noise**2 + energy)))
        return np.full(d, max(rate, STUCK / float(curvature.max())))
    sds = curvature**-0.5
    steps = [
        efficiency(proposal.shape, noise_multiplier * w * s, scale / s)
        for w, s in zip(width.tolist(), sds.tolist(), strict=True)
    ]
    moved: Floats = 2.0 * np.array(steps) / (curvature * d)
    return moved
