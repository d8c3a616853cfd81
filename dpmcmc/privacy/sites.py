"""The registry of all places that draw privacy noise: their event and their privacy proof.

A sampler or a release that adds noise gets a line in SITES, which is its reviewed moment: the
noise is drawn for that site alone and within the range of its proof. A test compares SITES, and its
own table of draws that are no privacy noise, with the code.
"""

from dataclasses import dataclass

LEAST_MULTIPLIER, MOST_MULTIPLIER = 2.0**-20, 2.0**30  # docs/proofs/gaussian_release.md, section 2


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code that draws noise or flips, with its event and its proof.

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
    "dpmcmc.samplers.hamiltonian:step",
    "Gaussian(z) for each step and chain",
    "dp_hmc.md",
)
TRAJECTORY_GRADIENT = Site(
    "dpmcmc.samplers.hamiltonian:gradient_noise",
    "Gaussian(gradient_noise_multiplier) for each gradient and chain",
    "dp_hmc.md",
)
NOISY_MEAN = Site(
    "dpmcmc.releases.noisy_mean:released_sum",
    "Gaussian(z) for each mean",
    "noisy_mean.md",
)
NOISY_QUADRATIC = Site(
    "dpmcmc.mechanisms.joint_sums:release",
    "Gaussian(z) for each score with its curvatures and scale",
    "noisy_quadratic.md",
)
GROUPED_QUADRATIC = Site(
    "dpmcmc.mechanisms.arrow_sums:release",
    "Gaussian(z) for each score of covariates and cells, with its curvature and counts",
    "noisy_quadratic.md",
)
VARIATIONAL_GRADIENT = Site(
    "dpmcmc.releases.dp_vi:_Fit._released",
    "Gaussian(z) for each gradient",
    "dp_vi.md",
)
SUFFICIENT_STATISTICS = Site(
    "dpmcmc.releases.regression.statistics:release",
    "Gaussian(z) for the sums of each holder",
    "sufficient_statistics.md",
)
RELEASED_COUNTS = Site(
    "dpmcmc.mechanisms.counts:released",
    "Gaussian(z) for all tables and sums of one release",
    "tables.md",
)
STATISTIC_GAUSSIAN = Site(
    "dpmcmc.queries.statistics.release:with_gaussian",
    "Gaussian(z) for one sum, or for all rows released one by one",
    "statistics.md",
)
STATISTIC_LAPLACE = Site(
    "dpmcmc.queries.statistics.release:with_laplace",
    "Laplace(z) for one sum, or for all rows released one by one",
    "statistics.md",
)
SMOOTH_SENSITIVITY_LAPLACE = Site(
    "dpmcmc.queries.statistics.release:with_smooth_laplace",
    "SmoothLaplace(epsilon, delta) for one median or maximum; multiplier 1 / epsilon",
    "statistics.md",
    least=2.0**-5,
    most=2.0**5,
)
RANDOMISED_RESPONSE = Site(
    "dpmcmc.queries.statistics.release:with_flips",
    "PureEpsilon(epsilon) for all rows; multiplier 1 / epsilon",
    "statistics.md",
    least=2.0**-5,
    most=2.0**20,
)
SITES = (
    PENALTY_DECISION,
    SUBSAMPLED_DECISION,
    BARKER_DECISION,
    TRAJECTORY_DECISION,
    TRAJECTORY_GRADIENT,
    NOISY_MEAN,
    NOISY_QUADRATIC,
    GROUPED_QUADRATIC,
    VARIATIONAL_GRADIENT,
    SUFFICIENT_STATISTICS,
    RELEASED_COUNTS,
    STATISTIC_GAUSSIAN,
    STATISTIC_LAPLACE,
    SMOOTH_SENSITIVITY_LAPLACE,
    RANDOMISED_RESPONSE,
)


def check(site: Site, noise_multiplier: float) -> None:
    """Refuse a noise multiplier outside the proof's range. Raises ValueError."""
    if site not in SITES:
        raise ValueError("noise is drawn for registered sites only")
    if not site.least <= noise_multiplier <= site.most:
        raise ValueError(f"no proof covers a noise multiplier of {noise_multiplier:g} here")
