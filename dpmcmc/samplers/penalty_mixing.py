"""The mixing model of the penalty samplers, for the planner."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpmcmc.families.assumptions import Assumptions, Guess
from dpmcmc.families.target import Floats, PublicRows
from dpmcmc.inputs.options import ComponentProposal, Proposal
from dpmcmc.privacy import accountant
from dpmcmc.samplers.adaptation import LENGTHS, Fit, best_moves
from dpmcmc.samplers.base import Expectation
from dpmcmc.samplers.penalty_efficiency import (
    FREE_STEP,
    best_length,
    best_scale,
    draws_a_step,
    efficiency,
    guided_efficiency,
    mobility,
    stride,
    walk,
)
from dpmcmc.samplers.starts import START_SHARES, arrived, chain_mu, finished, settled

STEPS_PER_RATIO = 64.0  # four times what `efficiency` needs: warm-up then costs a smaller part
MIN_STEPS = 1000.0  # fewer would save little
# expected effective draws from which a warm-up can estimate directions of moves
MIN_ESS_FOR_ADAPTATION = 300.0
WARMUP_DIVISOR = 5  # one part in so many of such a chain is warm-up
# clip width over the root mean square of rows' ratios for the longest useful move,
LONGEST_MOVE_RATIO = 10.0
CLIP_NOISE_SD = 1.5  # or an interval with noise of this sd: where planned ratios are cut
MAX_RATIO_NATS = 16.0  # nats of a tempered ratio, more than a row has in any accepted step
LARGEST_WIDTH = 1e6  # of a job's clip_width
# part of the draws that is left where sds of coefficients differ by what rows alone tell, as those
# of models without bounded ratios do (experiments/large_effects.py): moves are then too long for
# some, until enough draws are there to fit them
UNEQUAL_SDS = 0.7
LARGE_MU = 100.0  # mu, an epsilon of some 5,000: from there on a start is affordable


def adapts(
    options: Any, guess: Guess, adapt: bool | None, scale: float | None, draws: float
) -> tuple[bool, int]:
    """Return whether moves are fitted, and the warm-up steps whose draws fit them.

    Where the posterior's covariance is an assumption, that of the start's release is better, for
    any number of draws. adapt, scale: as the caller gave them. draws: expected effective draws per
    step of a fitted chain.
    """
    enough_draws = bool(draws * options.num_steps * options.num_chains >= MIN_ESS_FOR_ADAPTATION)
    shaped = options.start is not None and not guess.known
    if options.num_warmup == 0 or adapt is False or (adapt is None and scale is not None):
        return False, 0
    fitted = adapt or enough_draws or shaped
    return fitted, options.num_steps // WARMUP_DIVISOR if fitted and (
        enough_draws or not shaped
    ) else 0


def of_unequal_sds(draws: float, guess: Guess) -> float:
    """Return effective draws per step, reduced where the posterior's shape is only guessed."""
    guessed = not guess.known and math.isinf(guess.steepest)
    return UNEQUAL_SDS * draws if guessed else draws


def fitted_draws(guess: Guess, fit: Fit, whole: bool = False) -> float:
    """Return the effective draws of a step whose moves are fitted to the assumed posterior.

    The width of a slanted move is bounded by the sum of its parts' widths.
    """

    def width(vectors: Floats, _: bool) -> Floats:
        return np.asarray(np.abs(vectors) @ guess.width)

    return best_moves(guess.covariance, width, fit, whole)[1]


def begun(options: Any, assumptions: Assumptions, spent: float) -> tuple[Any, Guess]:
    """Return options with the start's noise, and the assumptions at the chain's start.

    spent: mu of the chain.
    """
    start = finished(options.start, spent)
    if start is None:
        return options, assumptions.guess
    guess = replace(assumptions.guess, distance=arrived(start, assumptions))
    return replace(options, start=start), guess


def clipped(options: Any, assumptions: Assumptions, longest: float, quiet: float) -> Any:
    """Return options with a clip width, where the planner chooses it, knowing the budget.

    Declared bounds may allow larger ratios than any row has, and the noise is scaled to what they
    allow. So ratios are clipped at a width that hardly any row reaches, or at a larger one with
    little noise. Where a model bounds per-row gradients, this is done for large budgets only: there
    are directions in which nearly collinear rows have small ratios, unlike the bounds. Reasons:
    docs/proofs/dp_penalty.md, section 2.

    longest: useful move, in posterior sds. quiet: a tempered width with little noise.
    """
    fixed = options.clip_width is not None or options.clip_bound is not None
    bounded = math.isfinite(assumptions.guess.steepest)
    if fixed or assumptions.mu is None or (bounded and assumptions.mu < LARGE_MU):
        return options
    width = min(
        max(
            usual_clip_width(assumptions, longest),
            min(quiet, MAX_RATIO_NATS) / assumptions.tempering,
        ),
        LARGEST_WIDTH,
    )
    return replace(options, clip_width=float(f"{width:.4g}"))


def usual_clip_width(assumptions: Assumptions, longest: float) -> float:
    """Return the width of an interval that contains nearly all ratios. longest: see `clipped`."""
    return 2.0 * LONGEST_MOVE_RATIO * longest / math.sqrt(assumptions.rows * assumptions.tempering)


def clipped_width(options: Any, tempering: float) -> float:
    """Return the largest change of a sum by one row after clipping."""
    both = 2.0 * (options.clip_bound or math.inf)
    return tempering * min(options.clip_width or math.inf, both)


@dataclass(frozen=True, slots=True)
class PenaltyMixing:
    """The mixing model of the penalty samplers. guided: whether the walk keeps its direction.

    bold: whether the planner makes the first moves longer, see `stride`. With the caller's own
    number of steps there is no start unless the caller gives one or the budget is large: such a
    job costs mu = sqrt(all steps) / noise multiplier.
    """

    bold: ClassVar[bool] = True
    guided: bool = False

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return the parts of mu^2 that the planner tries for a start.

        With a start the moves have the shape of the posterior from the first step.
        """
        return START_SHARES if options.num_steps is None or mu >= LARGE_MU else ()

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all values that do not depend on the budget. Raises SpecError."""
        return replace(options, start=settled(options.start, assumptions))

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return the approximate number of steps of a chain that is best for a budget of mu.

        A budget gives the same effective draws for any number of steps above some 16 times the
        ratio of the posterior's curvature to the noise. With more steps the warm-up is a smaller
        part of them.
        """
        width = assumptions.guess.width
        if mu >= LARGE_MU:  # ratios will be clipped
            clip_width = (
                assumptions.tempering * usual_clip_width(assumptions, FREE_STEP) / FREE_STEP
            )
            width = np.minimum(width, clip_width / assumptions.sds)
        mu = chain_mu(options.start, mu)
        ratio = mu**2 * float(np.max(1.0 / (width * assumptions.sds) ** 2))
        return max(MIN_STEPS, STEPS_PER_RATIO * ratio / chains)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return a noise multiplier with which all steps cost at most (epsilon, delta)."""
        count = options.num_steps * options.num_chains
        if options.start is None:
            return accountant.noise_multiplier_for(epsilon, delta, count)
        mu = chain_mu(options.start, accountant.mu_of_epsilon(epsilon, delta))
        return math.sqrt(count) / mu * (1.0 + 1e-12)

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the complete options with the expected mixing. Raises SpecError."""
        guess, proposal = assumptions.guess, options.proposal
        quiet = CLIP_NOISE_SD / self._noise(options, assumptions, noise_multiplier)
        options = clipped(options, assumptions, FREE_STEP, quiet)
        scale = proposal.scale or self._best_scale(options, assumptions, noise_multiplier)
        noisy_guess = self._noisy_guess(options, assumptions, noise_multiplier, scale)
        mobility_a_step = self._mobility(proposal, noisy_guess, noise_multiplier, scale)
        draws = draws_a_step(guess, mobility_a_step)
        fit, full = self.fit(options, assumptions, noise_multiplier), proposal.kind == "full"
        fitted = max(draws, fitted_draws(guess, fit, full))
        adapt, fitting = adapts(options, guess, proposal.adapt, proposal.scale, fitted)
        draws = of_unequal_sds(fitted if adapt else draws, guess)
        options, guess = begun(
            options, assumptions, self._spent(options, assumptions, noise_multiplier)
        )
        speed = 2.0 * scale if self.guided else scale  # never turns round on its way to the mode
        stretch, approach = self._approach(options, guess, mobility_a_step, speed, adapt)
        proposal = replace(proposal, scale=scale, adapt=adapt, stretch=stretch)
        return Expectation(replace(options, proposal=proposal), draws, approach, fitting)

    def fit(self, options: Any, public: PublicRows, noise_multiplier: float) -> Fit:
        """Return the function that fits lengths of moves and gives their effective draws."""
        shape = options.proposal.shape

        def best(widths: Floats, vectors: int) -> tuple[Floats, Floats]:
            widths = np.minimum(widths, clipped_width(options, public.tempering))
            noises = self._noise_ratios(options, public, noise_multiplier, widths)
            best_lengths = [
                best_length(shape, self.guided, noise, vectors, LENGTHS) for noise in noises.T
            ]
            return np.array([s for s, _ in best_lengths]), np.array([e for _, e in best_lengths])

        return best

    def _approach(
        self, options: Any, guess: Guess, mobility_a_step: Floats, speed: float, fitted: bool
    ) -> tuple[float, int]:
        """Return the factor of the first moves' lengths, and the steps to the mode.

        The caller's factor if there is one; else, where the planner chooses the scale, the best.
        """
        given, scale = options.proposal.stretch, options.proposal.scale
        if given or scale or options.num_warmup == 0 or not self.bold:
            return given or 1.0, walk(guess, mobility_a_step, speed)
        stretch, approach = stride(guess, mobility_a_step, speed, fitted)
        return float(f"{stretch:.4g}"), approach

    def _noise(self, options: Any, public: PublicRows, z: float) -> float:
        """Return the least noise on lambda for a tempered interval of one nat."""
        return z

    def _noisy_guess(self, options: Any, assumptions: Assumptions, z: float, scale: float) -> Guess:
        """Return the guess with widths for all noise on lambda of moves of this scale.

        A clipped interval does not grow with the move, so that its width per unit is smaller.
        """
        guess, clip_width = assumptions.guess, clipped_width(options, assumptions.tempering) / scale
        joint = min(guess.joint_width, math.sqrt(0.5 * math.pi) * clip_width)
        return replace(guess, width=np.minimum(guess.width, clip_width), joint_width=joint)

    def _noise_ratios(self, options: Any, public: PublicRows, z: float, widths: Floats) -> Floats:
        """Return sds of the noise on lambda of moves of LENGTHS, each divided by the length.

        widths: (len(LENGTHS), m) of them.
        """
        return np.asarray(z * widths / LENGTHS[:, None])

    def _spent(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> float:
        """Return the mu of all steps of all chains."""
        return math.sqrt(options.num_steps * options.num_chains) / noise_multiplier

    def clips_ratios(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Return whether usual moves have ratios beyond the clip of the complete options."""
        widths = FREE_STEP * assumptions.guess.width * assumptions.sds
        return bool((widths > clipped_width(options, assumptions.tempering)).any())

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""
        several = options.proposal.kind == "full" or options.proposal.adapt
        return float(dimension) if several else 0.0

    def _mobility(
        self, proposal: Proposal | ComponentProposal, guess: Guess, z: float, scale: float
    ) -> Floats:
        """Return the mobility (d,) of moves of this scale."""
        facts = (guess.precision, guess.width, guess.joint_width)
        mixing = guided_efficiency if self.guided else efficiency
        return mobility(proposal, *facts, scale, z, mixing)

    def _best_scale(self, options: Any, assumptions: Assumptions, z: float) -> float:
        """Return the proposal sd with the largest expected ESS, from a grid."""
        proposal, sds, best_scales = options.proposal, assumptions.sds, []
        for scale in (LENGTHS[0] * float(sds.min()), FREE_STEP * float(sds.max())):
            width = self._noisy_guess(options, assumptions, z, scale).width
            pairs = zip(width.tolist(), sds.tolist(), strict=True)
            best_scales.append([best_scale(z * w * s) * s for w, s in pairs])
        low = min(best_scales[0]) / (2.0 * len(sds) if proposal.kind == "full" else 1.0)
        scales = np.geomspace(low, max(best_scales[1]), 40)
        draws = []
        for scale in scales.tolist():
            noisy_guess = self._noisy_guess(options, assumptions, z, scale)
            draws.append(draws_a_step(noisy_guess, self._mobility(proposal, noisy_guess, z, scale)))
        return float(f"{scales[int(np.argmax(draws))]:.4g}")
