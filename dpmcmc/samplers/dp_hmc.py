"""DP HMC: trajectories of noisy gradients, decided by a noisy ratio."""

from dpmcmc.inputs.options import DpHmcOptions
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.hamiltonian import hamiltonian_event, init, step
from dpmcmc.samplers.hamiltonian_mixing import HamiltonianMixing

SAMPLER = Sampler(
    "dp_hmc",
    DpHmcOptions,
    event=hamiltonian_event,
    mixing=HamiltonianMixing(),
    step=step,
    init=init,
)
