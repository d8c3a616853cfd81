"""Fills in the options that a job leaves open, from public facts and the budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import ROW
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import Start
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec, UpTo
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Gaussian
from dpmcmc.releases import RELEASES
from dpmcmc.releases.base import NUM_CHAINS, NUM_DRAWS, Release
from dpmcmc.releases.noisy_quadratic import ANY_ROUNDS
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.base import Expectation, MixingModel
from dpmcmc.samplers.starting import passes
from dpmcmc.samplers.starts import chain_mu

FEWEST_STEPS = 100
# draws of all chains that the planner chooses at most: so many for each coefficient,
MAX_DRAWS_PER_COEFFICIENT = 20_000
MIN_DRAW_LIMIT = 40_000  # but no fewer than this limit,
MAX_NUMBERS_OF_DRAWS = 4_000_000  # and no more numbers than this
TARGET_SECONDS = 60.0
ROW_SECONDS, CELL_SECONDS, STEP_SECONDS = 2e-9, 5e-10, 2e-5  # measured, one core
# expected ESS above which a second chain, for R-hat, is worth its walk
MIN_ESS_OF_TWO_CHAINS = 50.0
# of the ESS of one long chain, which two shorter ones must keep
MIN_ESS_SHARE_OF_TWO_CHAINS = 0.85
ARVIZ_FLOOR = 3.5  # what bulk ESS reports beyond the effective draws of a short chain
# a chain without a start warms up for at least one step in so many: its distance is a guess
LARGEST_WARMUP_DIVISOR = 10
NEAR_BEST_SHARE = 0.9  # of the largest ESS: a batch that reaches it counts as equally good
BATCH_DIVISORS = (4, 2, 1)  # batches of rows / divisor are tried beside the usual batch
WEAK_NOISE_MULTIPLIER = 1.0  # noise multiplier below which a batch hides little
LEAST_MULTIPLIER = 1e-4
RELIABLE_ESS = 400.0  # below this a chain's own diagnostics call it unreliable: Vehtari et al. 2021
# times the posterior's sds: what a twenty-fifth of the rows would tell without noise
MAX_WIDTH_RATIO = 5.0
HIGHEST_EPSILON = 1000.0  # that is worth naming
# rows or persons, below which draws of most algorithms are narrower than the posterior of so few
FEWEST_ROWS = 20
WITHIN = 1.01  # times the smallest epsilon that is enough, before it is rounded up
# d / n times that is the squared error of a normal approximation, in posterior sds; where the
# likelihood is quadratic there is none
NORMAL_APPROXIMATION_ERROR = 1.0
ROUND_UP = 1.0 + 1e-12  # of a noise multiplier: several releases cost no more than one


@dataclass(frozen=True, slots=True)
class Filled:
    """A job with every option filled in. ess: expected, for effects of usual size.

    sd_inflation: mean over the coefficients of expected sds of what the draws are from, over those
    of the posterior given the rows; 1 for chains. width: the median of them, with what a chain's
    length adds; None where it is not known. poor: whether a release promises nothing here. error:
    expected distance of the draws' mean to that posterior's, in its sds, root mean square.
    modelled: sd_inflation where responses follow the model; real ones may ask for wider clips.
    """

    spec: JobSpec
    ess: float
    sd_inflation: float = 1.0
    width: float | None = None
    poor: bool = False
    error: float = math.inf
    modelled: float = 1.0

    @property
    def usable(self) -> bool:
        """Return whether the result is expected to be usable, see docs/guides/results.md."""
        if self.spec.sampler.algorithm in RELEASES:
            return not self.poor and self.width is not None and self.width <= MAX_WIDTH_RATIO
        return self.ess >= RELIABLE_ESS


def fill(facts: PublicFacts, spec: JobSpec) -> Filled:
    """Return the job with options filled in for its algorithm. Raises SpecError."""
    MODELS[spec.model.family].check_given(facts.design, spec.model, spec.sampler.algorithm)
    spec = in_rows(facts.design.schema, spec)
    if spec.sampler.algorithm in RELEASES:
        return _release(facts, spec, RELEASES[spec.sampler.algorithm])
    chains_know(spec.model.family)
    assumptions = facts.assumptions(spec)
    tries = [_begun(assumptions, spec, chains) for chains in _chain_counts(spec)]
    enough = [
        t
        for t in tries[1:]
        if t[1] >= MIN_ESS_SHARE_OF_TWO_CHAINS * tries[0][1] and t[1] >= MIN_ESS_OF_TWO_CHAINS
    ]
    filled, draws = enough[-1] if enough else tries[0]
    ess = draws + ARVIZ_FLOOR
    width = _width(assumptions, spec, filled, ess)
    return Filled(filled, ess, width=width, error=max(draws, 1.0) ** -0.5)


def of_few_rows(schema: Schema, algorithm: str) -> str:
    """Return why an algorithm's draws are not trustworthy for so few rows, or "".

    Of few rows a chain stays where it began, and the posterior is far from normal.
    """
    release = RELEASES.get(algorithm)
    if schema.units >= FEWEST_ROWS or (release is not None and release.few_rows):
        return ""
    counted = "rows" if schema.unit == ROW else "persons"
    return (
        f"{algorithm} draws no posterior of fewer than {FEWEST_ROWS} {counted}: its intervals would"
        " be narrower than without privacy; the algorithm that the planner chooses knows that"
        " rows are few"
    )


def of_full_data(options: object) -> bool:
    """Return whether the sampler reads all rows, so that a Gaussian DP budget suffices."""
    return not hasattr(options, "batch")


def unit_rows_of(schema: Schema, spec: JobSpec) -> int:
    """Return the factor of a job's sensitivity for units of several rows.

    Raises SpecError where nothing is known of it.
    """
    rows = schema.unit_rows
    if rows == 1:
        return 1
    if not of_full_data(spec.sampler):
        known = "noisy_quadratic, dp_penalty and dp_hmc read all rows"
        message = f"draws rows at random, and a person may have several here: {known}"
        raise SpecError("/sampler/algorithm", message)
    release = RELEASES.get(spec.sampler.algorithm)
    return 1 if release is not None and release.by_units else rows


def in_rows(schema: Schema, spec: JobSpec) -> JobSpec:
    """Return the job with its unit's epsilon converted to one of single rows.

    Noise is planned and drawn for single rows. It costs more for units: events.of_units.
    """
    rows = unit_rows_of(schema, spec)
    if rows == 1 or spec.privacy.most is None:
        return spec
    mu = accountant.mu_of_epsilon(spec.privacy.most, spec.privacy.delta)
    one_row = Gaussian(rows * ROUND_UP / mu)
    epsilon = accountant.epsilon(one_row, spec.privacy.delta)
    return replace(spec, privacy=replace(spec.privacy, epsilon=epsilon / ROUND_UP))


def promised(facts: PublicFacts, spec: JobSpec, filled: Filled) -> float:
    """Return the expected effective draws that the plan states: see planner.plan.

    A chain moves as it was planned, for effects of usual size, and is held against the posterior of
    large ones. spec: as the caller left it.
    """
    if filled.spec.sampler.algorithm in RELEASES or math.isnan(filled.ess):
        return filled.ess
    known = facts.assumptions(in_rows(facts.design.schema, spec))
    usual = draws_of(filled.spec, known)
    large = draws_of(filled.spec, replace(known, guess=facts.guess_of_large))
    return (filled.ess - ARVIZ_FLOOR) * min(1.0, large / usual) + ARVIZ_FLOOR


def draws_of(spec: JobSpec, assumptions: Assumptions) -> float:
    """Return the effective draws per step of a filled job, after warm-up."""
    mixing, z = SAMPLERS[spec.sampler.algorithm].mixing, spec.privacy.noise_multiplier or 0.0
    return mixing.expectation(spec.sampler, assumptions, z).draws


def _width(assumptions: Assumptions, spec: JobSpec, filled: JobSpec, ess: float) -> float | None:
    """Return the expected width of intervals, Monte Carlo error included, over the posterior's.

    None where the chain is too short to say, or rows are cut, so that it targets another posterior.
    """
    options: Any = filled.sampler
    mixing, z = SAMPLERS[options.algorithm].mixing, filled.privacy.noise_multiplier or 0.0
    clips = spec.model.options.ratio_slope is not None or asked_to_cut(spec.sampler)
    if not ess >= RELIABLE_ESS or clips or mixing.clips_ratios(options, assumptions, z):
        return None
    return math.sqrt(1.0 + 1.0 / ess)


def asked_to_cut(options: Any) -> bool:
    """Return whether the caller asked for rows to be clipped."""
    return options.clip_bound is not None or getattr(options, "clip_width", None) is not None


def suits(release: Release[Any, Any, Any], family: str) -> None:
    """Refuse a release that does not support the family. Raises SpecError."""
    if family not in release.families:
        known = ", ".join(sorted(release.families))
        raise SpecError("/sampler/algorithm", f"{release.name} is for {known}")


def chains_know(family: str) -> None:
    """Refuse a family that no chain samples, naming the algorithm that does."""
    if not MODELS[family].chains:
        known = ", ".join(name for name, release in RELEASES.items() if family in release.families)
        raise SpecError("/sampler/algorithm", f"no chain samples {family}; {known} does")


def _release(known: PublicFacts, spec: JobSpec, release: Release[Any, Any, Any]) -> Filled:
    """Return the job with options filled in for a release."""
    suits(release, spec.model.family)
    facts = known.of(replace(spec, model=release.model(spec.model))).of_release
    z, known_rows = whole_multiplier(spec), facts.assumptions.rows
    options: Any = spec.sampler
    if isinstance(spec.privacy.epsilon, UpTo):
        options = replace(options, rounds=options.rounds or ANY_ROUNDS)
    options = release.settle(options, facts, z)
    options = replace(
        options,
        num_steps=options.num_steps or NUM_DRAWS,
        num_chains=options.num_chains or NUM_CHAINS,
        num_warmup=options.num_warmup or 0,
    )
    wide = release.sd_inflation(options, facts, z)
    poor = release.poor is not None and release.poor(options, facts, z)
    noisier, rougher = (1.0, 1.0) if release.misfit is None else release.misfit(options, facts, z)
    privacy = replace(spec.privacy, epsilon=None, noise_multiplier=z)
    draws = options.num_chains * (options.num_steps - options.num_warmup)
    family = MODELS[spec.model.family].rows(spec.model.options)
    quadratic = release.exact or (family is not None and family.quadratic)
    bent = 0.0 if quadratic else NORMAL_APPROXIMATION_ERROR * len(facts.prior) / known_rows
    return Filled(
        replace(spec, sampler=options, privacy=privacy),
        float(draws),
        float(np.mean(wide)) * noisier,
        float(np.median(wide)) * noisier * rougher,
        poor,
        math.sqrt(float(np.mean(wide**2)) - 1.0 + bent + 1.0 / draws),
        modelled=float(np.mean(wide)),
    )


def whole_multiplier(spec: JobSpec) -> float:
    """Return the noise multiplier of a release that spends the whole budget."""
    return spec.privacy.noise_multiplier or max(_whole_budget(spec), LEAST_MULTIPLIER)


def _whole_budget(spec: JobSpec) -> float:
    """Return the noise multiplier of one Gaussian event that costs the whole budget."""
    mu = accountant.mu_of_epsilon(spec.privacy.most or 0.0, spec.privacy.delta)
    return ROUND_UP / mu


def _chain_counts(spec: JobSpec) -> tuple[int, ...]:
    """Return the numbers of chains to compare: one, unless the caller asks for more."""
    if spec.sampler.num_chains is not None:
        return (spec.sampler.num_chains,)
    return (1,) if spec.privacy.epsilon is None else (1, 2)


def _batched(assumptions: Assumptions, spec: JobSpec, chains: int) -> Any:
    """Return options with the batch size of nearly the most effective draws.

    While batches hide rows it is the smallest of those, which reads fewest. With so much budget
    that nothing needs to be hidden it is the largest: all rows together need the least noise, and
    the guess is poorest where bounds are wide.
    """
    options: Any = replace(spec.sampler, num_chains=chains)
    mu, rows = assumptions.mu, assumptions.rows
    if mu is None or getattr(options, "batch", rows) is not None:
        return spec.sampler
    mixing = SAMPLERS[options.algorithm].mixing
    usual = mixing.settle(options, assumptions).batch
    tried, hidden = [], False
    for batch in (usual, *(rows // part for part in BATCH_DIVISORS if rows // part > usual)):
        some = mixing.settle(replace(options, batch=batch), assumptions)
        steps = some.num_steps or _steps(mixing, some, assumptions, mu)
        hidden |= math.sqrt(steps * chains) / mu > WEAK_NOISE_MULTIPLIER
        z = _guessed_multiplier(batch / rows, steps * chains, mu)
        expected = mixing.expectation(replace(some, num_steps=steps), assumptions, z)
        tried.append((steps * expected.draws, batch))
    best = max(draws for draws, _ in tried)
    near = [batch for draws, batch in tried if draws >= NEAR_BEST_SHARE * best]
    return replace(spec.sampler, batch=min(near) if hidden else max(near))


def _guessed_multiplier(part: float, count: int, mu: float) -> float:
    """Return about the noise multiplier at which `count` subsampled releases cost mu.

    It is within a hundredth of a calibrated one while batches hide rows, and takes no search.
    """
    full = math.sqrt(count) / mu
    return max(part * full, min(full, WEAK_NOISE_MULTIPLIER))


def _begun(assumptions: Assumptions, spec: JobSpec, chains: int) -> tuple[JobSpec, float]:
    """Return the job with the start that gives the most expected effective draws.

    Only starts count that promise to find the posterior; where none does it is the one that costs
    most.
    """
    options: Any = _batched(assumptions, spec, chains)
    spec, mu, known = replace(spec, sampler=options), assumptions.mu, assumptions.beginning
    open_ = mu is not None and known is not None and options.start is None
    shares = SAMPLERS[options.algorithm].mixing.shares(options, mu or 0.0) if open_ else ()
    if mu is None or known is None or not shares:
        return _chain(assumptions, spec, chains)
    safe = [share for share in shares if not known.poor(1.0 / (mu * math.sqrt(share)))]
    starts = [Start(share=share) for share in safe or shares[-1:]]
    if assumptions.guess.known:  # then a walk may do without
        starts.insert(0, Start(share=0.0))
    tries = [replace(spec, sampler=replace(options, start=start)) for start in starts]
    guess = getattr(options, "batch", None) is not None and len(tries) > 1  # a search takes long
    resolved = [_chain(assumptions, some, chains, guess=guess) for some in tries]
    best = max(range(len(resolved)), key=lambda k: resolved[k][1])
    return _chain(assumptions, tries[best], chains) if guess else resolved[best]


def _chain(
    assumptions: Assumptions, spec: JobSpec, chains: int, *, guess: bool = False
) -> tuple[JobSpec, float]:
    """Return the job for this number of chains, and its expected effective draws.

    guess: whether the noise multiplier of batches is to be guessed, and not searched for.
    """
    mixing, rows = SAMPLERS[spec.sampler.algorithm].mixing, assumptions.rows
    sampler: Any = replace(spec.sampler, num_chains=chains)
    options: Any = mixing.settle(sampler, assumptions)
    epsilon, delta = spec.privacy.most, spec.privacy.delta

    def at_budget(some: Any) -> tuple[float, Expectation]:
        """Return noise multiplier and expectation of options at the budget."""
        declared = spec.privacy.noise_multiplier
        if guess and not declared:
            count, chain_budget = some.num_steps * some.num_chains, chain_mu(some.start, mu)
            z = _guessed_multiplier(some.batch / rows, count, chain_budget)
        else:
            z = declared or mixing.noise_multiplier(some, rows, epsilon or 0.0, delta)
        return z, mixing.expectation(some, assumptions, z)

    mu, open_ = assumptions.mu or 0.0, options.num_steps is None
    if open_:
        options = replace(options, num_steps=_steps(mixing, options, assumptions, mu))
    z, expected = at_budget(options)
    if (
        open_
        and expected.fitting
        and (fewer := _steps(mixing, expected.options, assumptions, mu)) < options.num_steps
    ):
        options = replace(options, num_steps=fewer)  # fitted moves read more columns
        z, expected = at_budget(options)
    options, steps = expected.options, options.num_steps
    walk = expected.walk if options.start else max(expected.walk, steps // LARGEST_WARMUP_DIVISOR)
    walk = max(walk, expected.fitting)
    if options.num_warmup is None:
        options = replace(options, num_warmup=min(walk, steps // 2))
    ess = chains * expected.draws * max(0, steps - max(walk, options.num_warmup))
    privacy = replace(spec.privacy, epsilon=None, noise_multiplier=z)
    return replace(spec, sampler=options, privacy=privacy), ess


def _steps(mixing: MixingModel, options: Any, assumptions: Assumptions, mu: float) -> int:
    """Return the steps of a chain where only the budget is given, limited by run time."""
    chains, rows, dimension = options.num_chains, assumptions.rows, len(assumptions.guess.width)
    each = step_seconds(rows, mixing.columns(options, rows, dimension), chains)
    draws = max(
        MIN_DRAW_LIMIT,
        min(MAX_DRAWS_PER_COEFFICIENT * dimension, MAX_NUMBERS_OF_DRAWS // dimension),
    )
    affordable = min(draws / chains, TARGET_SECONDS / each)
    return int(max(FEWEST_STEPS, min(mixing.steps(options, assumptions, mu, chains), affordable)))


def seconds(design: Design, spec: JobSpec) -> float:
    """Return about the run time of a filled job in seconds."""
    rows = design.schema.rows
    names = MODELS[spec.model.family].parameters(design, spec.model)
    d = len(names)
    options: Any = spec.sampler
    steps, chains = options.num_steps or 1, options.num_chains or 1
    release = RELEASES.get(options.algorithm)
    if release is not None:
        # each class has a pass of its own
        d -= 0 if design.grouping is None else len(design.grouping.effects)  # a row has one or two
        classes = cuts.count(design, names) or max(1, d // len(design.parameters))
        return step_seconds(rows, d, 1) * release.passes(options, d) * classes
    columns = SAMPLERS[options.algorithm].mixing.columns(options, rows, d)
    before = step_seconds(rows, d, 1) * passes(options.start, d)
    return before + step_seconds(rows, columns, chains) * steps


def step_seconds(rows: int, columns: float, chains: int) -> float:
    """Return about the seconds per step of all chains that read `columns` columns."""
    return STEP_SECONDS + chains * rows * (ROW_SECONDS + columns * CELL_SECONDS)


def smallest_epsilon(
    facts: PublicFacts, spec: JobSpec, enough: Callable[[Filled], bool], above: float
) -> float | None:
    """Return about the smallest epsilon above `above` where enough(job) holds, within 2 %.

    It is rounded up to three digits, so that what is printed is enough. None where no epsilon up to
    HIGHEST_EPSILON is. enough must be monotone. An epsilon that does not pay for what the job
    fixes, such as the noise of its gradients or of its start, is too small.
    """
    low = high = above

    def holds(epsilon: float) -> bool:
        """Return whether the job filled in at this epsilon is enough."""
        privacy = replace(spec.privacy, epsilon=epsilon, noise_multiplier=None)
        try:
            return enough(fill(facts, replace(spec, privacy=privacy)))
        except SpecError:
            return False

    while not holds(high):
        low, high = high, 2.0 * high
        if high > HIGHEST_EPSILON:
            return None
    while high / low > WITHIN:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    digit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return float(f"{math.ceil(high / digit) * digit:.3g}")
