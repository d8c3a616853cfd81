"""A job on rows of your own: planned, run and judged in one call, without a service."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.algorithms import ALGORITHMS
from dpmcmc.budget import Budget
from dpmcmc.design import make_design
from dpmcmc.errors import SpecError, near
from dpmcmc.options import AlgorithmName, AlgorithmOptions, AutoOptions
from dpmcmc.planner import Plan, expected_seconds, plan
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.types import Permit, Private
from dpmcmc.progress import shown
from dpmcmc.releases import RELEASES
from dpmcmc.results import Result, judged, told
from dpmcmc.reuse import POINTER, Earlier
from dpmcmc.run import run
from dpmcmc.schema import NumberColumn, Schema, Table, columns_of, word_of
from dpmcmc.spec import JobSpec, ModelSpec, Prior, PrivacySpec
from dpmcmc.stored import StoredRelease

FAMILIES = {"binary": "logistic", "category": "multinomial", "number": "linear"}


def sample(
    formula: object = None,
    data: object = None,
    schema: Schema | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    family: str | None = None,
    prior: Prior = None,
    model: ModelSpec | None = None,
    sampler: AlgorithmOptions | AlgorithmName | None = None,
    budget: Budget | None = None,
    whitening: StoredRelease | None = None,
    progress: bool | None = None,
    random: RandomSource | None = None,
) -> Result:
    """Plan and run a job on rows of your own: the service's path without the service.

    `sample("y ~ age + sex", frame, schema, epsilon=1)`, or, where a whole ModelSpec is at hand,
    `sample(data, schema=schema, model=model, epsilon=1)`.

    formula: as in ModelSpec, a word. data: a data frame (pandas, polars, Arrow, ...) or column name
    -> (rows,) numbers, or words among the declared categories. family: by default that of the
    response's column: logistic for two categories, multinomial for more, linear for a number.
    prior: by default one that follows from public bounds. epsilon: what the call may cost, or
    noise_multiplier in its place. delta: by default that of the budget, or else the smaller of 1e-6
    and a tenth of 1 / rows. sampler: an algorithm's options, or its name, with everything left to
    the planner; where None the planner chooses, and says why in result.plan.reasons. budget: takes
    what the call costs before a row is read; without one the cost is the caller's to account for:
    every call spends it anew. whitening: an earlier release of the same columns of the same rows,
    whose coordinates are used again, so that all of the budget is left for the rest. progress:
    whether a bar shows on stderr how far the run is; by default on terminals, of long runs. random:
    for tests only.
    Raises SpecError on the job, BudgetExhaustedError where too little is left, ValueError where the
    data do not suit the schema.
    """
    if formula is not None and not isinstance(formula, str):
        formula, data = None, formula
    if not isinstance(schema, Schema):
        raise SpecError("/schema", "is needed: Schema.from_frame(data, bounds={...}) makes one")
    model = model or modelled(schema, str(formula or ""), family, prior)
    if delta is None:
        delta = budget.delta if budget else min(1e-6, 0.1 / max(schema.rows, 1))
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    spec = JobSpec(model=model, sampler=_options(sampler), privacy=privacy)
    earlier: tuple[Earlier, ...] = ()
    if whitening is not None:
        spec, earlier = _with_whitening(spec, whitening)
    planned = plan(schema, spec, earlier=earlier)
    rows, permit = owned(schema, data, planned.event, planned.cost.epsilon, budget)
    return _ran(schema, planned, (rows, permit), whitening, progress, random)


def modelled(schema: Schema, formula: str, family: str | None, prior: Prior) -> ModelSpec:
    """Return the model of a formula. Raises SpecError where its family is not clear."""
    if not formula:
        raise SpecError("/model/formula", 'is needed, such as "y ~ age + sex"')
    if family is not None:
        return ModelSpec(family=family, formula=formula, prior=prior)
    response = formula.partition("~")[0].strip()
    for column in schema.columns:
        if column.name == response:
            return ModelSpec(family=FAMILIES[column.type], formula=formula, prior=prior)
    guess = near(response, [column.name for column in schema.columns])
    message = f"is needed: the response {response!r} is no declared column{guess}"
    raise SpecError("/model/family", message)


def _ran(
    schema: Schema,
    planned: Plan,
    opened: tuple[Private[Table], Permit],
    whitening: StoredRelease | None,
    progress: bool | None,
    random: RandomSource | None,
) -> Result:
    """Run a job that is paid for."""
    design, white = make_design(schema, planned.spec.model.formula), None
    if whitening is not None and getattr(planned.spec.sampler, "paid", False):
        white = whitening.whitening(design)
    running = run(schema, planned.spec, *opened, random=random, whitening=white)
    seconds = expected_seconds(schema, planned.spec)
    blocks = shown(running, planned.num_steps, seconds, progress)
    draws = np.concatenate([block.value for block in blocks], axis=1)
    release = None
    if running.stored is not None:
        release = StoredRelease(schema, planned.spec, running.stored)
    if planned.spec.sampler.algorithm in RELEASES:  # whose verdict is not one on its draws
        verdict = judged(planned.spec, draws, (), release)
    else:
        _, verdict = told(design, planned.spec, planned.parameters, draws, release)
    return Result(planned, draws, verdict, design, release)


def owned(
    schema: Schema, data: object, happens: Event, epsilon: float, budget: Budget | None
) -> tuple[Private[Table], Permit]:
    """Return rows of the caller's own, and the permit that opens them for one event.

    data: as in `sample`. epsilon: what the event costs, for the error. budget: pays; without one
    the cost is the caller's to account for. Raises ValueError where data do not suit the schema,
    BudgetExhaustedError where too little is left.
    """
    table = table_of(schema, columns_of(data))
    if budget is not None:
        budget.take(happens, epsilon)
    subject = str(uuid.uuid4())
    permit = Permit(subject=subject, event_digest=digest(happens))
    return Private(table, subject=subject), permit


def _with_whitening(spec: JobSpec, whitening: StoredRelease) -> tuple[JobSpec, tuple[Earlier, ...]]:
    """Return the job that names a release whose whitening it uses again, and that release."""
    options: Any = spec.sampler
    if not hasattr(options, "whitening"):
        raise SpecError(POINTER, f"{options.algorithm} uses none; noisy_quadratic does")
    own = whitening.spec
    whitening.whitening(whitening.design)  # it has one
    given = Earlier("given", own.model.formula, own.privacy.noise_multiplier or 0.0)
    return replace(spec, sampler=replace(options, whitening=given.name)), (given,)


def _options(sampler: AlgorithmOptions | str | None) -> AlgorithmOptions:
    """Return the options of an algorithm that may be told by name. Raises SpecError."""
    if sampler is None or sampler == "auto":
        return AutoOptions()
    if not isinstance(sampler, str) and hasattr(sampler, "algorithm"):
        return sampler
    if not isinstance(sampler, str) or sampler not in ALGORITHMS:
        names = ", ".join(["auto", *ALGORITHMS])
        guess = near(str(sampler), ALGORITHMS)
        raise SpecError("/sampler", f"must be options, or one of {names}{guess}")
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
            words = [word_of(value) for value in data[column.name]]
            if not set(words) <= set(codes):
                raise ValueError(f"column {column.name!r} has values outside its categories")
            columns[column.name] = np.array([codes[word] for word in words], np.int32)
    return Table(columns=columns, rows=schema.rows)
