"""What an analyst may ask of an algorithm: the options of each, as a job holds them."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.inputs.published import method_of

SumsMethod = Literal["bayes_fixeds_fast", "mcmc_fixeds", "mcmc_normalx", "mcmc_bs", "adassp"]

FRESH = "new"  # in place of a job's name: pay for a whitening of one's own
Shape = Literal["normal", "bactrian"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Random walk on the standardised coefficients.

    kind: "component" moves one coefficient chosen at random, "full" all of them.
    scale: standard deviation of a moved coefficient; the planner chooses it when None.
    shape: "normal", or "bactrian", two narrow normals on both sides (Yang and Rodríguez 2013),
    which wastes no noise on short moves: 1.5 times the effective draws for the same budget.
    adapt: whether the moves are fitted to the draws of the warm-up: directions and scales, see
    samplers/adaptation.py. None: where no scale is given and enough draws are expected.
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
    noise_multiplier: of all of it, as if it were one Gaussian. num_far: Newton steps of
    noisy_quadratic before the two near the posterior mode. shares, clip_bounds: of noisy_mean, see
    its options. What is None is chosen by the planner.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyOptions(ChainOptions):
    """Options of dp_penalty: a random walk along vectors of coefficients."""

    algorithm: Literal["dp_penalty"] = "dp_penalty"
    proposal: Proposal = field(default_factory=Proposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyComponentOptions(ChainOptions):
    """Options of dp_penalty_component: a random walk along one coefficient at a time."""

    algorithm: Literal["dp_penalty_component"] = "dp_penalty_component"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyGuidedOptions(ChainOptions):
    """Options of dp_penalty_guided: a walk that keeps its direction while it is accepted."""

    algorithm: Literal["dp_penalty_guided"] = "dp_penalty_guided"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltySubsampledOptions(ChainOptions):
    """Options of dp_penalty_subsampled: penalty steps on secret minibatches.

    batch: rows of a step. Needs a dataset whose terms have a Rényi branch.
    """

    algorithm: Literal["dp_penalty_subsampled"] = "dp_penalty_subsampled"
    proposal: Proposal = field(default_factory=Proposal)
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DpBarkerOptions(ChainOptions):
    """Options of dp_barker: Barker steps on secret minibatches.

    batch: rows of a step. scale: length of a move of one coefficient. adapt: whether moves are
    fitted to the draws of the warm-up, as in Proposal. Needs a dataset whose terms have a Rényi
    branch.
    """

    algorithm: Literal["dp_barker"] = "dp_barker"
    batch: int | None = None
    scale: float | None = None
    adapt: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DpHmcOptions(ChainOptions):
    """Options of dp_hmc: Hamiltonian trajectories with noisy gradients.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DpMalaOptions(ChainOptions):
    """Options of dp_mala: Langevin proposals with noisy gradients.

    step_size: in posterior sds, with a mass matrix as planned. mass: its diagonal; the covariance
    that a start released takes its place. gradient_clip: largest norm that a row's gradient keeps.
    A start that finds the posterior to be other than the plan guessed shortens the step, scales the
    clip and cuts row ratios that are ten times the typical one (docs/proofs/dp_hmc.md).
    gradient_noise_multiplier: of every gradient; privacy.noise_multiplier is that of every ratio.
    """

    algorithm: Literal["dp_mala"] = "dp_mala"
    step_size: float | None = None
    mass: tuple[float, ...] | None = None
    gradient_clip: float | None = None
    gradient_noise_multiplier: float | None = None

    @property
    def num_leapfrog(self) -> int:
        """Gradients a step."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMeanOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    shares: of the job's mu^2 for each release, the last one the closest; together at most 1.
    clip_bounds: for each release the largest distance from its centre that a row counts with, in
    known sds of the columns. clip_bound: of the last one, where the others are left open.
    """

    algorithm: Literal["noisy_mean"] = "noisy_mean"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    clip_bound: float | None = None
    shares: tuple[float, ...] | None = None
    clip_bounds: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyQuadraticOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    num_far: Newton steps before the two near the posterior mode. whitening: the name of an earlier
    release of the same columns, whose coordinates are used again and not paid for; or "new".
    """

    algorithm: Literal["noisy_quadratic"] = "noisy_quadratic"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    num_far: int | None = None
    whitening: str | None = None

    @property
    def clip_bound(self) -> None:
        """None: what is cut follows from what is released."""

    @property
    def paid(self) -> bool:
        """Whether the whitening was paid for by somebody else."""
        return self.whitening not in (None, FRESH)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpViOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    num_far: rounds before the two that the answer is made of. num_directions: pairs of gradients
    that a round releases around the mean: one for each parameter. gradient_clip: largest norm that
    a row's gradient keeps, in typical norms of such gradients.
    """

    algorithm: Literal["dp_vi"] = "dp_vi"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    num_far: int | None = None
    num_directions: int | None = None
    gradient_clip: float | None = None

    @property
    def clip_bound(self) -> None:
        """None: gradients are cut, and not log ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SufficientStatisticsOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    method: how the posterior given the sums is found. bayes_fixeds_fast: in closed form, the noise
    of X'X reckoned in. mcmc_fixeds: X'X taken to be what was released. mcmc_normalx: X'X unknown,
    the covariates normal. mcmc_bs: whole rows normal. adassp: a ridge estimate without a prior, and
    the spread of its noise. num_holders: of the dataset's data holders, each of which then releases
    the sums of its own rows with noise of its own; by default the sums of all rows are released,
    with less noise in all and at the same cost.
    """

    algorithm: Literal["sufficient_statistics"] = "sufficient_statistics"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    method: SumsMethod = "bayes_fixeds_fast"
    num_holders: int | None = None

    def __post_init__(self) -> None:
        """Take a method by its published name as well, such as MCMC-fixedS."""
        if isinstance(self.method, str):
            object.__setattr__(self, "method", method_of(self.method))

    @property
    def clip_bound(self) -> None:
        """None: rows are cut at their public bounds alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOptions:
    """Let the planner choose the algorithm; the plan gives its reasons.

    What is given here is kept for any algorithm that it chooses. whitening: see noisy_quadratic.
    """

    algorithm: Literal["auto"] = "auto"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    whitening: str | None = None

    @property
    def clip_bound(self) -> None:
        """None: what is cut depends on the algorithm."""


SamplerOptions = (
    DpPenaltyOptions
    | DpPenaltyComponentOptions
    | DpPenaltyGuidedOptions
    | DpPenaltySubsampledOptions
    | DpBarkerOptions
    | DpHmcOptions
    | DpMalaOptions
)
ReleaseOptions = (
    NoisyMeanOptions | NoisyQuadraticOptions | DpViOptions | SufficientStatisticsOptions
)
AlgorithmOptions = SamplerOptions | ReleaseOptions | AutoOptions


AlgorithmName = Literal[
    "auto",
    "dp_penalty",
    "dp_penalty_component",
    "dp_penalty_guided",
    "dp_penalty_subsampled",
    "dp_barker",
    "dp_hmc",
    "dp_mala",
    "noisy_mean",
    "noisy_quadratic",
    "dp_vi",
    "sufficient_statistics",
]
