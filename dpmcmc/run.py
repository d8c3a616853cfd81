"""Runs a planned job on private rows and hands back released draws, block by block."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import Design, make_design
from dpmcmc.errors import SpecError
from dpmcmc.models import MODELS
from dpmcmc.planner import Cost, Plan, event, plan
from dpmcmc.privacy.events import digest
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.types import Permit, PermitError, Private, Released
from dpmcmc.releases import ALGORITHMS, RELEASES, AlgorithmOptions, AutoOptions
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.minibatch import SCATTERED
from dpmcmc.schema import NumberColumn, Schema, Table
from dpmcmc.spec import JobSpec, ModelSpec, PrivacySpec

if TYPE_CHECKING:
    import xarray

BLOCKS = 25
BLOCK_SECONDS, LEAST_SECONDS = 0.5, 0.1
ROW_SECONDS = 4e-9  # one row of one chain, one column, on a slow core
STEP_SECONDS = 1e-4


def run(
    schema: Schema,
    spec: JobSpec,
    rows: Private[Table],
    permit: Permit,
    *,
    random: RandomSource | None = None,
) -> Iterator[Released[NDArray[np.float64]]]:
    """Yield the draws of a resolved job in blocks (chain, block, parameter), warm-up included.

    The lengths of the blocks follow from public facts. All chains start at a public point, see the
    model's form; the first draw is the position after the first step.
    Privacy: event(schema, spec), paid for by `permit`.
    random: for tests only; a fresh SystemRandom otherwise.
    Raises PermitError before the rows are opened, where the permit is for another event or dataset;
    SpecError where the job is not resolved. Never raises on the rows.
    """
    if permit.event_digest != digest(event(schema, spec)):
        raise PermitError("the permit was made for another event")
    return _blocks(schema, spec, rows.open(permit), random or SystemRandom())


def _blocks(
    schema: Schema, spec: JobSpec, table: Table, random: RandomSource
) -> Iterator[Released[NDArray[np.float64]]]:
    design = make_design(schema, spec.model.formula)
    if spec.sampler.algorithm in RELEASES:
        yield from _released(design, spec, table, random)
        return
    sampler, options = SAMPLERS[spec.sampler.algorithm], spec.sampler
    if options.num_steps is None or options.num_chains is None:
        raise SpecError("/sampler", "is not resolved")
    model = MODELS[spec.model.family]
    target = model.target(design, spec, table, options.num_chains)
    del table  # the target has its own, in the kernels' order
    z = spec.privacy.noise_multiplier or 0.0
    state = sampler.start(target, options, z, random)
    left = options.num_steps
    read = rows_read(options, schema.rows)
    length = block_length(read, target.position.shape[1], options.num_chains, left)
    while left > 0:
        size = min(length, left)
        draws = sampler.advance(target, options, z, size, random, state)
        yield Released(model.release(design, spec, draws))
        left -= size


def _released(
    design: Design, spec: JobSpec, table: Table, random: RandomSource
) -> Iterator[Released[NDArray[np.float64]]]:
    """Yield independent draws from the posterior that one release of the rows leads to."""
    release, options = RELEASES[spec.sampler.algorithm], spec.sampler
    spec = replace(spec, model=release.model(spec.model))
    model, steps, chains = MODELS[spec.model.family], options.num_steps, options.num_chains
    if steps is None or chains is None:
        raise SpecError("/sampler", "is not resolved")
    target, reach = model.target(design, spec, table, 1), model.form(design, spec).reach
    z = spec.privacy.noise_multiplier or 0.0
    posterior = release.publish(target, reach, options, z, random)
    length = -(-steps // BLOCKS)
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
    """What a local run gave. draws: (chain, draw, parameter), warm-up included."""

    plan: Plan
    draws: NDArray[np.float64]

    @property
    def cost(self) -> Cost:
        """What the run cost; whoever holds the rows keeps the account."""
        return self.plan.cost

    def to_xarray(self) -> "xarray.Dataset":
        """Return the draws after warm-up as `position`, with dims chain, draw, parameter."""
        import xarray

        return xarray.Dataset(
            {"position": (("chain", "draw", "parameter"), self.draws[:, self.plan.num_warmup :])},
            coords={"parameter": list(self.plan.parameters)},
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
    random: RandomSource | None = None,
) -> Result:
    """Plan and run a job on rows of your own: the service's path without the service.

    data: column name -> (rows,) numbers, or words among the declared categories. delta, and one of
    epsilon or noise_multiplier: see PrivacySpec. sampler: an algorithm's options, or its name, with
    everything left to the planner; where None the planner chooses, and says why in
    result.plan.reasons. The cost is the caller's to account for: every call spends it anew. random:
    for tests only.
    Raises SpecError on the job, ValueError where the data do not suit the schema.
    """
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    planned = plan(schema, JobSpec(model=model, sampler=_options(sampler), privacy=privacy))
    subject = str(uuid.uuid4())
    rows = Private(table_of(schema, data), subject=subject)
    permit = Permit(subject=subject, event_digest=digest(planned.event))
    blocks = [block.value for block in run(schema, planned.spec, rows, permit, random=random)]
    return Result(planned, np.concatenate(blocks, axis=1))


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
            columns[column.name] = np.clip(numbers, column.lower, column.upper)
        else:
            codes = {word: code for code, word in enumerate(column.categories)}
            words = [str(value) for value in data[column.name]]
            if not set(words) <= set(codes):
                raise ValueError(f"column {column.name!r} has values outside its categories")
            columns[column.name] = np.array([codes[word] for word in words], np.int32)
    return Table(columns=columns, rows=schema.rows)
