"""Jobs that release something else than a posterior: summaries, synthetic tables, one statistic.

A task is planned from public facts, paid for as one event, and run once on the rows. What it
releases are blocks of numbers; everything that is told of them is computed from these blocks, as
often as wanted, and free.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.contingency.axes import axes
from dpmcmc.errors import SpecError
from dpmcmc.planner import Cost
from dpmcmc.privacy.discrete_laplace import flip_share
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.types import Permit, Private, Released
from dpmcmc.schema import Schema, Table
from dpmcmc.spec import PrivacySpec
from dpmcmc.statistics import plans as single
from dpmcmc.statistics import release as statistic_release
from dpmcmc.statistics.mechanisms import Form, StatisticKind
from dpmcmc.statistics.plans import NoiseName
from dpmcmc.statistics.smooth import beta_of
from dpmcmc.summaries import call as summing
from dpmcmc.summaries.intervals import Target
from dpmcmc.summaries.statistics import Counts, Mean, Quantiles
from dpmcmc.synthetic import call as synthesising
from dpmcmc.synthetic.drawn import Values, levels, values
from dpmcmc.synthetic.posterior import CHAINS, LONGEST, WARM
from dpmcmc.verdicts import Verdict

Floats = NDArray[np.float64]
MOST_SECONDS = 3600.0  # of a task
LEAPFROG_SECONDS, CELL_SECONDS = 3e-4, 8e-9  # of a step of one chain: measured on a busy core
FREE = "computed from what the job released: nothing is charged, and no row is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummariesTask:
    """Means and sds, quantiles, histograms and contingency tables, with intervals.

    statistics: what is released, all together by one Gaussian event; each gets the same share.
    """

    kind: Literal["summaries"] = "summaries"
    statistics: tuple[Mean | Quantiles | Counts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTask:
    """Synthetic tables, drawn from a model of greatest entropy given noisy marginals.

    columns: what the tables have; all where None. marginals: contingency tables that are released,
    each by its columns; all pairs where None. bins: of a number column, how many of equal width, or
    their inner edges. impossible: levels that no row has together, by column. tables: how many.
    moves: of each chain that draws their probabilities.
    """

    kind: Literal["synthetic"] = "synthetic"
    columns: tuple[str, ...] | None = None
    marginals: tuple[tuple[str, ...], ...] | None = None
    bins: dict[str, int | tuple[float, ...]] = field(default_factory=dict)
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    tables: int = 20
    moves: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticTask:
    """One statistic of one column, with noise whose law is known.

    statistic: x^a (power) or |x|^a (absolute_power) within the declared bounds. form: batch (the
    sum over rows), sequential (each row with noise of its own), median or maximum. noise: median
    and maximum have smooth_laplace; randomised_response is for binary columns, sequential.
    """

    kind: Literal["statistic"] = "statistic"
    column: str
    statistic: StatisticKind = "power"
    a: float = 1.0
    form: Form = "batch"
    noise: NoiseName = "gaussian"


Task = SummariesTask | SyntheticTask | StatisticTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task and what it may cost. privacy: a statistic takes an epsilon."""

    task: Task
    privacy: PrivacySpec


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task as it would be run, from public facts alone.

    num_steps: blocks that it releases. numbers: how many all of them hold. reasons: the noise, in
    words. memory: bytes that it takes beyond those of the rows and the numbers.
    """

    spec: TaskSpec
    event: Event
    cost: Cost
    noise_multiplier: float
    num_steps: int
    numbers: int
    reasons: tuple[str, ...]
    memory: int = 0
    warnings: tuple[str, ...] = ()
    usable: bool = True


def plan_task(schema: Schema, spec: TaskSpec) -> TaskPlan:
    """Return what a task releases and costs. Reads no row. Raises SpecError."""
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset has no rows")
    told = _planned(schema, spec)
    blocks, numbers, noise, memory = 1, 1, "", 0
    if isinstance(told, summing.Plan):
        numbers = sum(one.size for one in told.asked)
        noise = f"noise of sd {told.noise_sd:.3g} rows in each count"
    elif isinstance(told, synthesising.Plan):
        task = _synthetic(spec)
        blocks, each = 1 + task.tables, 1 + sum(axis.edges is not None for axis in told.axes)
        numbers = sum(told.model.sizes) + 1 + task.tables * schema.rows * each
        noise = f"noise of sd {told.noise_sd:.3g} rows in each of {sum(told.model.sizes)} counts"
        memory = 48 * told.model.cells * len(told.model.marginals)
        if (seconds := seconds_of(schema, spec)) > MOST_SECONDS:
            message = f"would run for about {seconds:.0f} s: name fewer columns, marginals or moves"
            raise SpecError("/task", message)
    else:
        numbers = schema.rows if told.asked.form == "sequential" else 1
        noise = f"{told.asked.noise} noise"
    z = told.paid.noise_multiplier
    return TaskPlan(spec, told.paid.event, told.paid.cost, z, blocks, numbers, (noise,), memory)


def run_task(
    schema: Schema,
    spec: TaskSpec,
    rows: Private[Table],
    permit: Permit,
    random: RandomSource | None = None,
) -> Iterator[Released[Floats]]:
    """Yield the blocks (1, 1, numbers) that a task releases, as many as its plan says.

    Privacy: plan_task(schema, spec).event, paid for by the permit, all of it in the first block;
    what follows is made of that. random: for tests only. Raises PermitError before the rows are
    opened, SpecError on the request; never on the rows.
    """
    told, source = _planned(schema, spec), random or SystemRandom()
    if isinstance(told, summing.Plan):
        yield _block(summing.release(told, rows, permit, source))
    elif isinstance(told, single.Plan):
        yield _block(statistic_release.release(told, rows, permit, source).values)
    else:
        task = _synthetic(spec)
        counts = synthesising.release(told, rows, permit, source)
        made = synthesising.drawn(told, counts, task.tables, task.moves, source)
        yield _block(np.append(counts, made.r_hat))
        for k in range(task.tables):
            places = [made.places[axis.name][k] for axis in told.axes if axis.edges is not None]
            yield _block(np.concatenate([made.cells[k].astype(np.float64), *places]))


def _block(values: Floats) -> Released[Floats]:
    return Released(np.asarray(values, np.float64)[None, None])


def told_of(
    schema: Schema,
    spec: TaskSpec,
    first: Floats,
    level: float = 0.9,
    target: Target = "population",
) -> dict[str, Any]:
    """Return what the first block says, as JSON holds it. Free.

    level, target: of the intervals of summaries. Raises SpecError on another level.
    """
    told = _planned(schema, spec)
    if isinstance(told, summing.Plan):
        if not 0.0 < level < 1.0:
            raise SpecError("/level", "must lie between 0 and 1")
        found = summing.Summaries(told, first).estimates(level, target)
        names = {"level": level, "target": target, "noise_sd": told.noise_sd}
        return {**names, "estimates": [asdict(one) for one in found]}
    if isinstance(told, single.Plan):
        return {
            "form": told.asked.form,
            "statistic": asdict(told.statistic),
            "rows": schema.rows,
            "values": first.tolist(),
            "noise": _noise(told),
        }
    counts, r_hat = np.split(first[:-1], np.cumsum(told.model.sizes)[:-1]), float(first[-1])
    marginals = [
        {"columns": [told.axes[k].name for k in one], "counts": part.tolist()}
        for one, part in zip(told.model.marginals, counts, strict=True)
    ]
    return {
        "tables": _synthetic(spec).tables,
        "rows": schema.rows,
        "columns": [axis.name for axis in told.axes],
        "levels": {axis.name: list(axis.labels) for axis in told.axes},
        "noise_sd": told.noise_sd,
        "r_hat": r_hat if np.isfinite(r_hat) else None,
        "marginals": marginals,
    }


def _noise(told: single.Plan) -> dict[str, Any]:
    """Return the law of a statistic's noise, which does not depend on rows."""
    kind = told.asked.noise
    if kind in ("gaussian", "laplace"):
        return {"kind": kind, **asdict(statistic_release.noise_of(told))}
    if kind == "randomised_response":
        keep = 1.0 - flip_share(told.epsilon)
        return {"kind": kind, "keep_probability": keep}
    beta = beta_of(told.epsilon, told.paid.cost.delta)
    return {"kind": kind, "epsilon": told.epsilon, "beta": beta, "rank": told.rank}


def table_of(schema: Schema, spec: TaskSpec, block: Floats) -> Mapping[str, Values]:
    """Return a synthetic table, name -> (rows,), from its block. Free. Raises SpecError."""
    task = spec.task
    if not isinstance(task, SyntheticTask):
        raise SpecError("/task/kind", "only synthetic tables are tables")
    names = [c.name for c in schema.columns] if task.columns is None else task.columns
    found, (cells, *parts) = axes(schema, names, task.bins), block.reshape(-1, schema.rows)
    places, none = iter(parts), np.zeros(0)
    return {
        axis.name: values(axis, level, none if axis.edges is None else next(places))
        for axis, level in zip(found, levels(found, cells.astype(np.intp)), strict=True)
    }


def verdict_of(schema: Schema, spec: TaskSpec, first: Floats) -> Verdict:
    """Return whether what was released may be believed, by its first block."""
    told = _planned(schema, spec)
    if not isinstance(told, synthesising.Plan):
        what = "intervals include" if isinstance(told, summing.Plan) else "an inference knows"
        return Verdict("reliable", f"Reliable: {what} the noise.", (), None)
    r_hat = float(first[-1])
    if r_hat <= synthesising.MAX_RHAT:
        sentence = f"Reliable: the chains that drew the tables agree (R-hat {r_hat:.2f})."
        return Verdict("reliable", sentence, (), None)
    reason = f"the chains that drew the tables do not agree (R-hat {r_hat:.2f}): ask for more moves"
    return Verdict("unreliable", f"Unreliable: {reason}.", (reason,), None)


def _synthetic(spec: TaskSpec) -> SyntheticTask:
    if not isinstance(spec.task, SyntheticTask):
        raise TypeError("not a task of synthetic tables")
    return spec.task


def _planned(schema: Schema, spec: TaskSpec) -> summing.Plan | synthesising.Plan | single.Plan:
    """Return the plan of the kind that a task is. Raises SpecError at the task's fields."""
    task, privacy = spec.task, spec.privacy
    try:
        if isinstance(task, SummariesTask):
            return summing.planned(schema, task.statistics, privacy)
        if isinstance(task, SyntheticTask):
            synthesising.check_sizes(task.tables, task.moves)
            return synthesising.planned(
                schema,
                privacy,
                columns=task.columns,
                marginals="pairs" if task.marginals is None else task.marginals,
                bins=task.bins,
                impossible=task.impossible,
            )
        if privacy.epsilon is None:
            raise SpecError("/privacy/epsilon", "is needed: a statistic takes no noise multiplier")
        asked = single.Asked(
            column=task.column, kind=task.statistic, a=task.a, form=task.form, noise=task.noise
        )
        return single.planned(schema, asked, privacy.epsilon, privacy.delta)
    except SpecError as error:
        own = error.pointer.startswith(("/privacy", "/dataset", "/task"))
        raise SpecError(error.pointer if own else f"/task{error.pointer}", error.message) from None


def seconds_of(schema: Schema, spec: TaskSpec) -> float:
    """Return about how long a task runs, from public facts, above 0. Raises SpecError."""
    told, rows = _planned(schema, spec), schema.rows
    if not isinstance(told, synthesising.Plan):
        return 0.1 + 1e-7 * rows
    task, looked = _synthetic(spec), told.model.cells * len(told.model.marginals)
    each = LEAPFROG_SECONDS + CELL_SECONDS * looked
    return 1.0 + (task.moves + WARM) * CHAINS * LONGEST * each + 2e-7 * rows * task.tables
