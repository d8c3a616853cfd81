"""DP Barker on secret minibatches: privacy noise fills the batch's own up to a logistic one."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.barker_correction import LOCATIONS, VARIANCE, WEIGHTS
from dpmcmc.samplers.base import Floats, Outlook, Pace, Sampler, Target
from dpmcmc.samplers.minibatch import (
    batches,
    calibrated,
    check_batch,
    minibatch_event,
    rounding,
    spread,
)
from dpmcmc.samplers.penalty_law import PenaltyLaw, draws_a_step, walk

FIXED = 0.8  # variance of the noise that privacy rests on
MOST = 1.0  # bound of the batch's variance, g^2; FIXED + MOST < VARIANCE
CLAMP = 6.0  # of the normal that fills the variance up
SHORTEST = 0.8  # of a move's length, so that the chain does not walk on a lattice
SHARE, FEWEST = 4, 1000  # a batch is this part of the rows, but not smaller than this


@dataclass(frozen=True, slots=True, kw_only=True)
class DpBarkerOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included.

    batch: rows of a step. scale: length of a move of one coefficient. Needs a dataset whose terms
    have a Rényi branch.
    """

    algorithm: Literal["dp_barker"] = "dp_barker"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    batch: int | None = None
    scale: float | None = None
    clip_bound: float | None = None


def sensitivity(g: float, batch: int) -> float:
    """Return the sensitivity of the batch's statistic where ratios span 2 g sqrt(batch) / rows.

    Proof: docs/proofs/dp_barker.md, section 3.
    """
    slope = 0.5 / math.sqrt(VARIANCE - FIXED - g * g)
    moved = 2.0 * g / math.sqrt(batch)
    turned = CLAMP * slope * 4.0 * g * g * (batch - 1.0) / (batch * batch)
    return rounding(batch) * (moved + turned)


def widest(noise_multiplier: float, batch: int) -> float:
    """Return the largest g, up to 1, that the noise multiplier covers. Rounded down."""
    low, high = 0.0, math.sqrt(MOST)
    if noise_multiplier * sensitivity(high, batch) <= math.sqrt(FIXED):
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = noise_multiplier * sensitivity(middle, batch) <= math.sqrt(FIXED)
        low, high = (middle, high) if fits else (low, middle)
    return low


def decide(
    means: Floats,
    deviations: Floats,
    log_prior_ratios: Floats,
    rows: int,
    g: float,
    normals: Floats,
    corrections: Floats,
) -> Floats:
    """Return (chain,) statistics: a move is accepted where its own is above 0.

    means, deviations: (chain,) mean of the batch's tempered ratios, and the variance of that mean;
    ratios span at most 2 g sqrt(b) / rows. normals: (2, chain). Total noise
    variance 2 and the correction make it logistic.
    """
    scaled = means * rows + log_prior_ratios
    variances = np.minimum(rows * rows * deviations, g * g)
    filled = np.sqrt(VARIANCE - FIXED - variances) * np.clip(normals[0], -CLAMP, CLAMP)
    decided: Floats = scaled + filled + math.sqrt(FIXED) * normals[1] + corrections
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
    g = widest(noise_multiplier, batch)
    finite = min(1.0, (1.0 - batch / rows) * batch / (batch - 1.0))
    draws = np.empty((chains, length, dimension))
    for t in range(length):
        chosen = batches(random, rows, batch, chains)
        sums, squares, lo, hi = target.batch_ratios(deltas[t], chosen)
        tempering = target.tempering / batch
        deviations = finite * tempering**2 * spread(sums, squares, batch)
        priors = target.log_prior_ratio(deltas[t])
        statistics = decide(
            tempering * sums, deviations, priors, rows, g, normals[t], corrections[t]
        )
        covered = target.tempering * (hi - lo) <= 2.0 * g * math.sqrt(batch) / rows
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

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        rows = outlook.rows
        batch = options.batch or min(rows, max(FEWEST, rows // SHARE))
        check_batch(batch, rows)
        if options.scale is not None and not 1e-9 <= options.scale <= 1e3:
            raise SpecError("/sampler/scale", "must be between 1e-09 and 1000")
        return replace(options, batch=batch)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law. No smaller than what the longest moves need."""
        count = options.num_steps * options.num_chains
        least = math.sqrt(FIXED) / sensitivity(math.sqrt(MOST), options.batch)
        return max(least, calibrated(count, options.batch, rows, epsilon, delta))

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law."""
        guess, batch, rows = outlook.guess, options.batch, outlook.rows
        limit = 2.0 * widest(noise_multiplier, batch) * math.sqrt(batch) / rows
        fits = min(0.9 * limit / float(guess.width.max()), 1.5 * float(outlook.sds.min()))
        scale = options.scale or float(f"{max(fits, 1e-9):.4g}")
        moved = np.full(len(guess.width), max(0.2 * scale**2, 1e-30) / len(guess.width))
        options = replace(options, scale=scale)
        return Pace(options, draws_a_step(guess, moved), walk(guess, moved, scale))

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        return 3.0 * dimension * (options.batch or rows) / rows


SAMPLER = Sampler(
    "dp_barker", DpBarkerOptions, event=minibatch_event, law=BarkerLaw(), advance=advance
)
