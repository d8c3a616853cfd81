"""DP HMC: trajectories of noisy gradients, decided by a noisy ratio."""

from dataclasses import dataclass
from typing import Literal

from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.hamiltonian import advance, hamiltonian_event, start
from dpmcmc.samplers.hamiltonian_law import HamiltonianLaw
from dpmcmc.samplers.options import ChainOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DpHmcOptions(ChainOptions):
    """See ChainOptions.

    step_size: in posterior sds, with a mass matrix as planned. mass: its diagonal; the covariance
    that a start released takes its place. gradient_clip: largest norm that a row's gradient keeps.
    A start that finds the posterior to be other than the plan guessed shortens the step, scales the
    clip and cuts row ratios that are ten times the typical one (docs/proofs/dp_hmc.md).
    gradient_noise_multiplier: of every gradient; privacy.noise_multiplier is that of every ratio.
    """

    algorithm: Literal["dp_hmc"] = "dp_hmc"
    num_leapfrog: int = 3
    step_size: float | None = None
    mass: tuple[float, ...] | None = None
    gradient_clip: float | None = None
    gradient_noise_multiplier: float | None = None


SAMPLER = Sampler(
    "dp_hmc",
    DpHmcOptions,
    event=hamiltonian_event,
    law=HamiltonianLaw(),
    advance=advance,
    start=start,
)
