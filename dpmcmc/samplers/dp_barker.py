"""DP Barker on secret minibatches: privacy noise fills the batch's own up to a logistic one."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.barker_correction import LOCATIONS, VARIANCE, WEIGHTS
from dpmcmc.samplers.base import Floats, Outlook, Pace, Sampler, Target
from dpmcmc.samplers.minibatch import (
    batch_columns,
    batches,
    calibrated,
    chain_mu_of,
    minibatch_event,
    rounding,
    settled_batch,
    spread,
)
from dpmcmc.samplers.options import ChainOptions
from dpmcmc.samplers.penalty import start
from dpmcmc.samplers.penalty_law import PenaltyLaw, begun, draws_a_step, walk
from dpmcmc.samplers.warm_start_law import SHARES, settled

FILLED = 0.05  # least variance of the noise that fills up what the batch leaves
LEAST_FIXED = 0.2  # and of the noise that privacy rests on
FARTHEST = 8.0  # g of no use beyond
CLAMP = 6.0  # of the normal that fills the variance up
SHORTEST = 0.8  # of a move's length, so that the chain does not walk on a lattice
SHARE = 4  # a batch is one part in so many of the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DpBarkerOptions(ChainOptions):
    """See ChainOptions.

    batch: rows of a step. scale: length of a move of one coefficient. Needs a dataset whose terms
    have a Rényi branch.
    """

    algorithm: Literal["dp_barker"] = "dp_barker"
    batch: int | None = None
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How the total noise variance of 2 is shared.

    Ratios span at most 2 g sqrt(batch) / rows. most: of the batch's own variance, part * g^2. part:
    of sampling without replacement, 0 where the batch is all rows. fixed: of the noise that privacy
    rests on.
    """

    g: float
    part: float
    fixed: float

    @property
    def most(self) -> float:
        """Bound of the variance that a batch adds."""
        return self.part * self.g * self.g

    def sensitivity(self, batch: int) -> float:
        """Return the sensitivity of the batch's statistic.

        Proof: docs/proofs/dp_barker.md, section 3.
        """
        slope = 0.5 / math.sqrt(VARIANCE - self.fixed - self.most)
        moved = 2.0 * self.g / math.sqrt(batch)
        turned = CLAMP * slope * 4.0 * self.most * (batch - 1.0) / (batch * batch)
        return rounding(batch) * (moved + turned)

    def covers(self, noise_multiplier: float, batch: int) -> bool:
        """Whether the fixed noise is as large as the noise multiplier says."""
        if self.fixed + self.most > VARIANCE - FILLED:
            return False
        return noise_multiplier * self.sensitivity(batch) <= math.sqrt(self.fixed)


def part_of(batch: int, rows: int) -> float:
    """Return the factor of a batch's variance that sampling without replacement leaves."""
    return min(1.0, (1.0 - batch / rows) * batch / (batch - 1.0))


@lru_cache(maxsize=256)
def widest(noise_multiplier: float, batch: int, rows: int) -> Room:
    """Return the room with the largest g that the noise multiplier covers. g is rounded down."""
    part, best = part_of(batch, rows), Room(0.0, part_of(batch, rows), LEAST_FIXED)
    for fixed in np.linspace(LEAST_FIXED, VARIANCE - 2.0 * FILLED, 64).tolist():
        low, high = best.g, FARTHEST
        for _ in range(60):
            middle = 0.5 * (low + high)
            fits = Room(middle, part, fixed).covers(noise_multiplier, batch)
            low, high = (middle, high) if fits else (low, middle)
        if low > best.g:
            best = Room(low, part, fixed)
    return best


def decide(
    means: Floats,
    deviations: Floats,
    log_prior_ratios: Floats,
    rows: int,
    room: Room,
    normals: Floats,
    corrections: Floats,
) -> Floats:
    """Return (chain,) statistics: a move is accepted where its own is above 0.

    means, deviations: (chain,) mean of the batch's tempered ratios, and the variance of that mean;
    normals: (2, chain). Total noise variance 2 and the correction make it logistic.
    """
    scaled = means * rows + log_prior_ratios
    variances = np.minimum(rows * rows * deviations, room.most)
    filled = np.sqrt(VARIANCE - room.fixed - variances) * np.clip(normals[0], -CLAMP, CLAMP)
    decided: Floats = scaled + filled + math.sqrt(room.fixed) * normals[1] + corrections
    return decided


def _corrections(random: RandomSource, shape: tuple[int, int]) -> Floats:
    """Return draws of the correction noise V, symmetric. See barker_correction.py."""
    ends = np.cumsum(WEIGHTS) / np.sum(WEIGHTS)
    chosen = np.minimum(np.searchsorted(ends, random.uniforms(shape)), len(WEIGHTS) - 1)
    signs = 2.0 * random.integers(2, shape) - 1.0
    corrections: Floats = signs * np.array(LOCATIONS)[chosen]
    return corrections


def advance(
    target: Target,
    options: DpBarkerOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: None = None,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain subsampled Gaussian events.

    A move whose public interval is wider than the noise covers is rejected unseen; the move back is
    as wide. Proof: docs/proofs/dp_barker.md. Source: Heikkilä et al. 2019; thesis A, Algorithm 2.
    """
    chains, dimension = target.position.shape
    batch, rows = options.batch or 0, target.rows
    deltas = _moves(options.scale or math.nan, (length, chains, dimension), random)
    normals, corrections = (
        random.normals((length, 2, chains)),
        _corrections(random, (length, chains)),
    )
    room = widest(noise_multiplier, batch, rows)
    draws = np.empty((chains, length, dimension))
    for t in range(length):
        chosen = batches(random, rows, batch, chains)
        sums, squares, lo, hi = target.batch_ratios(deltas[t], chosen)
        tempering = target.tempering / batch
        deviations = room.part * tempering**2 * spread(sums, squares, batch)
        priors = target.log_prior_ratio(deltas[t])
        statistics = decide(
            tempering * sums, deviations, priors, rows, room, normals[t], corrections[t]
        )
        covered = target.tempering * (hi - lo) <= 2.0 * room.g * math.sqrt(batch) / rows
        target.move(deltas[t], covered & (statistics > 0.0))
        draws[:, t] = target.position
    return draws


def _moves(scale: float, shape: tuple[int, int, int], random: RandomSource) -> Floats:
    """Return (length, chain, d) moves of one random coefficient each, nearly of one length."""
    signs = 2.0 * random.integers(2, shape[:2]) - 1.0
    lengths = SHORTEST + (1.0 - SHORTEST) * random.uniforms(shape[:2])
    chosen = np.arange(shape[2]) == random.integers(shape[2], (shape[0],))[:, None, None]
    moved: Floats = (scale * signs * lengths)[:, :, None] * chosen
    return moved


@dataclass(frozen=True, slots=True)
class BarkerLaw(PenaltyLaw):
    """Moves as long as the noise covers; near the mode every other one is accepted."""

    shares: ClassVar[tuple[float, ...]] = SHARES

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        batch = settled_batch(options.batch, outlook.rows, SHARE)
        if options.scale is not None and not 1e-9 <= options.scale <= 1e3:
            raise SpecError("/sampler/scale", "must be between 1e-09 and 1000")
        return replace(options, batch=batch, warm_start=settled(options.warm_start, outlook))

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law. No smaller than what the longest moves need."""
        count, batch = options.num_steps * options.num_chains, options.batch
        part = max(part_of(batch, rows), 1e-12)
        most = min(math.sqrt((VARIANCE - FILLED - LEAST_FIXED) / part), FARTHEST)
        least = math.sqrt(LEAST_FIXED) / Room(0.999 * most, part, LEAST_FIXED).sensitivity(batch)
        return max(least, calibrated(count, batch, rows, epsilon, delta, options.warm_start))

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law."""
        guess, batch, rows = outlook.guess, options.batch, outlook.rows
        limit = 2.0 * widest(noise_multiplier, batch, rows).g * math.sqrt(batch) / rows
        fits = min(0.9 * limit / float(guess.width.max()), 1.5 * float(outlook.sds.min()))
        scale = options.scale or float(f"{max(fits, 1e-9):.4g}")
        moved = np.full(len(guess.width), max(0.2 * scale**2, 1e-30) / len(guess.width))
        spent = chain_mu_of(options, rows, noise_multiplier)
        options, guess = begun(replace(options, scale=scale), outlook, spent)
        return Pace(options, draws_a_step(guess, moved), walk(guess, moved, scale))

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        return batch_columns(options, rows, dimension)


SAMPLER = Sampler(
    "dp_barker",
    DpBarkerOptions,
    event=minibatch_event,
    law=BarkerLaw(),
    advance=advance,
    start=start,
)
