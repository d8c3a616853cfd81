"""Every place in the core that draws randomness: what it is for, and what its privacy rests on.

A sampler or a release that adds noise gets a line in SITES, which is its reviewed moment: the
noise is drawn for that site alone and within the range of its proof. A test compares both tables
with the code.
"""

from dataclasses import dataclass

LEAST_MULTIPLIER, MOST_MULTIPLIER = 2.0**-20, 2.0**30  # docs/proofs/gaussian_release.md, section 2


@dataclass(frozen=True, slots=True)
class Site:
    """A place that draws integer Gaussian noise.

    caller: the function that draws, module:function. event: what one draw is charged as. proof: a
    file of docs/proofs. least, most: noise multipliers for which the proof holds.
    """

    caller: str
    event: str
    proof: str
    least: float = LEAST_MULTIPLIER
    most: float = MOST_MULTIPLIER


PENALTY_DECISION = Site(
    "dpmcmc.samplers.penalty:taken",
    "Gaussian(z) for each step and chain",
    "dp_penalty.md",
)
SUBSAMPLED_DECISION = Site(
    "dpmcmc.samplers.dp_penalty_subsampled:_steps",
    "WithoutReplacement(Gaussian(z)) for each step and chain",
    "dp_penalty_subsampled.md",
)
BARKER_DECISION = Site(
    "dpmcmc.samplers.dp_barker:_steps",
    "WithoutReplacement(Gaussian(z)) for each step and chain",
    "dp_barker.md",
)
TRAJECTORY_DECISION = Site(
    "dpmcmc.samplers.hamiltonian:advance",
    "Gaussian(z) for each step and chain",
    "dp_hmc.md",
)
TRAJECTORY_GRADIENT = Site(
    "dpmcmc.samplers.hamiltonian:_noise",
    "Gaussian(gradient_noise_multiplier) for each gradient and chain",
    "dp_hmc.md",
)
NOISY_MEAN = Site(
    "dpmcmc.releases.noisy_mean:_release",
    "Gaussian(z) for each mean",
    "noisy_mean.md",
)
NOISY_QUADRATIC = Site(
    "dpmcmc.releases.joint_sums:release",
    "Gaussian(z) for each score with its curvatures and scale",
    "noisy_quadratic.md",
)
SITES = (
    PENALTY_DECISION,
    SUBSAMPLED_DECISION,
    BARKER_DECISION,
    TRAJECTORY_DECISION,
    TRAJECTORY_GRADIENT,
    NOISY_MEAN,
    NOISY_QUADRATIC,
)

# Draws that privacy does not rest on being noise: module:function -> what for.
OTHER_DRAWS = {
    "dpmcmc.privacy.discrete:discrete_gaussian": "words of the integer noise itself",
    "dpmcmc.samplers.minibatch:batches": "secret batches: without_replacement.md",
    "dpmcmc.samplers.penalty:amounts.bactrian": "proposals",
    "dpmcmc.samplers.penalty:amounts.normal": "proposals",
    "dpmcmc.samplers.penalty:taken": "acceptance uniforms, after the noise",
    "dpmcmc.samplers.dp_penalty_guided:advance.steps": "first sides of a guided walk",
    "dpmcmc.samplers.dp_penalty_subsampled:_steps": "acceptance uniforms, after the noise",
    "dpmcmc.samplers.dp_barker:_amounts": "proposals",
    "dpmcmc.samplers.dp_barker:_corrections": "correction noise, which may be known: dp_barker.md",
    "dpmcmc.samplers.dp_barker:_steps": "noise that fills up a variance, which may be known",
    "dpmcmc.samplers.hamiltonian:advance": "momenta; acceptance uniforms, after the noise",
    "dpmcmc.samplers.hamiltonian:_shortened": "directions in which public widths are looked at",
    "dpmcmc.samplers.shaping:drawn": "which coefficient a proposal moves",
    "dpmcmc.evaluation:median_bandwidth": "pairs of draws, which are released",
    "dpmcmc.releases.base:Normal.draws": "draws from a posterior given what was released",
    "dpmcmc.releases.quadratic:Quadratic._curvatures": "curvatures given what was released",
    "dpmcmc.releases.quadratic:Quadratic._powers": "residual scales given what was released",
    "dpmcmc.releases.quadratic:Mixture.draws": "draws from a posterior given what was released",
    "dpmcmc.releases.quadratic:Mixture._log_scales": "draws given what was released",
    "dpmcmc.free.walk:Walk.coefficients": "draws given what was released",
    "dpmcmc.free.walk:Walk._completed": "coefficients given the others and what was released",
    "dpmcmc.free.walk:_Chains._go_along": "moves of a posterior given what was released",
    "dpmcmc.free.walk:_Chains._redraw": "moves of a posterior given what was released",
    "dpmcmc.free.priors:_precision": "variances of a prior given drawn coefficients",
    "dpmcmc.free.priors:_inverse_gaussian": "variances of a prior given drawn coefficients",
    "dpmcmc.free.responses:_counts": "predicted counts given what was released",
    "dpmcmc.free.responses:_numbers": "predicted responses given what was released",
}


def check(site: Site, noise_multiplier: float) -> None:
    """Refuse noise that no proof covers. Raises ValueError."""
    if site not in SITES:
        raise ValueError("noise is drawn for registered sites only")
    if not site.least <= noise_multiplier <= site.most:
        raise ValueError(f"no proof covers a noise multiplier of {noise_multiplier:g} here")
