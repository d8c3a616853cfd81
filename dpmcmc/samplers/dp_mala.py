"""DP MALA: Langevin proposals from one noisy gradient, DP HMC with one leapfrog step."""

from dpmcmc.inputs.options import DpMalaOptions
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.hamiltonian import hamiltonian_event, init, step
from dpmcmc.samplers.hamiltonian_mixing import HamiltonianMixing

SAMPLER = Sampler(
    "dp_mala",
    DpMalaOptions,
    event=hamiltonian_event,
    mixing=HamiltonianMixing(),
    step=step,
    init=init,
)
