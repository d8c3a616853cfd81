"""DP penalty with a Gaussian random walk, of all coefficients or of one at a time."""

from functools import partial

from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.penalty import init, penalty_event, step
from dpmcmc.samplers.penalty_mixing import PenaltyMixing

MIXING = PenaltyMixing()
SAMPLER = Sampler(
    "dp_penalty",
    DpPenaltyOptions,
    event=penalty_event,
    mixing=MIXING,
    step=step,
    init=partial(init, MIXING),
)
