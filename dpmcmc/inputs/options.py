"""The options of every algorithm, as fields of a job's `sampler`."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.inputs.published import method_of

SumsMethod = Literal["bayes_fixeds_fast", "mcmc_fixeds", "mcmc_normalx", "mcmc_bs", "adassp"]

FRESH = "new"  # in place of the name of an earlier release: pay for a new whitening
Shape = Literal["normal", "bactrian"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Random walk proposal on the standardised coefficients.

    kind: "component" moves one coefficient chosen at random, "full" all of them.
    scale: standard deviation of a moved coefficient; the planner chooses it when None.
    shape: "normal", or "bactrian", a mixture of two narrow normals on both sides (Yang and
    Rodríguez 2013), which avoids short moves: 1.5 times the effective draws for the same budget.
    adapt: whether directions and scales of moves are fitted to the draws of the warm-up, see
    samplers/adaptation.py. None: if no scale is given and enough draws are expected.
    stretch: factor by which the first moves are longer; it shrinks to 1 within two thirds of the
    warm-up, so that few moves reach a mode far away. None: from the distance at which the mode may
    be if no scale is given, else 1.
    """

    kind: Literal["full", "component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"
    adapt: bool | None = None
    stretch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentProposal:
    """Random walk proposal on one coefficient at a time; fields as of Proposal."""

    kind: Literal["component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"
    adapt: bool | None = None
    stretch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A release before the chains, which gives their starting points and directions of moves.

    It is noisy_quadratic for logistic, linear and Poisson models, noisy_mean for Gaussian means and
    bananas. share: of the job's mu^2, if the job gives epsilon; 0 for no such release.
    noise_multiplier: of the whole release, as if it were one Gaussian mechanism. num_far: Newton
    steps of noisy_quadratic before the two near the posterior mode. shares, clip_bounds: see the
    options of noisy_mean. The planner fills what is None.
    """

    share: float = 0.25
    noise_multiplier: float | None = None
    num_far: int | None = None
    shares: tuple[float, ...] | None = None
    clip_bounds: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Options of every sampler; the planner fills what is None.

    num_steps: of each chain, warm-up included. num_chains: every chain costs. num_warmup: first
    draws of a chain, which are charged and left out of summaries.

    clip_bound: clip every row's log likelihood ratio to +- this. clip_width: clip it to an interval
    of this width, whose further end is moved first. If clip_width is None, there is no such clip
    with a noise multiplier or a clip_bound, for HMC and MALA, and for logistic models with mu
    below 100.

    start: a release (charged, and stored with the job) that the chains begin from: noisy_quadratic
    of logistic, linear and Poisson models, noisy_mean of Gaussian means and bananas. If start is
    None and the job gives an epsilon, there is a start, except for a penalty sampler on all rows
    with a num_steps of the caller's and mu below 100. If start is None and the job gives a noise
    multiplier, or if its share is 0, there is no start: all chains begin at a public point near
    the prior mean.
    """

    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    clip_bound: float | None = None
    clip_width: float | None = None
    start: Start | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyOptions(ChainOptions):
    """Options of dp_penalty: random walk Metropolis on all rows, corrected for the noise."""

    algorithm: Literal["dp_penalty"] = "dp_penalty"
    proposal: Proposal = field(default_factory=Proposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyComponentOptions(ChainOptions):
    """Options of dp_penalty_component: dp_penalty that moves one coefficient at a time."""

    algorithm: Literal["dp_penalty_component"] = "dp_penalty_component"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltyGuidedOptions(ChainOptions):
    """Options of dp_penalty_guided: dp_penalty that keeps its direction until it is rejected."""

    algorithm: Literal["dp_penalty_guided"] = "dp_penalty_guided"
    proposal: ComponentProposal = field(default_factory=ComponentProposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpPenaltySubsampledOptions(ChainOptions):
    """Options of dp_penalty_subsampled: penalty steps on rows drawn at random.

    batch: number of rows in a minibatch. The dataset's budget needs a Rényi branch.
    """

    algorithm: Literal["dp_penalty_subsampled"] = "dp_penalty_subsampled"
    proposal: Proposal = field(default_factory=Proposal)
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DpBarkerOptions(ChainOptions):
    """Options of dp_barker: Barker steps on rows drawn at random.

    batch: number of rows in a minibatch. scale: length of a move of one coefficient. adapt: whether
    moves are fitted to the draws of the warm-up, as in Proposal. The dataset's budget needs a
    Rényi branch.
    """

    algorithm: Literal["dp_barker"] = "dp_barker"
    batch: int | None = None
    scale: float | None = None
    adapt: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DpHmcOptions(ChainOptions):
    """Options of dp_hmc: Hamiltonian trajectories with noisy gradients.

    step_size: in posterior sds. mass: diagonal of the mass matrix; with a start, the released
    covariance is used instead. gradient_clip: norm to which a per-row gradient is clipped. If the
    start's release shows another posterior than the plan assumed, the step becomes shorter, the
    gradient clip is scaled, and row ratios are clipped at ten times the typical one
    (docs/proofs/dp_hmc.md). gradient_noise_multiplier: of every gradient;
    privacy.noise_multiplier is that of every ratio.
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

    step_size: in posterior sds. mass: diagonal of the mass matrix; with a start, the released
    covariance is used instead. gradient_clip: norm to which a per-row gradient is clipped. If the
    start's release shows another posterior than the plan assumed, the step becomes shorter, the
    gradient clip is scaled, and row ratios are clipped at ten times the typical one
    (docs/proofs/dp_hmc.md). gradient_noise_multiplier: of every gradient;
    privacy.noise_multiplier is that of every ratio.
    """

    algorithm: Literal["dp_mala"] = "dp_mala"
    step_size: float | None = None
    mass: tuple[float, ...] | None = None
    gradient_clip: float | None = None
    gradient_noise_multiplier: float | None = None

    @property
    def num_leapfrog(self) -> int:
        """Leapfrog steps of a proposal: always 1."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMeanOptions:
    """Options of noisy_mean; the planner fills what is None.

    num_steps: independent draws of each chain. shares: of the job's mu^2 for each release, of which
    the last is the most exact; together at most 1. clip_bounds: for each release, the distance from
    its centre to which rows are clipped, in known sds of the columns. clip_bound: of the last
    release, where clip_bounds is None.
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
    """Options of noisy_quadratic; the planner fills what is None.

    num_steps: independent draws of each chain. num_far: Newton steps before the two near the
    posterior mode. whitening: the name of an earlier release of the same columns, whose whitening
    is used again at no cost; or "new". estimand: "model", the answer of the model as it is written,
    that of a fit without privacy, or "robust", of a fit that weights down rows which the model does
    not expect: narrower where responses follow the model, and another answer where they do not. The
    default is "model".
    rounds: of a job whose epsilon is {"up_to": 4, "until": "reliable"}, how often it may look
    whether its result is reliable, 1 to 5. num_joint: of a model with groups, Newton steps of
    coefficients and groups together before the last one, 1 to 12.
    """

    algorithm: Literal["noisy_quadratic"] = "noisy_quadratic"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    num_far: int | None = None
    whitening: str | None = None
    estimand: Literal["model", "robust"] | None = None
    rounds: int | None = None
    num_joint: int | None = None

    @property
    def clip_bound(self) -> None:
        """None: clip bounds follow from the released numbers."""

    @property
    def paid(self) -> bool:
        """Whether the whitening is that of an earlier release, and costs nothing here."""
        return self.whitening not in (None, FRESH)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpViOptions:
    """Options of dp_vi; the planner fills what is None.

    num_steps: independent draws of each chain. num_far: rounds before the two that give the result.
    num_directions: pairs of gradients that a round releases around the mean, one for each
    parameter. gradient_clip: norm to which a per-row gradient is clipped, in typical norms of such
    gradients.
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
        """None: gradients are clipped, not log ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SufficientStatisticsOptions:
    """Options of sufficient_statistics; the planner fills what is None.

    num_steps: independent draws of each chain. method: how the posterior given the noisy sums is
    computed. bayes_fixeds_fast: in closed form, with the noise of X'X. mcmc_fixeds: X'X is taken as
    released, without its noise. mcmc_normalx: X'X is unknown, the covariates normal. mcmc_bs: whole
    rows are normal. adassp: a ridge estimate without a prior, and the covariance of its noise.
    num_holders: of the dataset's data holders, if each is to release the sums of its own rows with
    its own noise; by default the sums of all rows are released, with less noise at the same cost.
    group: rows, in their order, that are averaged before they are squared; it divides the rows (of
    each holder), needs a known noise_scale, and costs more noise than single rows.
    covariance_scale, covariance_degrees: prior of the covariates' covariance in mcmc_normalx and
    mcmc_bs, inverse Wishart with this multiple of the identity (by default 0.1) and this many
    degrees of freedom beyond the number of columns (by default 1).
    """

    algorithm: Literal["sufficient_statistics"] = "sufficient_statistics"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    method: SumsMethod = "bayes_fixeds_fast"
    num_holders: int | None = None
    group: int | None = None
    covariance_scale: float | None = None
    covariance_degrees: float | None = None

    def __post_init__(self) -> None:
        """Replace a published name of a method, such as MCMC-fixedS, by the name here."""
        if isinstance(self.method, str):
            object.__setattr__(self, "method", method_of(self.method))

    @property
    def clip_bound(self) -> None:
        """None: rows are clamped to their public bounds alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOptions:
    """Let the planner choose the algorithm; the plan gives its reasons.

    The options given here hold for whichever algorithm it chooses. whitening: see noisy_quadratic.
    """

    algorithm: Literal["auto"] = "auto"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    whitening: str | None = None

    @property
    def clip_bound(self) -> None:
        """None: clip bounds depend on the algorithm."""


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
