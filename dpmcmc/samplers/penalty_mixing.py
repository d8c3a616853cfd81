"""The mixing model of the penalty samplers: what the planner needs to know of them."""

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
MIN_STEPS = 1000.0  # short ones cost little
# expected effective draws, from which a warm-up can tell what to move along
MIN_ESS_FOR_ADAPTATION = 300.0
WARMUP_DIVISOR = 5  # one part in so many of such a chain is warm-up
# times the root mean square of rows' ratios for the longest move that pays,
LONGEST_MOVE_RATIO = 10.0
CUT_NOISE_SD = 1.5  # or an interval with noise of this sd: where planned ratios are cut
MAX_RATIO_NATS = 16.0  # nats, of a tempered ratio: no row of a step that is accepted spans as much
LARGEST_WIDTH = 1e6  # that a job may have
LARGE_MU = 100.0  # mu, an epsilon of some 5,000: from there on a part of it is not missed


def adapts(
    options: Any, guess: Guess, adapt: bool | None, scale: float | None, draws: float
) -> tuple[bool, int]:
    """Whether moves are fitted, and the least steps of the warm-up that fits them to its draws.

    Where the posterior is a guess, what the release that the chain starts from tells of it is
    better, however few draws there are. adapt, scale: as the caller gave them. draws: expected of a
    step of a fitted chain.
    """
    enough = bool(draws * options.num_steps * options.num_chains >= MIN_ESS_FOR_ADAPTATION)
    shaped = options.start is not None and not guess.known
    if options.num_warmup == 0 or adapt is False or (adapt is None and scale is not None):
        return False, 0
    fitted = adapt or enough or shaped
    return fitted, options.num_steps // WARMUP_DIVISOR if fitted and (enough or not shaped) else 0


def fitted_draws(guess: Guess, fit: Fit, whole: bool = False) -> float:
    """Return the effective draws of a step whose moves fit the posterior that is guessed.

    The width of a slanted move is at most that of its parts.
    """

    def width(vectors: Floats, _: bool) -> Floats:
        return np.asarray(np.abs(vectors) @ guess.width)

    return best_moves(guess.covariance, width, fit, whole)[1]


def begun(options: Any, assumptions: Assumptions, spent: float) -> tuple[Any, Guess]:
    """Return options with the start's noise known, and the guess of where the chain begins.

    spent: mu of the chain.
    """
    start = finished(options.start, spent)
    if start is None:
        return options, assumptions.guess
    guess = replace(assumptions.guess, distance=arrived(start, assumptions))
    return replace(options, start=start), guess


def clipped(options: Any, assumptions: Assumptions, longest: float, quiet: float) -> Any:
    """Return options with a clip width where the planner decides: where it knows the budget.

    Declared bounds may allow a row a ratio that no row has, and noise covers what they allow. So
    ratios are cut where hardly any row gets, or further out where that is quiet enough. Where a
    model bounds the gradients of rows only if the budget is generous: there are directions in which
    nearly collinear rows do not get far, and bounds do not know them. Why:
    docs/proofs/dp_penalty.md, section 2.

    longest: move that pays, in posterior sds. quiet: a tempered width that is quiet enough.
    """
    asked = options.clip_width is not None or options.clip_bound is not None
    bounded = math.isfinite(assumptions.guess.steepest)
    if asked or assumptions.mu is None or (bounded and assumptions.mu < LARGE_MU):
        return options
    width = min(
        max(usual_cut(assumptions, longest), min(quiet, MAX_RATIO_NATS) / assumptions.tempering),
        LARGEST_WIDTH,
    )
    return replace(options, clip_width=float(f"{width:.4g}"))


def usual_cut(assumptions: Assumptions, longest: float) -> float:
    """Return the width of an interval that hardly any row leaves. longest: see `clipped`."""
    return 2.0 * LONGEST_MOVE_RATIO * longest / math.sqrt(assumptions.rows * assumptions.tempering)


def cut_width(options: Any, tempering: float) -> float:
    """Return the most that one row can change a sum by after clipping."""
    both = 2.0 * (options.clip_bound or math.inf)
    return tempering * min(options.clip_width or math.inf, both)


@dataclass(frozen=True, slots=True)
class PenaltyMixing:
    """The mixing model of the penalty samplers. guided: whether the walk keeps its direction.

    bold: whether the planner has it begin with longer moves, see `stride`.
    Beside the caller's own number of steps no start unless it is asked for, or a budget is
    generous: such a job costs sqrt(all steps) / noise multiplier.
    """

    bold: ClassVar[bool] = True
    guided: bool = False

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return the parts of mu^2 that the planner tries for a start.

        With a start the moves have the shape of the posterior from the first step.
        """
        return START_SHARES if options.num_steps is None or mu >= LARGE_MU else ()

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with what does not depend on the budget. Raises SpecError."""
        return replace(options, start=settled(options.start, assumptions))

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return about how many steps of a chain make the best use of a budget of mu.

        A budget gives the same effective draws for any number of steps above some 16 times the
        ratio of the posterior's curvature to the noise. With more steps the warm-up is a smaller
        part of them.
        """
        width = assumptions.guess.width
        if mu >= LARGE_MU:  # ratios will be cut
            cut = assumptions.tempering * usual_cut(assumptions, FREE_STEP) / FREE_STEP
            width = np.minimum(width, cut / assumptions.sds)
        mu = chain_mu(options.start, mu)
        ratio = mu**2 * float(np.max(1.0 / (width * assumptions.sds) ** 2))
        return max(MIN_STEPS, STEPS_PER_RATIO * ratio / chains)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return one at which all steps of all chains cost at most (epsilon, delta)."""
        count = options.num_steps * options.num_chains
        if options.start is None:
            return accountant.noise_multiplier_for(epsilon, delta, count)
        mu = chain_mu(options.start, accountant.mu_of_epsilon(epsilon, delta))
        return math.sqrt(count) / mu * (1.0 + 1e-12)

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the finished options and what is expected of the chain. Raises SpecError."""
        guess, proposal = assumptions.guess, options.proposal
        quiet = CUT_NOISE_SD / self._noise(options, assumptions, noise_multiplier)
        options = clipped(options, assumptions, FREE_STEP, quiet)
        scale = proposal.scale or self._best_scale(options, assumptions, noise_multiplier)
        seen = self._seen(options, assumptions, noise_multiplier, scale)
        moved = self._mobility(proposal, seen, noise_multiplier, scale)
        draws = draws_a_step(guess, moved)
        fit, whole = self.fit(options, assumptions, noise_multiplier), proposal.kind == "full"
        fitted = max(draws, fitted_draws(guess, fit, whole))
        adapt, fitting = adapts(options, guess, proposal.adapt, proposal.scale, fitted)
        draws = fitted if adapt else draws
        options, guess = begun(
            options, assumptions, self._spent(options, assumptions, noise_multiplier)
        )
        speed = 2.0 * scale if self.guided else scale  # never turns round on its way to the mode
        stretch, approach = self._approach(options, guess, moved, speed, adapt)
        proposal = replace(proposal, scale=scale, adapt=adapt, stretch=stretch)
        return Expectation(replace(options, proposal=proposal), draws, approach, fitting)

    def fit(self, options: Any, public: PublicRows, noise_multiplier: float) -> Fit:
        """Return what fits moves to a posterior: their best lengths and what they give."""
        shape = options.proposal.shape

        def best(widths: Floats, vectors: int) -> tuple[Floats, Floats]:
            widths = np.minimum(widths, cut_width(options, public.tempering))
            noises = self._noises(options, public, noise_multiplier, widths)
            found = [best_length(shape, self.guided, one, vectors, LENGTHS) for one in noises.T]
            return np.array([s for s, _ in found]), np.array([e for _, e in found])

        return best

    def _approach(
        self, options: Any, guess: Guess, moved: Floats, speed: float, fitted: bool
    ) -> tuple[float, int]:
        """Return how many times as long as planned the first moves are, and the steps to the mode.

        As the caller says; else as they should be where the planner chooses their scale.
        """
        given, scale = options.proposal.stretch, options.proposal.scale
        if given or scale or options.num_warmup == 0 or not self.bold:
            return given or 1.0, walk(guess, moved, speed)
        stretch, approach = stride(guess, moved, speed, fitted)
        return float(f"{stretch:.4g}"), approach

    def _noise(self, options: Any, public: PublicRows, z: float) -> float:
        """Return the least noise on lambda for a tempered interval of one nat."""
        return z

    def _seen(self, options: Any, assumptions: Assumptions, z: float, scale: float) -> Guess:
        """Return the guess with widths that stand for all noise on lambda of moves of a scale.

        What is cut is as wide for any longer move, so that its width per unit is less.
        """
        guess, cut = assumptions.guess, cut_width(options, assumptions.tempering) / scale
        joint = min(guess.joint_width, math.sqrt(0.5 * math.pi) * cut)
        return replace(guess, width=np.minimum(guess.width, cut), joint_width=joint)

    def _noises(self, options: Any, public: PublicRows, z: float, widths: Floats) -> Floats:
        """Return the sds of the noise on lambda, over their length, of moves of LENGTHS.

        widths: (len(LENGTHS), m) of them.
        """
        return np.asarray(z * widths / LENGTHS[:, None])

    def _spent(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> float:
        """Return the mu of all steps of all chains."""
        return math.sqrt(options.num_steps * options.num_chains) / noise_multiplier

    def cuts(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Return whether usual moves have ratios that the finished options cut."""
        widths = FREE_STEP * assumptions.guess.width * assumptions.sds
        return bool((widths > cut_width(options, assumptions.tempering)).any())

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return about how many columns of the design, all rows, a step of one chain reads."""
        several = options.proposal.kind == "full" or options.proposal.adapt
        return float(dimension) if several else 0.0

    def _mobility(
        self, proposal: Proposal | ComponentProposal, guess: Guess, z: float, scale: float
    ) -> Floats:
        facts = (guess.precision, guess.width, guess.joint_width)
        mixing = guided_efficiency if self.guided else efficiency
        return mobility(proposal, *facts, scale, z, mixing)

    def _best_scale(self, options: Any, assumptions: Assumptions, z: float) -> float:
        """Return the proposal sd with the largest expected ESS, of a grid around the best ones."""
        proposal, sds, ends = options.proposal, assumptions.sds, []
        for scale in (LENGTHS[0] * float(sds.min()), FREE_STEP * float(sds.max())):
            width = self._seen(options, assumptions, z, scale).width
            pairs = zip(width.tolist(), sds.tolist(), strict=True)
            ends.append([best_scale(z * w * s) * s for w, s in pairs])
        low = min(ends[0]) / (2.0 * len(sds) if proposal.kind == "full" else 1.0)
        scales = np.geomspace(low, max(ends[1]), 40)
        draws = []
        for scale in scales.tolist():
            seen = self._seen(options, assumptions, z, scale)
            draws.append(draws_a_step(seen, self._mobility(proposal, seen, z, scale)))
        return float(f"{scales[int(np.argmax(draws))]:.4g}")
