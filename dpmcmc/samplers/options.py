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
class WarmStart:
    """Private scores and curvatures from the prior mean to the mode, before the chain.

    share: of the job's mu^2, where the job gives epsilon; 0 for no warm start. noise_multiplier: of
    the whole warm start, as if it were one release. num_scores: on the way; 3 more refine the mode.
    gradient_clip: largest norm that a row's gradient keeps. curvature_bound: the most that a row's
    information counts. What is None is chosen by the planner.
    """

    share: float = 0.25
    noise_multiplier: float | None = None
    num_scores: int = 12
    gradient_clip: float | None = None
    curvature_bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """What is None is chosen by the planner. num_steps: of each chain, warm-up included.

    num_chains: all of them are paid for. num_warmup: leading draws that are marked as warm-up.
    clip_bound: cut every row's log ratio at +- this. clip_width: cut the interval of what row
    ratios can be to this width, the further end first; None is none beside a noise multiplier or a
    clip_bound, for HMC and MALA, and for logistic models unless mu is 100 or more. warm_start: how
    the chain finds the mode. With an epsilon the planner decides what None is; for the penalty
    samplers on all rows, whose cost without one is sqrt(steps) / noise multiplier, it is none
    unless mu is 100 or more, an epsilon of some 5,000. Beside a noise multiplier None is none, as a
    share of 0 is. Without one the chain starts at the prior mean.
    """

    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    clip_bound: float | None = None
    clip_width: float | None = None
    warm_start: WarmStart | None = None
