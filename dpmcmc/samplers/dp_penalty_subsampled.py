"""DP penalty on secret minibatches, with the noise of the batch itself corrected for."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dpmcmc.privacy.noise import RandomSource
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
from dpmcmc.samplers.options import ChainOptions, Proposal
from dpmcmc.samplers.penalty import accept, moves, start
from dpmcmc.samplers.penalty_law import PenaltyLaw
from dpmcmc.samplers.warm_start_law import SHARES, settled

SHARE = 10  # a batch is one part in so many of the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltySubsampledOptions(ChainOptions):
    """See ChainOptions.

    batch: rows of a step. Needs a dataset whose terms have a Rényi branch.
    """

    algorithm: Literal["dp_penalty_subsampled"] = "dp_penalty_subsampled"
    proposal: Proposal = field(default_factory=Proposal)
    batch: int | None = None


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

    shares: ClassVar[tuple[float, ...]] = SHARES

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        batch = settled_batch(options.batch, outlook.rows, SHARE)
        return replace(options, batch=batch, warm_start=settled(options.warm_start, outlook))

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law."""
        count = options.num_steps * options.num_chains
        return calibrated(count, options.batch, rows, epsilon, delta, options.warm_start)

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law. For a move of one sd the batch's noise has variance n T / b (1 - b / n)."""
        guess, part = outlook.guess, options.batch / outlook.rows
        own = ((1.0 - part) * outlook.tempering / part) ** 0.5 / noise_multiplier
        width = np.hypot(guess.width / part, own / outlook.sds)
        joint = float(np.hypot(guess.joint_width / part, own / outlook.sds.max()))
        wider = replace(guess, width=width, joint_width=joint)
        return PenaltyLaw.pace(self, options, replace(outlook, guess=wider), noise_multiplier)

    def _spent(self, options: Any, outlook: Outlook, noise_multiplier: float) -> float:
        """Return about the mu of all steps of all chains."""
        return chain_mu_of(options, outlook.rows, noise_multiplier)

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        return batch_columns(options, rows, dimension)


SAMPLER = Sampler(
    "dp_penalty_subsampled",
    DpPenaltySubsampledOptions,
    event=minibatch_event,
    law=SubsampledLaw(),
    advance=advance,
    start=start,
)
