"""DP penalty on secret minibatches, corrected for the sampling noise of the batch as well."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpmcmc.families.assumptions import Assumptions, Guess
from dpmcmc.families.target import Floats, Minibatches, PublicRows
from dpmcmc.inputs.options import DpPenaltySubsampledOptions
from dpmcmc.kernels.arithmetic.rules import PENALTY, Rule
from dpmcmc.privacy.discrete import gaussian_noise, scale_of
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import SUBSAMPLED_DECISION
from dpmcmc.samplers.adaptation import LENGTHS, Walk, drawn
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.minibatch import (
    batch_columns,
    batch_steps,
    calibrated,
    chain_mu_of,
    minibatch_event,
    rounding,
    settled_batch,
)
from dpmcmc.samplers.penalty import amounts, init
from dpmcmc.samplers.penalty_mixing import PenaltyMixing
from dpmcmc.samplers.starts import START_SHARES, settled

BATCH_DIVISOR = 10  # a batch is one part in so many of the rows


def rule_of(noise_multiplier: float, batch: int, target: Minibatches) -> Rule:
    """Return the acceptance rule of a step, with Cochran's unbiased variance of a batch."""
    rows, noise = target.rows, scale_of(noise_multiplier)
    return Rule(
        PENALTY,
        batch,
        scale=rows * target.tempering / batch,
        part=(1.0 - batch / rows) * batch / (batch - 1.0),
        unit=noise.unit,
        sd=noise.sd,
        rounding=rounding(batch),
    )


def step(
    target: Minibatches,
    options: DpPenaltySubsampledOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Walk,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain subsampled Gaussian events.

    Proof: docs/proofs/dp_penalty_subsampled.md. Source: thesis A, section 4.1, corrected.
    """

    def steps(count: int) -> Floats:
        """Return the draws of the next `count` steps."""
        shape, draw_amounts = (count, len(target.position)), amounts(options.proposal.shape)
        deltas = state.moves.along(*drawn(state.moves, shape, draw_amounts, random))
        deltas *= state.lengths(count)[:, None, None]
        return _steps(target, deltas, options.batch or 0, noise_multiplier, random)

    return state.through(length, steps)


def _steps(
    target: Minibatches, deltas: Floats, batch: int, noise_multiplier: float, random: RandomSource
) -> Floats:
    """Return (chain, length, d) draws of the steps that propose deltas (length, chain, d)."""
    length, chains, _ = deltas.shape
    noise = gaussian_noise(random, SUBSAMPLED_DECISION, noise_multiplier, (length, chains))
    uniforms = random.uniforms((length, 1, chains))
    rule = rule_of(noise_multiplier, batch, target)
    return batch_steps(target, rule, deltas, noise, uniforms, random)


@dataclass(frozen=True, slots=True)
class SubsampledMixing(PenaltyMixing):
    """The penalty mixing model, with the noise of the batch in addition to that of privacy.

    That noise grows with the square of a move's length, so that long moves are rejected.
    """

    bold: ClassVar[bool] = False

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return the parts of mu^2 that the planner tries for a start."""
        return START_SHARES

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all values that do not depend on the budget. Raises SpecError."""
        batch = settled_batch(options.batch, assumptions.rows, BATCH_DIVISOR)
        return replace(options, batch=batch, start=settled(options.start, assumptions))

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return a noise multiplier with which all steps cost at most (epsilon, delta)."""
        count = options.num_steps * options.num_chains
        return calibrated(count, options.batch, rows, epsilon, delta, options.start)

    def _noise(self, options: Any, public: PublicRows, z: float) -> float:
        """Return the least noise sd on lambda per nat of a tempered interval."""
        return float(z * public.rows / options.batch)

    def _noisy_guess(self, options: Any, assumptions: Assumptions, z: float, scale: float) -> Guess:
        """Return the guess with widths for the noise of privacy and of the batch together."""
        guess, part = (
            PenaltyMixing._noisy_guess(self, options, assumptions, z, scale),
            options.batch / assumptions.rows,
        )
        batch_noise = _batch_noise_sd(part, assumptions.tempering) / z
        width = np.hypot(guess.width / part, batch_noise / assumptions.sds)
        joint = float(np.hypot(guess.joint_width / part, batch_noise / assumptions.sds.max()))
        return replace(guess, width=width, joint_width=joint)

    def _noise_ratios(self, options: Any, public: PublicRows, z: float, widths: Floats) -> Floats:
        """Return the sds of the noise on lambda, of privacy and batch, for moves of LENGTHS."""
        part = options.batch / public.rows
        scaled = widths / part
        jump = 0.5 * (1.0 - part) * scaled**2
        noises = z * (scaled + jump) / LENGTHS[:, None]
        return np.asarray(np.hypot(noises, _batch_noise_sd(part, public.tempering)))

    def _spent(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> float:
        """Return the approximate mu of all steps of all chains."""
        return chain_mu_of(options, assumptions.rows, noise_multiplier)

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""
        return batch_columns(options, rows, dimension)


def _batch_noise_sd(part: float, tempering: float) -> float:
    """Return the sd of a batch's sampling noise on lambda, for a move of one posterior sd."""
    return math.sqrt((1.0 - part) * tempering / part)


MIXING = SubsampledMixing()
SAMPLER = Sampler(
    "dp_penalty_subsampled",
    DpPenaltySubsampledOptions,
    event=minibatch_event,
    mixing=MIXING,
    step=step,
    init=partial(init, MIXING),
)
