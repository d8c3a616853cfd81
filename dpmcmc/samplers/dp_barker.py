"""DP Barker on secret minibatches: sampling and privacy noise, filled up to logistic noise."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats, Minibatches, PublicRows
from dpmcmc.inputs.options import DpBarkerOptions
from dpmcmc.kernels.arithmetic.rules import BARKER, MAX_FILLING_SDS, Rule
from dpmcmc.privacy.discrete import gaussian_noise, scale_of
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import BARKER_DECISION
from dpmcmc.samplers.adaptation import LENGTHS, Fit, Walk, axes, drawn
from dpmcmc.samplers.barker_correction import LOCATIONS, VARIANCE, WEIGHTS
from dpmcmc.samplers.base import Expectation, Sampler
from dpmcmc.samplers.minibatch import (
    batch_columns,
    batch_steps,
    calibrated,
    chain_mu_of,
    minibatch_event,
    part_of,
    rounding,
    settled_batch,
)
from dpmcmc.samplers.penalty_efficiency import MIN_EFFICIENCY, draws_a_step, walk
from dpmcmc.samplers.penalty_mixing import (
    LONGEST_MOVE_RATIO,
    PenaltyMixing,
    adapts,
    begun,
    clipped,
    clipped_width,
    fitted_draws,
    of_unequal_sds,
)
from dpmcmc.samplers.starts import START_SHARES, ChainStart, begin, chain_mu, settled

MIN_FILLED_VARIANCE = 0.05  # least variance of the filling noise
MIN_FIXED_VARIANCE = 0.2  # and of the privacy noise
MAX_G = 200.0  # a larger g has no use
MIN_MOVE_RATIO = 0.8  # of a move's length, which varies so that the chain is not on a lattice
# of the widest moves that the noise covers: intervals change with the position
INTERVAL_MARGIN = 0.9
LONGEST_GUESSED, FITTED = (
    1.5,
    2.0,
)  # moves, in posterior sds: of a guess, and of what draws have shown
GAIN, LOSS = 0.1, 0.12  # effective draws of N(0, 1): GAIN s^2 / (1 + LOSS s^2) for moves of s sds
STEPS_PER_COEFFICIENT = 2000  # steps of all chains for each coefficient: some 500 effective draws
BATCH_DIVISOR = 4  # a batch is one part in so many of the rows


@dataclass(frozen=True, slots=True)
class Room:
    """The division of the total noise variance of 2.

    The interval of a ratio has a width of at most 2 g sqrt(batch) / rows. part: factor of sampling
    without replacement, 0 where the batch is all rows. fixed: variance of the privacy noise.
    """

    g: float
    part: float
    fixed: float

    @property
    def most(self) -> float:
        """Bound of the variance that a batch adds."""
        return self.part * self.g * self.g


def sensitivity(g: Any, part: float, fixed: Any, batch: int) -> Any:
    """Return the sensitivity of the batch's statistic; vectorised over divisions.

    Proof: docs/proofs/dp_barker.md, section 3.
    """
    most = part * g * g
    slope = 0.5 / np.sqrt(VARIANCE - fixed - most)
    by_sum = 2.0 * g / math.sqrt(batch)
    by_filling = MAX_FILLING_SDS * slope * 4.0 * most * (batch - 1.0) / (batch * batch)
    return rounding(batch) * (by_sum + by_filling)


@lru_cache(maxsize=256)
def widest_room(noise_multiplier: float, batch: int, rows: int) -> Room:
    """Return the division with the largest g that the noise multiplier allows, rounded down."""
    noise = scale_of(noise_multiplier)
    noise_sd = noise.unit * noise.sd  # rounding included
    part = part_of(batch, rows)
    fixed = np.linspace(MIN_FIXED_VARIANCE, VARIANCE - 2.0 * MIN_FILLED_VARIANCE, 64)
    low, high = np.zeros(len(fixed)), np.full(len(fixed), MAX_G)
    for _ in range(60):
        g = 0.5 * (low + high)
        open_ = fixed + part * g * g <= VARIANCE - MIN_FILLED_VARIANCE
        needed = noise_sd * sensitivity(np.where(open_, g, 0.0), part, fixed, batch)
        covered = open_ & (needed <= np.sqrt(fixed))
        low, high = np.where(covered, g, low), np.where(covered, high, g)
    best = int(low.argmax())
    return Room(float(low[best]), part, float(fixed[best]))


def rule_of(noise_multiplier: float, batch: int, target: Minibatches) -> Rule:
    """Return the acceptance rule of a step."""
    room, rows = widest_room(noise_multiplier, batch, target.rows), target.rows
    sd = scale_of(noise_multiplier).sd
    return Rule(
        BARKER,
        batch,
        scale=rows * target.tempering / batch,
        part=room.part,
        unit=math.sqrt(room.fixed) / sd,
        sd=sd,
        filled=VARIANCE - room.fixed,
        most=room.most,
        widest=2.0 * room.g * math.sqrt(batch) / rows / target.tempering,
    )


def _corrections(random: RandomSource, shape: tuple[int, ...]) -> Floats:
    """Return draws of the symmetric correction noise V, see barker_correction.py."""
    ends = np.cumsum(WEIGHTS) / np.sum(WEIGHTS)
    chosen = np.minimum(np.searchsorted(ends, random.uniforms(shape)), len(WEIGHTS) - 1)
    signs = 2.0 * random.integers(2, shape) - 1.0
    corrections: Floats = signs * np.array(LOCATIONS)[chosen]
    return corrections


def init(
    target: Minibatches,
    options: DpBarkerOptions,
    noise_multiplier: float,
    random: RandomSource,
    start: ChainStart | None = None,
) -> Walk:
    """Put chains at the public start, or at a released one, whose covariance shapes the walk."""
    begin(target, start)
    steps = (options.num_warmup or 0) if options.adapt else 0
    fit = MIXING.fit(options, target, noise_multiplier) if steps else None
    dimension = target.position.shape[1]
    widest = MIXING.widest(options, target, noise_multiplier)
    moves = axes(options.scale or math.nan, dimension, "component")
    walk = Walk(target, moves, steps, fit, widest=widest if options.adapt else math.inf)
    walk.hold(target.position.mean(axis=0))
    if start is not None:
        walk.shape(start.mode, start.root @ start.root.T)
    return walk


def step(
    target: Minibatches,
    options: DpBarkerOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: Walk,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain subsampled Gaussian events.

    A move whose public interval is too wide for the noise is rejected for that alone; so is the
    reverse move. Proof: docs/proofs/dp_barker.md. Source: Heikkilä et al. 2019; thesis A,
    Algorithm 2.
    """

    def steps(count: int) -> Floats:
        """Return the draws of the next `count` steps."""
        shape = (count, len(target.position))
        deltas = state.moves.along(*drawn(state.moves, shape, _amounts, random))
        return _steps(target, deltas, options.batch or 0, noise_multiplier, random)

    return state.through(length, steps)


def _steps(
    target: Minibatches, deltas: Floats, batch: int, noise_multiplier: float, random: RandomSource
) -> Floats:
    """Return (chain, length, d) draws of the steps that propose deltas (length, chain, d)."""
    length, chains, _ = deltas.shape
    noise = gaussian_noise(random, BARKER_DECISION, noise_multiplier, (length, chains))
    shape = (length, 1, chains)
    others = np.concatenate((random.normals(shape), _corrections(random, shape)), axis=1)
    rule = rule_of(noise_multiplier, batch, target)
    return batch_steps(target, rule, deltas, noise, others, random)


def _amounts(shape: tuple[int, ...], random: RandomSource) -> Floats:
    """Return signed lengths of moves, nearly the same length always."""
    signs = 2.0 * random.integers(2, shape) - 1.0
    return np.asarray(signs * (MIN_MOVE_RATIO + (1.0 - MIN_MOVE_RATIO) * random.uniforms(shape)))


@dataclass(frozen=True, slots=True)
class BarkerMixing(PenaltyMixing):
    """The mixing model of dp_barker: moves as long as the noise allows, half of them accepted."""

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return the parts of mu^2 that the planner tries for a start."""
        return START_SHARES

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all values that do not depend on the budget. Raises SpecError."""
        batch = settled_batch(options.batch, assumptions.rows, BATCH_DIVISOR)
        if options.scale is not None and not 1e-9 <= options.scale <= 1e3:
            raise SpecError("/sampler/scale", "must be between 1e-09 and 1000")
        return replace(options, batch=batch, start=settled(options.start, assumptions))

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return the approximate number of steps of a chain that is best for a budget of mu.

        If the batch is all rows, it is limited so that the noise covers clipped moves, provided
        that this is enough for a chain. Other moves are rejected before any row is read.
        """
        steps = PenaltyMixing.steps(self, options, assumptions, mu, chains)
        if part_of(options.batch, assumptions.rows) > 0.0:
            return steps
        quiet = math.sqrt(
            (VARIANCE - 2.0 * MIN_FILLED_VARIANCE) * assumptions.rows / assumptions.tempering
        )
        z = 0.5 * INTERVAL_MARGIN * quiet / (LONGEST_MOVE_RATIO * FITTED)
        covered = (z * chain_mu(options.start, mu)) ** 2 / chains
        needed = STEPS_PER_COEFFICIENT * len(assumptions.sds) / chains
        return min(steps, covered) if covered >= needed else steps

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return a noise multiplier at which all steps of all chains cost at most (epsilon, delta).

        It is not smaller than the longest moves need.
        """
        count, batch = options.num_steps * options.num_chains, options.batch
        part = max(part_of(batch, rows), 1e-12)
        most = min(math.sqrt((VARIANCE - MIN_FILLED_VARIANCE - MIN_FIXED_VARIANCE) / part), MAX_G)
        least = math.sqrt(MIN_FIXED_VARIANCE) / float(
            sensitivity(0.999 * most, part, MIN_FIXED_VARIANCE, batch)
        )
        return max(least, calibrated(count, batch, rows, epsilon, delta, options.start))

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the complete options with the expected mixing. Raises SpecError."""
        guess, rows = assumptions.guess, assumptions.rows
        limit = self._limit(options, assumptions, noise_multiplier)
        options = clipped(options, assumptions, FITTED, limit)
        limit = _covered(options, assumptions, limit)
        longest = min(
            limit / float(guess.width.max()), LONGEST_GUESSED * float(assumptions.sds.min())
        )
        scale = options.scale or float(f"{max(longest, 1e-9):.4g}")
        lengths = scale / assumptions.sds
        mobility = 2.0 * _draws(lengths) * assumptions.sds**2 / len(lengths)
        draws = draws_a_step(guess, mobility)
        fitted_draws_a_step = max(
            draws, fitted_draws(guess, self.fit(options, assumptions, noise_multiplier))
        )
        adapt, fitting = adapts(options, guess, options.adapt, options.scale, fitted_draws_a_step)
        draws = of_unequal_sds(fitted_draws_a_step if adapt else draws, guess)
        spent = chain_mu_of(options, rows, noise_multiplier)
        options, guess = begun(replace(options, scale=scale, adapt=adapt), assumptions, spent)
        return Expectation(options, draws, walk(guess, mobility, scale), fitting)

    def fit(self, options: Any, public: PublicRows, noise_multiplier: float) -> Fit:
        """Return the function that fits lengths of moves and gives their effective draws."""
        limit = self.widest(options, public, noise_multiplier)

        def best(widths: Floats, _: int) -> tuple[Floats, Floats]:
            covered = np.where(widths <= limit, LENGTHS[:, None], 0.0).max(axis=0)
            scales = np.clip(limit / widths[0] * LENGTHS[0], covered, FITTED)
            return np.minimum(scales, FITTED), _draws(scales)

        return best

    def widest(self, options: Any, public: PublicRows, noise_multiplier: float) -> float:
        """Return the largest allowed width of moves; infinite where clipping ensures it."""
        return _covered(options, public, self._limit(options, public, noise_multiplier))

    def _limit(self, options: Any, public: PublicRows, z: float) -> float:
        """Return the largest width of moves that the noise covers, with a margin."""
        g = widest_room(z, options.batch, public.rows).g
        return INTERVAL_MARGIN * 2.0 * g * math.sqrt(options.batch) / public.rows

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""
        return batch_columns(options, rows, dimension)


def _covered(options: Any, public: PublicRows, limit: float) -> float:
    """Return the limit of widths; infinite where clipping ensures it."""
    return (
        math.inf if INTERVAL_MARGIN * clipped_width(options, public.tempering) <= limit else limit
    )


def _draws(lengths: Floats) -> Floats:
    """Return the effective draws of N(0, 1) that steps of these lengths give, up to FITTED."""
    squares = np.minimum(lengths, FITTED) ** 2
    return np.asarray(np.maximum(GAIN * squares / (1.0 + LOSS * squares), MIN_EFFICIENCY))


MIXING = BarkerMixing()
SAMPLER = Sampler(
    "dp_barker",
    DpBarkerOptions,
    event=minibatch_event,
    mixing=MIXING,
    step=step,
    init=init,
)
