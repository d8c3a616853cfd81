"""The registry of all places that draw randomness: their purpose and their privacy proof.

A sampler or a release that adds noise gets a line in SITES, which is its reviewed moment: the
noise is drawn for that site alone and within the range of its proof. A test compares both tables
with the code.
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

# Draws that privacy does not rest on being noise: module:function -> what for.
OTHER_DRAWS = {
    **{
        f"dpmcmc.privacy.drawn:Metered.{kind}": "handed on from the source behind"
        for kind in ("normals", "uniforms", "integers", "words")
    },
    "dpmcmc.privacy.discrete:discrete_gaussian": "words of the integer noise itself",
    "dpmcmc.privacy.discrete_laplace:flips": "the flips of randomised responses themselves",
    "dpmcmc.privacy.discrete_laplace:_proposed": "words of the integer noise itself",
    "dpmcmc.privacy.discrete_laplace:_exponential_coins": "words of the integer noise itself",
    "dpmcmc.samplers.minibatch:batches": "secret batches: without_replacement.md",
    "dpmcmc.queries.statistics.release:shuffled": "a random order of rows: statistics.md, section 3",
    "dpmcmc.samplers.penalty:amounts.bactrian": "proposals",
    "dpmcmc.samplers.penalty:amounts.normal": "proposals",
    "dpmcmc.samplers.penalty:taken": "acceptance uniforms, after the noise",
    "dpmcmc.samplers.dp_penalty_guided:step.steps": "first sides of a guided walk",
    "dpmcmc.samplers.dp_penalty_subsampled:_steps": "acceptance uniforms, after the noise",
    "dpmcmc.samplers.dp_barker:_amounts": "proposals",
    "dpmcmc.samplers.dp_barker:_corrections": "correction noise, which may be known: dp_barker.md",
    "dpmcmc.samplers.dp_barker:_steps": "noise that fills up a variance, which may be known",
    "dpmcmc.samplers.hamiltonian:step": "momenta; acceptance uniforms, after the noise",
    "dpmcmc.samplers.hamiltonian:_shortened": "directions in which public widths are looked at",
    "dpmcmc.samplers.adaptation:drawn": "which coefficient a proposal moves",
    "dpmcmc.posterior.evaluation:median_bandwidth": "pairs of draws, which are released",
    "dpmcmc.releases.base:Normal.draws": "draws from a posterior given what was released",
    "dpmcmc.releases.quadratic:Quadratic._curvatures": "curvatures given what was released",
    "dpmcmc.releases.quadratic:Quadratic._bent": "curvatures given what was released",
    "dpmcmc.releases.quadratic:Quadratic._powers": "residual scales given what was released",
    "dpmcmc.releases.quadratic:Mixture.draws": "draws from a posterior given what was released",
    "dpmcmc.releases.quadratic:Mixture._completed": "log scales given what was released",
    "dpmcmc.releases.quadratic:Mixture._log_scales": "draws given what was released",
    "dpmcmc.releases.grouped_posterior:Arrow._sizes": "curvatures given what was released",
    "dpmcmc.releases.grouped_posterior:Arrow._cells": "curvatures given what was released",
    "dpmcmc.releases.grouped_posterior:Arrow._fill_others": "curvatures given what was released",
    "dpmcmc.releases.grouped_posterior:Part.draws": "draws given what was released",
    "dpmcmc.releases.hierarchy:drawn": "sds of curves given what was released",
    "dpmcmc.releases.laws:Laws.drawn": "sds of groups given what was released",
    "dpmcmc.releases.grouped_posterior:GroupedMixture.draws": "draws given what was released",
    "dpmcmc.releases.grouped_posterior:GroupedMixture.completed": "effects given the others",
    "dpmcmc.releases.grouped_posterior:GroupedMixture._log_scales": "draws given what was released",
    "dpmcmc.releases.grouped_posterior:_split_effects": "effects of outer groups given those of both",
    "dpmcmc.posterior.free.posterior:_effects_of_groups": "effects of groups not seen before",
    "dpmcmc.releases.regression.fixed:Normals.draws": "draws given what was released",
    "dpmcmc.releases.regression.fixed:conditionals": "residual variances given what was released",
    "dpmcmc.releases.regression.mixtures:_variances": "residual variances given what was released",
    "dpmcmc.releases.sufficient_statistics:Conditional.draws": "draws given what was released",
    "dpmcmc.releases.regression.wishart:gammas": "draws given what was released",
    "dpmcmc.releases.regression.wishart:bartlett": "draws and proposals given what was released",
    "dpmcmc.releases.regression.chains:Chains._draw_theta": "draws given what was released",
    "dpmcmc.releases.regression.chains:Chains._move_variance": "moves given what was released",
    "dpmcmc.releases.regression.chains:decided": "acceptance uniforms, of released numbers",
    "dpmcmc.releases.regression.intercept:WithIntercept._move_gram": "draws given what was released",
    "dpmcmc.releases.regression.intercept:WithIntercept._move_middle": "moves given what was released",
    "dpmcmc.releases.regression.joint_normal:Gibbs._sums": "draws given what was released",
    "dpmcmc.releases.regression.joint_normal:Gibbs._draw_parameters": "draws given what was released",
    "dpmcmc.posterior.free.walk:Walk.coefficients": "draws given what was released",
    "dpmcmc.posterior.free.walk:Walk._completed": "coefficients given the others and what was released",
    "dpmcmc.posterior.free.walk:_Chains._go_along": "moves of a posterior given what was released",
    "dpmcmc.posterior.free.walk:_Chains._redraw": "moves of a posterior given what was released",
    "dpmcmc.posterior.free.priors:_precision": "variances of a prior given drawn coefficients",
    "dpmcmc.posterior.free.priors:_inverse_gaussian": "variances of a prior given drawn coefficients",
    "dpmcmc.families.scores.responses:counts": "predicted counts given what was released",
    "dpmcmc.families.scores.responses:uneven": "means of predicted counts given what was released",
    "dpmcmc.queries.synthetic.posterior:Walk.__init__": "where chains given what was released begin",
    "dpmcmc.queries.synthetic.posterior:Walk.move": "moves of a posterior given what was released",
    "dpmcmc.queries.synthetic.drawn:rows_of": "synthetic rows given what was released",
    "dpmcmc.queries.synthetic.drawn:within": "numbers of synthetic rows within their bins",
    "dpmcmc.queries.checks.cells:Histogram._codes": "places of rows, which may be known:"
    " predictive_check.md",
    "dpmcmc.queries.statistics.populations:NormalMean.sample": "simulated rows, of public facts",
    "dpmcmc.queries.statistics.populations:NormalVariance.sample": "simulated rows, of public facts",
    "dpmcmc.queries.statistics.populations:UniformWidth.sample": "simulated rows, of public facts",
    "dpmcmc.queries.statistics.populations:Bernoulli.sample": "simulated rows, of public facts",
    "dpmcmc.queries.statistics.fisher_monte_carlo:additive_information.away_from_mean": "simulated sums",
    "dpmcmc.queries.statistics.fisher_monte_carlo:drawn": "noise of simulated releases",
    "dpmcmc.queries.statistics.inference_chains:Algorithm.accepted": "acceptances",
    "dpmcmc.queries.statistics.inference_chains:Algorithm.drawn": "the particle that is kept",
    "dpmcmc.queries.statistics.inference_chains:Algorithm.proposed": "proposals",
    "dpmcmc.queries.statistics.inference_chains:PseudoMarginal.step": "simulated sums, moved a little",
    "dpmcmc.queries.statistics.inference_chains:RaoBlackwellised.started": "simulated sums",
    "dpmcmc.queries.statistics.inference_chains:RaoBlackwellised.step": "simulated sums",
    "dpmcmc.queries.statistics.inference_chains:_normals": "simulated sums",
    "dpmcmc.queries.statistics.inference:_drawn": "starting points of chains",
    "dpmcmc.queries.statistics.inference:_known_or_estimated": "simulated sums",
    "dpmcmc.queries.statistics.inference_targets:laplace": "noise of simulated releases",
    "dpmcmc.queries.statistics.inference_targets:simulated": "simulated rows, given the parameter",
    "dpmcmc.families.scores.responses:_numbers": "predicted responses given what was released",
    "dpmcmc.families.scores.responses:number_by": "predicted responses given what was released",
    "dpmcmc.families.hurdle_poisson:drawn": "predicted counts given what was released",
    "dpmcmc.families.beta:response.drawn": "predicted shares given what was released",
    "dpmcmc.families.weibull:": "predicted times given what was released",
    "dpmcmc.posterior.free.priors:Shrinkage.precisions": "scales of priors, given what was released",
    "dpmcmc.posterior.free.priors:Explained.precisions": "parts of R2, given what was released",
    "dpmcmc.posterior.free.priors:inverse_gaussian_like": "parts of R2, given what was released",
    "dpmcmc.posterior.free.priors:Together.rates": "rates of priors, given what was released",
    "dpmcmc.posterior.free.walk:_spread": "numbers in place of ties, for R-hat",
    "dpmcmc.inputs.schema:_dummy_values": "dummy rows, of public facts and a public seed",
}


def check(site: Site, noise_multiplier: float) -> None:
    """Refuse a noise multiplier outside the proof's range. Raises ValueError."""
    if site not in SITES:
        raise ValueError("noise is drawn for registered sites only")
    if not site.least <= noise_multiplier <= site.most:
        raise ValueError(f"no proof covers a noise multiplier of {noise_multiplier:g} here")
