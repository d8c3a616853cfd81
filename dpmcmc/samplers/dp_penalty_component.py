"""DP penalty that moves one coefficient at a time: the narrowest ratios, so the least noise."""

from functools import partial

from dpmcmc.inputs.options import DpPenaltyComponentOptions
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.penalty import init, penalty_event, step
from dpmcmc.samplers.penalty_mixing import PenaltyMixing

MIXING = PenaltyMixing()
SAMPLER = Sampler(
    "dp_penalty_component",
    DpPenaltyComponentOptions,
    event=penalty_event,
    mixing=MIXING,
    step=step,
    init=partial(init, MIXING),
)
