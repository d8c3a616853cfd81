"""How far a penalty chain moves a step: what the planner needs of these samplers.

The constants of `efficiency` and `best_scale` are measured by experiments/ess_law.py, which solves
the chain on N(0, 1) exactly.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import erfc, ndtr

from dpmcmc.privacy import accountant
from dpmcmc.samplers.base import Facts, Floats, Outlook, Pace
from dpmcmc.samplers.options import ComponentProposal, Proposal, Shape
from dpmcmc.samplers.shaping import STRETCHED, Fit, best_moves
from dpmcmc.samplers.starts import SHARES, arrived, chain_mu, finished, settled

if TYPE_CHECKING:
    from dpmcmc.models.base import Guess

SPREAD = 0.95  # of a Bactrian proposal: the distance of its two humps from 0, in its sds
FREE_STEP = 2.4  # best proposal sd without noise, in conditional posterior sds
NOISY_STEP = 2.45  # best sd of the noise on lambda for a proposal of one sd, where noise rules
LARGE_STEP = {"normal": 3.7, "bactrian": 1.8}  # steps a draw that the diffusion limit leaves out
LONG_STEP = {"normal": 3.1, "bactrian": 2.7}  # proposal sd from which they grow,
GROWTH = {"normal": 2.0, "bactrian": 6.0}  # and how fast
STEPS_PER_RATIO = 64.0  # four times what the law needs, so that the way to the mode is short
FEWEST_STEPS = 1000.0  # short ones cost little
STUCK = 1e-12  # effective draws a step of a chain that practically never accepts
WORTH_FITTING = 300.0  # expected effective draws, from which a warm-up can tell what to move along
FITTING = 5  # one part in so many of such a chain is warm-up
MOST_STRETCH = 1e9
SLOWER, TRIES = 1.5, 8.0  # of first moves: over the law's steps; more of them a coefficient
TRIED = np.geomspace(0.4, 1.6, 13)  # times the best scale of a plain walk
STEEP = 10.0  # times the root mean square of rows' ratios for the longest move that pays,
LOUD = 1.5  # or an interval with noise of this sd: where planned ratios are cut
WIDE = 16.0  # nats, of a tempered ratio: no row of a step that is accepted spans as much
LARGEST_WIDTH = 1e6  # that a job may have
GENEROUS = 100.0  # mu, an epsilon of some 5,000: from there on a part of it is not missed
_HERMITE, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_TOTAL = _WEIGHTS.sum()
_LENGTHS = np.abs(SPREAD + math.sqrt(1.0 - SPREAD**2) * _HERMITE)  # of Bactrian moves of one sd
_SQUARES = _LENGTHS * _LENGTHS


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
        return float(_WEIGHTS @ (_SQUARES * ndtr(-beta * _LENGTHS)) / _TOTAL)
    if beta > 100.0:
        return 4.0 / (3.0 * math.pi * beta**3)  # where the difference below cancels
    return 0.5 - (math.atan(beta) + beta / (1.0 + beta * beta)) / math.pi


def guided_efficiency(shape: Shape, noise: float, scale: float) -> float:
    """Return the effective draws of N(0, 1) that one guided step gives.

    Within 30 % up to the best scale. noise, scale: as in `efficiency`.
    A step of length e is accepted with probability a(e), and a rejection turns the walk round, so
    the directions of consecutive moves have correlation 2 E a - 1 and the walk spreads by
    E[e^2 a] + E[e a]^2 / (1 - E a) a step; the effective draws are a quarter of that.
    """
    away, narrow = (SPREAD, math.sqrt(1.0 - SPREAD**2)) if shape == "bactrian" else (0.0, 1.0)
    u = away + narrow * _HERMITE
    e, weights = scale * np.abs(u), _WEIGHTS / _WEIGHTS.sum()
    a = erfc(math.sqrt(0.125 * (noise * noise + 1.0)) * e)
    spread = weights @ (e * e * a) + (weights @ (e * a)) ** 2 / max(1.0 - weights @ a, STUCK)
    return max(0.25 * float(spread), STUCK)


@lru_cache(maxsize=4096)
def best_step(shape: Shape, guided: bool, noise: float, vectors: int) -> tuple[float, float]:
    """Return the best scale of a move along directions of one posterior sd, and what it gives.

    noise: as in best_scale, of a move of one sd. vectors: how many are moved along at once.
    """
    if vectors > 1:
        size = math.sqrt(0.125 * (2.0 / math.pi * noise**2 + vectors))
        scales = 2.4 * TRIED / math.hypot(noise, math.sqrt(vectors))
        found = [(0.25 * s * s * math.erfc(size * s), s) for s in scales.tolist()]
    else:
        law = guided_efficiency if guided else efficiency
        found = [(law(shape, noise, s), s) for s in (best_scale(noise) * TRIED).tolist()]
    draws, scale = max(found)
    return scale, max(draws, STUCK)


def mobility(
    proposal: Proposal | ComponentProposal,
    precision: Floats,
    width: Floats,
    joint_width: float,
    scale: float,
    noise_multiplier: float,
    law: Callable[[Shape, float, float], float] = efficiency,
) -> Floats:
    """Return (d,) mobility a step: near the mode E[move] = -mobility * precision @ (theta - mode).

    precision: (d, d) of the posterior. width: (d,) of one row's interval per unit move of a
    coefficient; joint_width: the same where all move by one. scale: proposal sd. law: of one
    coefficient.
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
        law(proposal.shape, noise_multiplier * w * s, scale / s)
        for w, s in zip(width.tolist(), sds.tolist(), strict=True)
    ]
    moved: Floats = 2.0 * np.array(steps) / (curvature * d)
    return moved


def draws_a_step(guess: "Guess", mobility: Floats) -> float:
    """Return the effective draws of a step of a stationary chain, averaged over the coefficients.

    Near the mode the chain is d theta = -M Q (theta - mode) dt + noise with covariance C = Q^-1;
    the integrated autocorrelation time of coefficient j is 2 (C M^-1 C)_jj / C_jj.
    """
    covariance = guess.covariance
    times = 2.0 * np.diag(covariance / mobility @ covariance) / np.diag(covariance)
    return float(np.mean(1.0 / np.maximum(times, 1.0)))


def walk(guess: "Guess", mobility: Floats, scale: float) -> int:
    """Return the steps from the prior mean to within one posterior sd of the mode.

    Far away every step in the right direction is taken: E|move| / 2 a step. Near the mode the
    slowest direction closes in exponentially.
    """
    distance = float(guess.distance.max())
    rate, near, closing = _closing(guess, mobility, scale)
    return math.ceil((distance - near) / (rate * near) + closing / rate)


def stride(guess: "Guess", mobility: Floats, scale: float, fitted: bool) -> tuple[float, int]:
    """Return how many times as long the first moves of such a walk should be, and its steps then.

    As long as the way is, over what it is where moves of `scale` begin to close in: then it
    closes in exponentially all the way. They shrink slower than that: a coefficient that is left
    behind would walk for long. fitted: whether moves are fitted to the draws of the warm-up.
    """
    rate, near, closing = _closing(guess, mobility, scale)
    stretch = min(float(guess.distance.max()) / near, MOST_STRETCH)
    first = math.log(stretch) * (SLOWER / rate + TRIES * len(mobility))
    return stretch, math.ceil(max(first / STRETCHED[fitted], first + closing / rate))


def _closing(guess: "Guess", mobility: Floats, scale: float) -> tuple[float, float, float]:
    """Return the rate at which a walk closes in, from how near, and the logarithm of that way."""
    root = np.sqrt(mobility)
    rate = float(np.linalg.eigvalsh(root[:, None] * guess.precision * root).min())
    sd = float(np.sqrt(np.diag(guess.covariance)).max())
    speed = scale / math.sqrt(2.0 * math.pi) * float(np.max(mobility / mobility.sum()))
    near = min(float(guess.distance.max()), speed / rate)
    return rate, near, max(math.log(max(near / sd, 1.0)), 1.0)


def adapts(
    options: Any, guess: "Guess", adapt: bool | None, scale: float | None, draws: float
) -> tuple[bool, int]:
    """Whether moves are fitted, and the least steps of the warm-up that fits them to its draws.

    Where the posterior is a guess, what the release that the chain starts from tells of it is
    better, however few draws there are. adapt, scale: as the caller gave them. draws: expected of a
    step of a fitted chain.
    """
    enough = bool(draws * options.num_steps * options.num_chains >= WORTH_FITTING)
    shaped = options.start is not None and not guess.known
    if options.num_warmup == 0 or adapt is False or (adapt is None and scale is not None):
        return False, 0
    fitted = adapt or enough or shaped
    return fitted, options.num_steps // FITTING if fitted and (enough or not shaped) else 0


def fitted_draws(guess: "Guess", fit: Fit, whole: bool = False) -> float:
    """Return the effective draws of a step whose moves fit the posterior that is guessed.

    The width of a slanted move is at most that of its parts.
    """

    def width(vectors: Floats, _: bool) -> Floats:
        return np.asarray(np.abs(vectors) @ guess.width)

    return best_moves(guess.covariance, width, fit, whole)[1]


def begun(options: Any, outlook: Outlook, spent: float) -> "tuple[Any, Guess]":
    """Return options with the start's noise known, and the guess of where the chain begins.

    spent: mu of the chain.
    """
    start = finished(options.start, spent)
    if start is None:
        return options, outlook.guess
    guess = replace(outlook.guess, distance=arrived(start, outlook))
    return replace(options, start=start), guess


def clipped(options: Any, outlook: Outlook, longest: float, quiet: float) -> Any:
    """Return options with a clip width where the planner decides: where it knows the budget.

    Declared bounds may allow a row a ratio that no row has, and noise covers what they allow. So
    ratios are cut where hardly any row gets, or further out where that is quiet enough. Where a
    model bounds the gradients of rows only if the budget is generous: there are directions in which
    nearly collinear rows do not get far, and bounds do not know them. Why:
    docs/proofs/dp_penalty.md, section 2.

    longest: move that pays, in posterior sds. quiet: a tempered width that is quiet enough.
    """
    asked = options.clip_width is not None or options.clip_bound is not None
    bounded = math.isfinite(outlook.guess.steepest)
    if asked or outlook.mu is None or (bounded and outlook.mu < GENEROUS):
        return options
    width = min(
        max(usual_cut(outlook, longest), min(quiet, WIDE) / outlook.tempering), LARGEST_WIDTH
    )
    return replace(options, clip_width=float(f"{width:.4g}"))


def usual_cut(outlook: Outlook, longest: float) -> float:
    """Return the width of an interval that hardly any row leaves. longest: see `clipped`."""
    return 2.0 * STEEP * longest / math.sqrt(outlook.rows * outlook.tempering)


def cut_width(options: Any, tempering: float) -> float:
    """Return the most that one row can change a sum by after clipping."""
    both = 2.0 * (options.clip_bound or math.inf)
    return tempering * min(options.clip_width or math.inf, both)


@dataclass(frozen=True, slots=True)
class PenaltyLaw:
    """The law of the penalty samplers. guided: a walk that keeps its direction while accepted.

    bold: whether the planner has it begin with longer moves, see `stride`.
    Beside the caller's own number of steps no start unless it is asked for, or a budget is
    generous: such a job costs sqrt(all steps) / noise multiplier.
    """

    bold: ClassVar[bool] = True
    guided: bool = False

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """See Law. A walk that begins with moves of the right shape needs no luck to find them."""
        return SHARES if options.num_steps is None or mu >= GENEROUS else ()

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        return replace(options, start=settled(options.start, outlook))

    def steps(self, options: Any, outlook: Outlook, mu: float, chains: int) -> float:
        """See Law.

        A budget is worth the same effective draws at any number of steps above some 16 times the
        ratio of the posterior's curvature to the noise; more of them make the way to the mode
        cheaper.
        """
        width = outlook.guess.width
        if mu >= GENEROUS:  # ratios will be cut
            cut = outlook.tempering * usual_cut(outlook, FREE_STEP) / FREE_STEP
            width = np.minimum(width, cut / outlook.sds)
        mu = chain_mu(options.start, mu)
        ratio = mu**2 * float(np.max(1.0 / (width * outlook.sds) ** 2))
        return max(FEWEST_STEPS, STEPS_PER_RATIO * ratio / chains)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law."""
        count = options.num_steps * options.num_chains
        if options.start is None:
            return accountant.noise_multiplier_for(epsilon, delta, count)
        mu = chain_mu(options.start, accountant.mu_of_epsilon(epsilon, delta))
        return math.sqrt(count) / mu * (1.0 + 1e-12)

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law."""
        guess, proposal = outlook.guess, options.proposal
        quiet = LOUD / self._noise(options, outlook, noise_multiplier)
        options = clipped(options, outlook, FREE_STEP, quiet)
        seen = self._seen(options, outlook, noise_multiplier)
        scale = proposal.scale or self._best_scale(proposal, seen, noise_multiplier)
        moved = self._mobility(proposal, seen, noise_multiplier, scale)
        draws = draws_a_step(guess, moved)
        fit, whole = self.fit(options, outlook, noise_multiplier), proposal.kind == "full"
        fitted = max(draws, fitted_draws(guess, fit, whole))
        adapt, fitting = adapts(options, guess, proposal.adapt, proposal.scale, fitted)
        draws = fitted if adapt else draws
        options, guess = begun(options, outlook, self._spent(options, outlook, noise_multiplier))
        speed = 2.0 * scale if self.guided else scale  # never turns round on its way to the mode
        stretch, way = self._way(options, guess, moved, speed, adapt)
        proposal = replace(proposal, scale=scale, adapt=adapt, stretch=stretch)
        return Pace(replace(options, proposal=proposal), draws, way, fitting)

    def fit(self, options: Any, facts: Facts, noise_multiplier: float) -> Fit:
        """Return what fits moves to a posterior: their best lengths and what they give."""
        shape = options.proposal.shape

        def best(widths: Floats, vectors: int) -> tuple[Floats, Floats]:
            cut = cut_width(options, facts.tempering) * math.sqrt(vectors) / FREE_STEP
            widths = np.minimum(widths, cut)  # so far do the best moves go where all is cut
            noises = self._noises(options, facts, noise_multiplier, widths).tolist()
            found = [
                best_step(shape, self.guided, float(f"{noise:.3g}"), vectors) for noise in noises
            ]
            return np.array([s for s, _ in found]), np.array([e for _, e in found])

        return best

    def _way(
        self, options: Any, guess: "Guess", moved: Floats, speed: float, fitted: bool
    ) -> tuple[float, int]:
        """Return how many times as long as planned the first moves are, and the steps to the mode.

        As the caller says; else as they should be where the planner chooses their scale.
        """
        given, scale = options.proposal.stretch, options.proposal.scale
        if given or scale or options.num_warmup == 0 or not self.bold:
            return given or 1.0, walk(guess, moved, speed)
        stretch, way = stride(guess, moved, speed, fitted)
        return float(f"{stretch:.4g}"), way

    def _noise(self, options: Any, facts: Facts, z: float) -> float:
        """Return the least noise on lambda for a tempered interval of one nat."""
        return z

    def _seen(self, options: Any, outlook: Outlook, z: float) -> "Guess":
        """Return the guess with widths that stand for all noise on lambda."""
        guess, cut = outlook.guess, cut_width(options, outlook.tempering) / FREE_STEP
        joint = cut * math.sqrt(len(outlook.sds)) / outlook.mean_sd
        width, joint_width = np.minimum(guess.width, cut / outlook.sds), guess.joint_width
        return replace(guess, width=width, joint_width=min(joint_width, joint))

    def _noises(self, options: Any, facts: Facts, z: float, widths: Floats) -> Floats:
        """Return the sds of the noise on lambda of moves of one posterior sd of these widths."""
        return z * widths

    def _spent(self, options: Any, outlook: Outlook, noise_multiplier: float) -> float:
        """Return the mu of all steps of all chains."""
        return math.sqrt(options.num_steps * options.num_chains) / noise_multiplier

    def cuts(self, options: Any, outlook: Outlook, noise_multiplier: float) -> bool:
        """See Law."""
        widths = FREE_STEP * outlook.guess.width * outlook.sds
        return bool((widths > cut_width(options, outlook.tempering)).any())

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        several = options.proposal.kind == "full" or options.proposal.adapt
        return float(dimension) if several else 0.0

    def _mobility(
        self, proposal: Proposal | ComponentProposal, guess: "Guess", z: float, scale: float
    ) -> Floats:
        facts = (guess.precision, guess.width, guess.joint_width)
        law = guided_efficiency if self.guided else efficiency
        return mobility(proposal, *facts, scale, z, law)

    def _best_scale(
        self, proposal: Proposal | ComponentProposal, guess: "Guess", z: float
    ) -> float:
        """Return the proposal sd with the largest expected ESS, of a grid around the best ones."""
        pairs = zip(guess.width, np.diag(guess.precision) ** -0.5, strict=True)
        best = [best_scale(z * w * s) * s for w, s in pairs]
        low = min(best) / (2.0 * len(best) if proposal.kind == "full" else 1.0)
        scales = np.geomspace(low, max(best), 40)
        draws = [
            draws_a_step(guess, self._mobility(proposal, guess, z, s)) for s in scales.tolist()
        ]
        return float(f"{scales[int(np.argmax(draws))]:.4g}")
