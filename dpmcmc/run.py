"""Runs a planned job on private rows and hands back released draws, block by block."""

import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import Design, make_design
from dpmcmc.diagnostics import ParameterSummary, summarise
from dpmcmc.errors import SpecError
from dpmcmc.models import MODELS
from dpmcmc.planner import Cost, Plan, event, plan
from dpmcmc.privacy.events import digest
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.types import Permit, PermitError, Private, Released
from dpmcmc.releases import ALGORITHMS, RELEASES, AlgorithmOptions, AutoOptions
from dpmcmc.releases.base import Stored
from dpmcmc.releases.whitening import Whitening
from dpmcmc.reuse import POINTER, Earlier, checked
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.minibatch import SCATTERED
from dpmcmc.schema import NumberColumn, Schema, Table
from dpmcmc.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.starting import begun
from dpmcmc.stored import StoredRelease
from dpmcmc.units import SCALES, Scale, in_units
from dpmcmc.verdicts import Verdict, of_chain, of_release

if TYPE_CHECKING:
    import xarray

BLOCKS = 25
WHOLE = 2**18  # numbers of a release's draws, which take no time, that are one block
BLOCK_SECONDS, LEAST_SECONDS = 0.5, 0.1
ROW_SECONDS = 4e-9  # one row of one chain, one column, on a slow core
STEP_SECONDS = 1e-4
SHOWN = 20  # parameters in a representation


class Run(Iterator[Released[NDArray[np.float64]]]):
    """A job under way: its blocks of draws, one by one."""

    def __init__(
        self,
        schema: Schema,
        spec: JobSpec,
        table: Table,
        random: RandomSource,
        white: Whitening | None,
    ) -> None:
        """See `run`, which pays."""
        self._kept: list[Stored] = []
        self._blocks = _blocks(schema, spec, table, random, self._kept.append, white)

    def __next__(self) -> Released[NDArray[np.float64]]:
        from dpmcmc.subnormals import flushed

        with flushed():
            return next(self._blocks)

    @property
    def stored(self) -> Stored | None:
        """What stays usable of a release, once a block is out; None where there was none."""
        return self._kept[-1] if self._kept else None


def run(
    schema: Schema,
    spec: JobSpec,
    rows: Private[Table],
    permit: Permit,
    *,
    random: RandomSource | None = None,
    whitening: Whitening | None = None,
) -> Run:
    """Return the draws of a resolved job in blocks (chain, block, parameter), warm-up included.

    The lengths of the blocks follow from public facts. Chains start at draws given a release that
    the job pays for, or at a public point, see the model's form; the first draw is the position
    after the first step.
    Privacy: event(schema, spec), paid for by `permit`.
    random: for tests only; a fresh SystemRandom otherwise. whitening: that the job uses again, for
    the columns of its own design.
    Raises PermitError before the rows are opened, where the permit is for another event or dataset;
    SpecError where the job is not resolved, or its whitening not at hand. Never raises on the rows.
    """
    if permit.event_digest != digest(event(schema, spec)):
        raise PermitError("the permit was made for another event")
    if getattr(spec.sampler, "paid", False):
        if whitening is None:
            raise SpecError(POINTER, "names a whitening that is not at hand")
        checked(whitening, len(make_design(schema, spec.model.formula).parameters))
    else:
        whitening = None  # the job pays for its own
    return Run(schema, spec, rows.open(permit), random or SystemRandom(), whitening)


def _blocks(
    schema: Schema,
    spec: JobSpec,
    table: Table,
    random: RandomSource,
    keep: Callable[[Stored], None],
    white: Whitening | None,
) -> Iterator[Released[NDArray[np.float64]]]:
    design = make_design(schema, spec.model.formula)
    if spec.sampler.algorithm in RELEASES:
        yield from _released(design, spec, table, random, keep, white)
        return
    sampler, options = SAMPLERS[spec.sampler.algorithm], spec.sampler
    if options.num_steps is None or options.num_chains is None:
        raise SpecError("/sampler", "is not resolved")
    model, found = MODELS[spec.model.family], None
    start = begun(design, spec, table, random)
    if start is not None:
        keep(start[0])
        found = start[1]
    target = model.target(design, spec, table, options.num_chains)
    del table  # the target has its own, in the kernels' order
    z = spec.privacy.noise_multiplier or 0.0
    state = sampler.start(target, options, z, random, found)
    left = options.num_steps
    read = rows_read(options, schema.rows)
    length = block_length(read, target.position.shape[1], options.num_chains, left)
    while left > 0:
        size = min(length, left)
        draws = sampler.advance(target, options, z, size, random, state)
        yield Released(model.release(design, spec, draws))
        left -= size


def _released(
    design: Design,
    spec: JobSpec,
    table: Table,
    random: RandomSource,
    keep: Callable[[Stored], None],
    white: Whitening | None,
) -> Iterator[Released[NDArray[np.float64]]]:
    """Yield independent draws from the posterior that one release of the rows leads to."""
    release, options = RELEASES[spec.sampler.algorithm], spec.sampler
    spec = replace(spec, model=release.model(spec.model))
    model, steps, chains = MODELS[spec.model.family], options.num_steps, options.num_chains
    if steps is None or chains is None:
        raise SpecError("/sampler", "is not resolved")
    if release.opened is not None:
        rows = release.opened(design, spec, table)
    else:
        rows = model.target(design, spec, table, 1)
    if white is not None:
        rows = replace(rows, white=white)
    z, form = spec.privacy.noise_multiplier or 0.0, model.form(design, spec)
    posterior = release.publish(rows, form.reach, options, z, random)
    if posterior.release is not None:
        keep(posterior.release)
    length = max(-(-steps // BLOCKS), WHOLE // (chains * len(form.start)))
    for first in range(0, steps, length):
        draws = posterior.draws(chains, min(length, steps - first), random)
        yield Released(model.release(design, spec, draws))


def rows_read(options: object, rows: int) -> int:
    """Return how many rows in order take as long as those that a step of one chain reads."""
    batch = getattr(options, "batch", None)
    return rows if batch is None else min(rows, int(SCATTERED * batch))


def block_length(rows: int, dimension: int, chains: int, steps: int) -> int:
    """Return the steps of a block: BLOCKS blocks a job, but none that is very short or long.

    rows: that each chain reads a step.
    """
    seconds = STEP_SECONDS + chains * rows * (1 + dimension) * ROW_SECONDS
    even = max(-(-steps // BLOCKS), int(LEAST_SECONDS / seconds))
    return max(1, min(even, int(BLOCK_SECONDS / seconds), steps))


@dataclass(frozen=True, slots=True)
class Result:
    """What a local run gave. Summaries and tables are in the units of the columns.

    draws: (chain, draw, parameter), warm-up included, of the standardised design as they were
    sampled; `on` has them on either scale. verdict: whether they may be believed. release: what
    stays usable for free, of a chain what it began from; None where there was none.
    """

    plan: Plan
    draws: NDArray[np.float64]
    verdict: Verdict
    design: Design
    release: StoredRelease | None = None

    def on(self, scale: Scale = "original") -> NDArray[np.float64]:
        """Return the draws (chain, draw, parameter), warm-up included, on this scale.

        original: coefficients per unit of a column, the intercept where all covariates are 0.
        design: those of columns centred and scaled by their declared bounds.
        """
        return in_units(self.design, self.plan.parameters, self.draws, scale)

    def summary(self, scale: Scale = "original", *, mixing: bool = True) -> list[ParameterSummary]:
        """Return moments, quantiles and diagnostics of the draws after warm-up.

        mixing: whether R-hat and effective sizes are wanted, which takes longer.
        """
        kept = self.on(scale)[:, self.plan.num_warmup :]
        return summarise(Released(kept), self.plan.parameters, mixing=mixing)

    def __str__(self) -> str:
        """Return the verdict, in colour on a terminal, and the posterior."""
        return self._told(sys.stdout.isatty())

    __repr__ = __str__

    def _told(self, colour: bool) -> str:
        cost = self.cost
        lines = [
            f"{self.plan.spec.sampler.algorithm}: {self.verdict.told(colour)}",
            *(f"note: {note.sentence}" for note in self.verdict.notes),
            f"cost: epsilon {cost.epsilon:.4g}, delta {cost.delta:g}",
        ]
        for row in self.summary(mixing=False)[:SHOWN]:
            interval = f"90 % from {row.q05:.4g} to {row.q95:.4g}"
            lines.append(f"  {row.name}: {row.mean:.4g} +- {row.sd:.2g}, {interval}")
        left = len(self.plan.parameters) - SHOWN
        return "\n".join([*lines, f"  and {left} more"] if left > 0 else lines)

    @property
    def cost(self) -> Cost:
        """What the run cost; whoever holds the rows keeps the account."""
        return self.plan.cost

    def to_xarray(self, scale: Scale = "original") -> "xarray.Dataset":
        """Return the draws after warm-up as `position`, with dims chain, draw, parameter."""
        import xarray

        kept = self.on(scale)[:, self.plan.num_warmup :]
        return xarray.Dataset(
            {"position": (("chain", "draw", "parameter"), kept)},
            coords={"parameter": list(self.plan.parameters)},
            attrs={"verdict": self.verdict.status, "verdict_sentence": self.verdict.sentence},
        )


def sample(
    data: Mapping[str, Sequence[object]],
    *,
    schema: Schema,
    model: ModelSpec,
    delta: float,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    sampler: AlgorithmOptions | str | None = None,
    whitening: StoredRelease | None = None,
    random: RandomSource | None = None,
) -> Result:
    """Plan and run a job on rows of your own: the service's path without the service.

    data: column name -> (rows,) numbers, or words among the declared categories. delta, and one of
    epsilon or noise_multiplier: see PrivacySpec. sampler: an algorithm's options, or its name, with
    everything left to the planner; where None the planner chooses, and says why in
    result.plan.reasons. whitening: an earlier release of the same columns of the same rows, whose
    coordinates are used again, so that all of the budget is left for the rest. The cost is the
    caller's to account for: every call spends it anew. random: for tests only.
    Raises SpecError on the job, ValueError where the data do not suit the schema.
    """
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    spec = JobSpec(model=model, sampler=_options(sampler), privacy=privacy)
    earlier: tuple[Earlier, ...] = ()
    if whitening is not None:
        spec, earlier = _with_whitening(spec, whitening)
    planned = plan(schema, spec, earlier=earlier)
    white = None
    if whitening is not None and getattr(planned.spec.sampler, "paid", False):
        white = whitening.whitening(make_design(schema, planned.spec.model.formula))
    subject = str(uuid.uuid4())
    rows = Private(table_of(schema, data), subject=subject)
    permit = Permit(subject=subject, event_digest=digest(planned.event))
    running = run(schema, planned.spec, rows, permit, random=random, whitening=white)
    draws = np.concatenate([block.value for block in running], axis=1)
    release = None
    if running.stored is not None:
        release = StoredRelease(schema, planned.spec, running.stored)
    design = make_design(schema, planned.spec.model.formula)
    if planned.spec.sampler.algorithm in RELEASES:  # whose verdict is not one on its draws
        verdict = judged(planned.spec, draws, (), release)
    else:
        _, verdict = told(design, planned.spec, planned.parameters, draws, release)
    return Result(planned, draws, verdict, design, release)


def told(
    design: Design,
    spec: JobSpec,
    parameters: Sequence[str],
    draws: NDArray[np.float64],
    release: StoredRelease | None,
) -> tuple[dict[Scale, list[ParameterSummary]], Verdict]:
    """Return summaries after warm-up on both scales, and a verdict that holds on both.

    draws: (chain, draw, parameter) of the design, warm-up included. Chains mix on one scale and
    not on the other where coefficients hang together.
    """
    found: dict[Scale, list[ParameterSummary]] = {}
    verdicts: list[Verdict] = []
    for scale in SCALES:
        every = in_units(design, parameters, draws, scale)
        found[scale] = summarise(Released(every[:, spec.sampler.num_warmup or 0 :]), parameters)
        if spec.sampler.algorithm not in RELEASES or not verdicts:
            verdicts.append(judged(spec, every, found[scale], release))
    return found, next((one for one in verdicts if one.status == "unreliable"), verdicts[0])


def _with_whitening(spec: JobSpec, whitening: StoredRelease) -> tuple[JobSpec, tuple[Earlier, ...]]:
    """Return the job that names a release whose whitening it uses again, and that release."""
    options: Any = spec.sampler
    if not hasattr(options, "whitening"):
        raise SpecError(POINTER, f"{options.algorithm} uses none; noisy_quadratic does")
    own = whitening.spec
    whitening.whitening(whitening.design)  # it has one
    given = Earlier("given", own.model.formula, own.privacy.noise_multiplier or 0.0)
    return replace(spec, sampler=replace(options, whitening=given.name)), (given,)


def judged(
    spec: JobSpec,
    draws: NDArray[np.float64],
    summaries: Sequence[ParameterSummary],
    release: StoredRelease | None,
) -> Verdict:
    """Return the verdict on what a resolved job gave, from released values only.

    draws: (chain, draw, parameter), warm-up included. summaries: of those after it.
    """
    if spec.sampler.algorithm in RELEASES:
        return of_release(None) if release is None else release.verdict
    started = getattr(spec.sampler, "start", None) is not None
    return of_chain(draws, spec.sampler.num_warmup or 0, summaries, started=started)


def _options(sampler: AlgorithmOptions | str | None) -> AlgorithmOptions:
    """Return the options of an algorithm that may be told by name. Raises SpecError."""
    if sampler is None or sampler == "auto":
        return AutoOptions()
    if not isinstance(sampler, str):
        return sampler
    if sampler not in ALGORITHMS:
        names = ", ".join(["auto", *ALGORITHMS])
        raise SpecError("/sampler", f"must be options, or one of {names}")
    options: AlgorithmOptions = ALGORITHMS[sampler].options()
    return options


def table_of(schema: Schema, data: Mapping[str, Sequence[object]]) -> Table:
    """Return data as a clamped table. Raises ValueError on a missing column, value or category."""
    columns: dict[str, NDArray[np.float64] | NDArray[np.int32]] = {}
    for column in schema.columns:
        if column.name not in data or len(data[column.name]) != schema.rows:
            raise ValueError(f"column {column.name!r} must have {schema.rows} values")
        if isinstance(column, NumberColumn):
            numbers = np.asarray(data[column.name], dtype=np.float64)
            if not np.isfinite(numbers).all():
                raise ValueError(f"column {column.name!r} has values that are not finite")
            columns[column.name] = column.clamped(numbers)
        else:
            codes = {word: code for code, word in enumerate(column.categories)}
            words = [str(value) for value in data[column.name]]
            if not set(words) <= set(codes):
                raise ValueError(f"column {column.name!r} has values outside its categories")
            columns[column.name] = np.array([codes[word] for word in words], np.int32)
    return Table(columns=columns, rows=schema.rows)
