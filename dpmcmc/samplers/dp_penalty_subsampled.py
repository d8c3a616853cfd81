"""DP penalty on secret minibatches, with the noise of the batch itself corrected for."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Outlook, Pace, Proposal, Sampler, Target
from dpmcmc.samplers.minibatch import (
    batches,
    calibrated,
    check_batch,
    minibatch_event,
    rounding,
    spread,
)
from dpmcmc.samplers.penalty import accept, moves
from dpmcmc.samplers.penalty_law import PenaltyLaw

SHARE = 10  # a batch is this part of the rows,
FEWEST = 1000  # but not smaller than this


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltySubsampledOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included.

    batch: rows of a step. Needs a dataset whose terms have a Rényi branch.
    """

    algorithm: Literal["dp_penalty_subsampled"] = "dp_penalty_subsampled"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    proposal: Proposal = field(default_factory=Proposal)
    batch: int | None = None
    clip_bound: float | None = None


def released(
    target: Target, deltas: Floats, batch: int, random: RandomSource
) -> tuple[Floats, Floats]:
    """Return (statistics, sensitivities), (chain,) each, on a fresh batch; noise is still to come.

    The batch's estimate of the log ratio minus half of its estimated variance.
    Proof: docs/proofs/dp_penalty_subsampled.md.
    """
    rows, chains = target.rows, len(deltas)
    sums, squares, lo, hi = target.batch_ratios(deltas, batches(random, rows, batch, chains))
    scale, width = rows * target.tempering / batch, hi - lo
    finite = (1.0 - batch / rows) * batch / (batch - 1.0)
    variance = finite * scale**2 * spread(sums, squares, batch)
    jump = 0.5 * finite * scale**2 * width**2 * (batch - 1.0) / batch
    return scale * sums - 0.5 * variance, rounding(batch) * (scale * width + jump)


def proposed(proposal: Proposal, shape: tuple[int, int, int], random: RandomSource) -> Floats:
    """Return (length, chain, d) moves, of one random coefficient each or of all."""
    deltas = moves(proposal, shape, random)
    if proposal.kind == "component":
        chosen = random.integers(shape[2], (shape[0],))
        deltas *= np.arange(shape[2]) == chosen[:, None, None]
    return deltas


def advance(
    target: Target,
    options: DpPenaltySubsampledOptions,
    noise_multiplier: float,
    length: int,
    random: RandomSource,
    state: None = None,
) -> Floats:
    """Return (chain, length, d) draws. Privacy: length * chain subsampled Gaussian events.

    Proof: docs/proofs/dp_penalty_subsampled.md. Source: thesis A, section 4.1, corrected.
    """
    chains, dimension = target.position.shape
    deltas = proposed(options.proposal, (length, chains, dimension), random)
    normals, uniforms = random.normals((length, chains)), random.uniforms((length, chains))
    draws = np.empty((chains, length, dimension))
    for t in range(length):
        statistics, sensitivities = released(target, deltas[t], options.batch or 0, random)
        priors = target.log_prior_ratio(deltas[t])
        accepted = accept(
            statistics, sensitivities, priors, noise_multiplier, normals[t], uniforms[t]
        )
        target.move(deltas[t], np.array(accepted))
        draws[:, t] = target.position
    return draws


@dataclass(frozen=True, slots=True)
class SubsampledLaw(PenaltyLaw):
    """The penalty law with the noise of the batch beside that of privacy."""

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        rows = outlook.rows
        batch = options.batch or min(rows, max(FEWEST, rows // SHARE))
        check_batch(batch, rows)
        return replace(options, batch=batch)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law."""
        count = options.num_steps * options.num_chains
        return calibrated(count, options.batch, rows, epsilon, delta)

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law. For a move of one sd the batch's noise has variance n T / b (1 - b / n)."""
        guess, part = outlook.guess, options.batch / outlook.rows
        own = ((1.0 - part) * outlook.tempering / part) ** 0.5 / noise_multiplier
        width = np.hypot(guess.width / part, own / outlook.sds)
        joint = float(np.hypot(guess.joint_width / part, own / outlook.sds.max()))
        wider = replace(guess, width=width, joint_width=joint)
        return PenaltyLaw.pace(self, options, replace(outlook, guess=wider), noise_multiplier)

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        return 3.0 * dimension * (options.batch or rows) / rows


SAMPLER = Sampler(
    "dp_penalty_subsampled",
    DpPenaltySubsampledOptions,
    event=minibatch_event,
    law=SubsampledLaw(),
    advance=advance,
)
