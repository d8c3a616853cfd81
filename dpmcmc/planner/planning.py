"""Plans of jobs: from public facts and a budget to cost, options and expected quality.

Pure: nothing here sees a row. experiments/ess_per_step.py measures what a budget buys and
the constants used here.
"""

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpmcmc.base.digits import LINE
from dpmcmc.base.errors import SpecError
from dpmcmc.base.floating import own_errors
from dpmcmc.base.plain import plain
from dpmcmc.base.private import Neighbouring
from dpmcmc.families import MODELS
from dpmcmc.families.priors import in_design
from dpmcmc.formula.arithmetic import LEFT
from dpmcmc.formula.columns import Floats
from dpmcmc.formula.design import POINTER, Design, make_design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.options import AutoOptions, NoisyQuadraticOptions
from dpmcmc.inputs.schema import NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec, UpTo
from dpmcmc.planner.checks import check_length, check_size, check_spec
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.resolve import (
    RELIABLE_ESS,
    Filled,
    chains_know,
    fill,
    in_rows,
    of_few_rows,
    of_full_data,
    promised,
    seconds,
    smallest_epsilon,
    suits,
    unit_rows_of,
    whole_multiplier,
)
from dpmcmc.planner.select import choose, named
from dpmcmc.planner.warn import warnings
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import (
    Event,
    Gaussian,
    Parallel,
    WithoutReplacement,
    of_units,
)
from dpmcmc.privacy.pld import leaves
from dpmcmc.privacy.promises import check_delta
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER
from dpmcmc.releases import RELEASES
from dpmcmc.releases.design_rows import is_held
from dpmcmc.releases.newton_path import round_multipliers
from dpmcmc.releases.reuse import Earlier, reused
from dpmcmc.samplers.algorithms import ALGORITHMS

HOLDS_ROWS = "all {rows:,} rows are held in memory while it runs"

# Columns of a design that depend on one another in every row that the schema allows.
#
# No data tell their coefficients apart, so such a formula is refused before it costs anything. It
# is looked at on public points that are always the same. Columns that only the rows at hand make
# agree cannot be seen without them: their coefficients keep the prior along the direction that is
# not told.
POINTS, EACH = 2048, 64  # rows that are looked at: at least, and for each column
RESIDUAL_TOLERANCE = 1e-11  # of a column's length, once what others explain is taken off: rounding
MIN_EIGENVALUE = 1e-9  # smallest eigenvalue of correlations, above which no column is near that
MAX_NEGATIVE_EXPONENT = 16.0  # minus the power of 10 of the distance to an end of a number's bounds
SPLITMIX_CONSTANTS = tuple(
    map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
)


def check_pair(design: Design, model: ModelSpec) -> None:
    """Refuse a response of two columns where the family takes one, and vice versa."""
    known = MODELS[model.family]
    if design.kind == known.pair:
        return
    if known.pair:
        wanted = LEFT["trials" if known.pair == "trials" else "surv"]
        raise SpecError(POINTER, f"{model.family} needs {wanted} on the left side of ~")
    names = ", ".join(name for name, other in MODELS.items() if other.pair == design.kind)
    raise SpecError(POINTER, f"{model.family} has one column as its response: take {names}")


@lru_cache(maxsize=256)  # the same question is planned at one budget after the other
def check_dependence(design: Design) -> None:
    """Refuse columns that are linearly dependent for every possible row. Raises SpecError."""
    if design.answer is None:
        return
    x = _points(design)
    lengths = np.sqrt((x**2).sum(axis=1))
    nonzero = np.flatnonzero(lengths > 0.0)
    x = x[nonzero] / lengths[nonzero, None]
    if len(x) == 0 or np.linalg.eigvalsh(x @ x.T)[0] > MIN_EIGENVALUE:
        return
    root: Floats = np.asarray(np.linalg.qr(x.T, mode="r"), dtype=np.float64)
    dependent = np.flatnonzero(np.abs(np.diag(root)) < RESIDUAL_TOLERANCE)
    if len(dependent) == 0:
        return
    last = int(dependent[0])
    weights = np.abs(np.linalg.solve(root[:last, :last], root[:last, last]))
    others = [nonzero[k] for k in np.flatnonzero(weights > 1e-6 * weights.max())]
    raise SpecError(POINTER, _why(design, int(nonzero[last]), [int(k) for k in others]))


def _why(design: Design, column: int, others: list[int]) -> str:
    """Return in words which columns are dependent, and the remedy."""
    names = [repr(design.parameters[k]) for k in others]
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{design.parameters[column]!r} follows from {listed} in every row that there could be, so"
        " nothing tells them apart; leave one of these terms out"
    )


def _points(design: Design) -> Floats:
    """Return the design (d, m) at quasi-random points of the declared domain and at its ends.

    Functions may be steep there, and flat everywhere else.
    """
    count = max(POINTS, EACH * len(design.parameters))
    columns = {}
    for k, name in enumerate(design.covariates):
        column = column_of(design.schema, name)
        near, far, inner, side = (_scattered(count, 4 * k + part) for part in range(4))
        if isinstance(column, NumberColumn):
            part = inner * np.where(near < 0.5, 10.0 ** (-MAX_NEGATIVE_EXPONENT * far), 1.0)
            part = np.where(side < 0.5, part, 1.0 - part)
            columns[name] = column.lower * (1.0 - part) + column.upper * part
        else:
            columns[name] = (inner * len(column.categories)).astype(np.int32)
    table = Table(columns=columns, rows=count)
    with np.errstate(all="ignore"):
        return replace(design, answer=None).build(table)[0]


def _scattered(count: int, stream: int) -> Floats:
    """Return quasi-random numbers in [0, 1), the same at each call.

    Source: Steele, Lea and Flood 2014, SplitMix.
    """
    z = (
        np.arange(count, dtype=np.uint64) + np.uint64(stream << 32) + np.uint64(1)
    ) * SPLITMIX_CONSTANTS[0]
    z = (z ^ (z >> np.uint64(30))) * SPLITMIX_CONSTANTS[1]
    z = (z ^ (z >> np.uint64(27))) * SPLITMIX_CONSTANTS[2]
    return np.asarray(((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53, np.float64)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a job under the dataset's neighbouring relation. mu: of Gaussian DP, or None."""

    epsilon: float
    delta: float
    mu: float | None


@dataclass(frozen=True, slots=True)
class BasePlan(ABC):
    """The plan of a job of any kind. spec: the job with every option filled in.

    The last fields hold of chains, and say nothing of what has none.
    """

    spec: Any
    event: Event
    cost: Cost
    noise_multiplier: float
    num_steps: int
    num_chains: int
    num_warmup: int
    expected_ess: float | None
    expected_width: float | None
    usable: bool
    warnings: tuple[str, ...]
    reasons: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    @abstractmethod
    def algorithm(self) -> str:
        """Name of the algorithm."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(BasePlan):
    """A complete job. spec: the job with every option filled in.

    expected_ess, expected_width, usable, reasons: see `plan`. covariates: columns of the formula.
    rounds: of a job that goes on until its result is reliable, the epsilon that is paid after each
    of its rounds if it ends there; the last is `cost`. streams: whether a run reads rows anew at
    every pass, as they are many and it can.
    """

    spec: JobSpec
    covariates: tuple[str, ...]
    rounds: tuple[float, ...] = ()
    streams: bool = False

    @property
    def algorithm(self) -> str:
        """Name of the sampler or release."""
        return self.spec.sampler.algorithm

    def __str__(self) -> str:
        """Return the job, its cost and what is expected of it, in words."""
        model, rounds = self.spec.model, f"{self.rounds[0]:.4g} to " if self.rounds else ""
        expected = []
        if self.expected_width is not None:
            expected.append(f"intervals {self.expected_width:.3g} times as wide as without privacy")
        if self.expected_ess is not None:
            expected.append(f"{self.expected_ess:,.0f} effective draws")
        useful = "usable" if self.usable else "too little to be usable"
        lines = [
            f"plan of {model.formula}: {model.family.replace('_', ' ')}, by {self.algorithm}",
            f"costs epsilon {rounds}{self.cost.epsilon:.4g} at delta {self.cost.delta:g}",
            f"expected: {', '.join([*expected, useful])}",
            *(f"warning: {warning}" for warning in self.warnings),
            *(f"because: {reason}" for reason in self.reasons),
        ]
        return "\n".join(textwrap.fill(line, LINE, subsequent_indent="  ") for line in lines)

    __repr__ = __str__


def event(schema: Schema, spec: JobSpec) -> Event:
    """Return the event of a resolved job: all its accesses to the data, which it pays for.

    Where the schema has a privacy unit, the event is on units. Raises SpecError where the job is
    open.
    """
    schema = spec.privacy.schema(schema)
    return of_units(noise_event(schema, spec), unit_rows_of(schema, spec))


def noise_event(schema: Schema, spec: JobSpec) -> Event:
    """Return the event of a resolved job with the noise multipliers that its noise is drawn with.

    They are over what one row can change. Raises SpecError where the job is open.
    """
    check_spec(schema, spec)
    if schema.neighbouring is not Neighbouring.REPLACE_ONE:
        raise SpecError("/sampler/algorithm", "this sampler needs replace_one neighbours")
    if spec.privacy.noise_multiplier is None:
        raise SpecError("/privacy/noise_multiplier", "is not resolved")
    if spec.sampler.num_steps is None or spec.sampler.num_chains is None:
        raise SpecError("/sampler", "is not resolved")
    if spec.sampler.algorithm not in ALGORITHMS:
        raise SpecError("/sampler/algorithm", "is not resolved")
    if spec.sampler.algorithm in RELEASES:
        suits(RELEASES[spec.sampler.algorithm], spec.model.family)
    else:
        chains_know(spec.model.family)
    algorithm = ALGORITHMS[spec.sampler.algorithm]
    job_event = algorithm.event(spec.sampler, spec.privacy.noise_multiplier, schema.rows)
    _check_noise(job_event)
    return job_event


def _check_noise(job_event: Event) -> None:
    """Refuse noise multipliers outside the range for which noise can be drawn."""
    apart = job_event.events if isinstance(job_event, Parallel) else (job_event,)  # by data holder
    # other parallel parts are no noise that is known
    for leaf in [leaf for part in apart for leaf in leaves(part) or (part,)]:
        base = leaf.event if isinstance(leaf, WithoutReplacement) else leaf
        z = base.noise_multiplier if isinstance(base, Gaussian) else math.nan
        if not LEAST_MULTIPLIER <= z <= MOST_MULTIPLIER:
            limits = f"it must be between {LEAST_MULTIPLIER:.3g} and {MOST_MULTIPLIER:.3g}"
            message = f"leads to a release with a noise multiplier of {z:.3g}: {limits}"
            raise SpecError("/privacy", message)


def cost_of(job_event: Event, delta: float) -> Cost:
    """Return the cost of an event, rounded up."""
    mu = accountant.gdp_mu(job_event)
    return Cost(accountant.epsilon(job_event, delta), delta, mu if math.isfinite(mu) else None)


def _check_cost(cost: Cost) -> None:
    """Refuse a job whose cost rounds to epsilon 0."""
    if not cost.epsilon > 0.0:
        message = f"the job costs epsilon 0 at delta {cost.delta:g}: ask for less noise"
        raise SpecError("/privacy/noise_multiplier", message)


@own_errors
def plan(
    schema: Schema, spec: JobSpec, *, advise: bool = True, earlier: Sequence[Earlier] = ()
) -> Plan:
    """Return the complete job: options, cost and expected quality. Reads no row.

    `expected_ess` is the bulk effective sample size that ArviZ is expected to report after warm-up,
    all chains together, averaged over the parameters; None where nothing is known of how a sampler
    mixes. It is stated for rows that nobody has seen: numbers vary by .4 of half their range, as
    those of public data do (experiments/ess_per_step.py), and effects are large: logistic
    coefficients of such columns have an sd of 1.75, and a linear response a residual sd of a
    sixteenth of its declared range. On twenty designs with large effects and related columns runs
    of dp_penalty and dp_hmc had at least half of it (39 of 40; experiments/large_effects.py). Small
    effects have several times as much. Where fewer than some 5 % of rows have an answer a chain has
    far fewer (of 2 %, a third of it and less): its verdict says so, and no public fact does. Where
    numbers crowd a small part of their bounds the chain gives several times fewer draws;
    `warnings` says how many where that matters. Draws of a release are independent and count in
    full. ArviZ counts some three draws more than there are where there are few.

    `expected_width` is the sd of the draws over that of the posterior given the rows, median
    coefficient; for a chain with the error of its means. It is None for a chain that is too short
    or clips rows. `usable` says whether a result is expected that its own verdict calls reliable
    where effects are of usual size, or of a release one no wider than resolve.MAX_WIDTH_RATIO.

    Parameters
    ----------
    schema
        Declared columns and number of rows.
    spec
        The job; the planner chooses what is left open.
    advise
        Whether to work out the warnings, which takes longer than all the rest.
    earlier
        Releases of the same dataset that paid for a whitening.

    Returns
    -------
    Plan
        The resolved job, its cost and expected quality, `warnings`, and `reasons`: why the
        planner chose the algorithm, and which whitening is used again.

    Raises
    ------
    SpecError
        If the job is not possible; the message names the field and the remedy.

    Examples
    --------
    >>> model = ModelSpec(family="logistic", formula="cured ~ dose")
    >>> job = JobSpec(model=model, privacy=PrivacySpec(epsilon=1, delta=1e-6))
    >>> plan(schema, job).expected_width
    """
    spec = plain(spec)
    check_spec(schema, spec)
    schema = spec.privacy.schema(schema)
    check_delta("/privacy/delta", spec.privacy.delta, schema.units, schema.unit)
    design = make_design(schema, spec.model.formula)
    family = MODELS[spec.model.family]
    check_pair(design, spec.model)
    if isinstance(spec.model.prior, dict):
        names = family.parameters(design, spec.model)
        spec = replace(spec, model=in_design(design, spec.model, names))
    family.check(design, spec.model)
    check_dependence(design)
    spec = replace(spec, model=family.resolved(design, spec.model))
    check_length(design, spec)  # what was asked for, before anything is costed
    if isinstance(spec.privacy.epsilon, UpTo):
        spec = _that_goes_on(spec)
    spec, again = reused(design, spec, earlier, whole_multiplier(in_rows(schema, spec)))
    facts = PublicFacts(design, spec)
    filled, reasons = _filled(facts, spec)
    if again and getattr(filled.spec.sampler, "whitening", None) is not None:
        reasons = (*reasons, again)
    if isinstance(spec.sampler, AutoOptions):
        spec = named(spec, filled.spec.sampler.algorithm)
    resolved = filled.spec
    check_size(design, resolved)
    job_event = event(schema, resolved)
    cost = cost_of(job_event, spec.privacy.delta)
    _check_cost(cost)
    goes_on = getattr(resolved.sampler, "rounds", None) is not None and resolved.spend != "all"
    rounds = _costs_of_rounds(schema, resolved) if goes_on else ()
    if goes_on:
        reasons = (*reasons, _of_rounds(rounds))
    many = not is_held(design.schema.rows, len(design.parameters))
    release = RELEASES.get(resolved.sampler.algorithm)
    streams = many and release is not None and release.streams
    if many and not streams:
        reasons = (*reasons, HOLDS_ROWS.format(rows=schema.rows))
    few = of_few_rows(schema, resolved.sampler.algorithm)
    advice = warnings(facts, spec, filled, cost.epsilon) if advise else ()
    return Plan(
        spec=resolved,
        event=job_event,
        cost=cost,
        noise_multiplier=resolved.privacy.noise_multiplier or math.nan,
        num_steps=resolved.sampler.num_steps or 0,
        num_chains=resolved.sampler.num_chains or 0,
        num_warmup=resolved.sampler.num_warmup or 0,
        expected_ess=None if math.isnan(filled.ess) else promised(facts, spec, filled),
        expected_width=filled.width,
        usable=filled.usable and not few,
        warnings=(few, *advice) if few else advice,
        reasons=reasons,
        parameters=family.parameters(design, spec.model),
        covariates=tuple(design.covariates),
        rounds=rounds,
        streams=streams,
    )


def _that_goes_on(spec: JobSpec) -> JobSpec:
    """Return the job with an algorithm that can spend in rounds until it is reliable.

    Raises SpecError where there is none for it.
    """
    known = [name for name, release in RELEASES.items() if release.in_rounds is not None]
    if isinstance(spec.sampler, AutoOptions):
        suited = [name for name in known if spec.model.family in RELEASES[name].families]
        if suited:
            return named(spec, suited[0])
    elif spec.sampler.algorithm in known:
        return spec
    message = f"is for {', '.join(known)} alone, and its families: give epsilon as a number"
    raise SpecError("/privacy/epsilon/until", message)


def _costs_of_rounds(schema: Schema, spec: JobSpec) -> tuple[float, ...]:
    """Return the cumulative epsilon of a resolved job after each of its rounds."""
    options: Any = spec.sampler
    multipliers = round_multipliers(spec.privacy.noise_multiplier or math.nan, options.rounds)
    costs, spent = [], 0.0
    for k, z in enumerate(multipliers):
        spent += z**-2.0
        privacy = replace(spec.privacy, noise_multiplier=spent**-0.5)
        some = replace(spec, sampler=replace(options, rounds=k + 1), privacy=privacy)
        costs.append(cost_of(event(schema, some), spec.privacy.delta).epsilon)
    return tuple(costs)


def _of_rounds(rounds: Sequence[float]) -> str:
    """Return in words what a job in rounds pays after each round."""
    if len(rounds) == 1:
        return "this budget is too small to be spent in parts: all of it is one round"
    *some, last = [f"{epsilon:.3g}" for epsilon in rounds]
    return (
        f"it pays epsilon {some[0]} first, and goes on to"
        f" {', '.join([*some[1:], last])} while its result is unreliable and more may mend it; what"
        " it did not draw is returned"
    )


def check_rows(schema: Schema, made: BasePlan) -> None:
    """Refuse a job whose draws are not trustworthy for so few rows. Raises SpecError.

    Asked before a job is paid for, whatever quality its caller accepts.
    """
    few = of_few_rows(schema, made.algorithm) if isinstance(made, Plan) else ""
    if few:
        raise SpecError("/dataset", few)


@own_errors
def shortfall(schema: Schema, made: Plan, spec: JobSpec) -> tuple[str, float | None]:
    """Return the expected quality of an unusable plan, and an epsilon that would suffice.

    made: the plan. spec: the job as the caller left it. None where no epsilon is known.
    """
    width = "" if made.expected_width is None else f", {made.expected_width:.3g} times as wide"
    ess = made.expected_ess
    draws = "Nobody knows how many" if ess is None else f"Expected are {ess:.3g}"
    expected = (
        f"The rows are expected not to stand out of the noise{width}."
        if made.algorithm in RELEASES
        else f"{draws} effective draws; {RELIABLE_ESS:g} are wanted."
    )
    try:
        return expected, _usable_at(schema, made, spec)
    except (ValueError, OverflowError):
        return expected, None


def _usable_at(schema: Schema, made: Plan, spec: JobSpec) -> float | None:
    """Return about the smallest epsilon at which an unusable job becomes usable.

    made: its plan. spec: as the caller left it. None where none up to HIGHEST_EPSILON is, or where
    a sampler on secret minibatches would take too long to plan so often. Raises SpecError.
    """
    if not of_full_data(made.spec.sampler):
        return None
    if isinstance(spec.sampler, AutoOptions):
        spec = named(spec, made.spec.sampler.algorithm)
    if isinstance(made.spec.sampler, NoisyQuadraticOptions):
        options: Any = spec.sampler
        spec = replace(spec, sampler=replace(options, whitening=made.spec.sampler.whitening))
    facts = PublicFacts(make_design(schema, spec.model.formula), spec)
    above = max(made.cost.epsilon, 1e-3)
    return smallest_epsilon(facts, spec, lambda other: other.usable, above)


def expected_seconds(schema: Schema, spec: JobSpec) -> float:
    """Return about the run time of a resolved job in seconds, above 0. Raises SpecError."""
    return seconds(make_design(schema, spec.model.formula), spec)


def _filled(facts: PublicFacts, spec: JobSpec) -> tuple[Filled, tuple[str, ...]]:
    """Return the job with options filled in, and the reasons of the choices."""
    if isinstance(spec.sampler, AutoOptions):
        return choose(facts, spec)
    return fill(facts, spec), ()
