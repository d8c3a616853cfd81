"""What every sampler is told: the fields that their options share."""

from dataclasses import dataclass
from typing import Literal

Shape = Literal["normal", "bactrian"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Random walk on the standardised coefficients.

    kind: "component" moves one coefficient chosen at random, "full" all of them.
    scale: standard deviation of a moved coefficient; the planner chooses it when None.
    shape: "normal", or "bactrian", two narrow normals on both sides (Yang and Rodríguez 2013),
    which wastes no noise on short moves: 1.5 times the effective draws for the same budget.
    adapt: whether the moves are fitted to the draws of the warm-up: directions and scales, see
    samplers/shaping.py. None: where no scale is given and enough draws are expected.
    stretch: how many times as long the first moves are; they shrink to `scale` within two
    thirds of the warm-up, so that few are needed to a far mode. None: as many as the mode may be
    far, where no scale is given; else 1.
    """

    kind: Literal["full", "component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"
    adapt: bool | None = None
    stretch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentProposal:
    """Random walk of one coefficient at a time. See Proposal."""

    kind: Literal["component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"
    adapt: bool | None = None
    stretch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A release before the chain: where it begins, and along what it moves.

    noisy_quadratic of logistic, linear and Poisson models, noisy_mean of Gaussian means and
    bananas. share: of the job's mu^2, where the job gives epsilon; 0 for no such release.
    noise_multiplier: of all of it, as if it were one Gaussian. num_far: looks of noisy_quadratic on
    its way to the posterior. shares, clip_bounds: of noisy_mean, see its options. What is None is
    chosen by the planner.
    """

    share: float = 0.25
    noise_multiplier: float | None = None
    num_far: int | None = None
    shares: tuple[float, ...] | None = None
    clip_bounds: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included.

    num_chains: all of them are paid for. num_warmup: leading draws that are marked as warm-up.
    clip_bound: cut every row's log ratio at +- this. clip_width: cut the interval of what row
    ratios can be to this width, the further end first; None is none beside a noise multiplier or a
    clip_bound, for HMC and MALA, and for logistic models unless mu is 100 or more. start: the
    release that the chain begins from, which is kept as that of a job is: noisy_quadratic of
    logistic, linear and Poisson models, noisy_mean of Gaussian means and bananas. With an
    epsilon the planner decides what None is: it is that one, but for a penalty sampler on all
    rows with a num_steps of the caller's, whose cost is sqrt(all steps) / noise multiplier,
    unless mu is 100 or more. Beside a noise multiplier None is none, as a share of 0 is. Without
    one all chains start at a public point, near the prior mean.
    """

    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    clip_bound: float | None = None
    clip_width: float | None = None
    start: Start | None = None
