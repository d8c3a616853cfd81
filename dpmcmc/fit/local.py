"""A job on rows of your own: planned, run and judged in one call, without a service."""

import os
import sys
import time
import uuid
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import LowQualityError, SpecError, near
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget, Taken
from dpmcmc.fit.results import Result, judged, summary_and_verdict
from dpmcmc.fit.run import run
from dpmcmc.formula.design import make_design
from dpmcmc.formula.parse import parse
from dpmcmc.formula.variables import response_variable
from dpmcmc.inputs.frames import batches_of, columns_of, is_missing, rows_of, type_of
from dpmcmc.inputs.options import AlgorithmName, AlgorithmOptions, AutoOptions
from dpmcmc.inputs.published import algorithm_of, family_by
from dpmcmc.inputs.schema import (
    DATES,
    NO_DATE,
    BinaryColumn,
    CategoryColumn,
    DateColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    Table,
    are_truth,
    check_type,
    is_date,
    units_of,
    word_of,
    zero_to_one,
)
from dpmcmc.inputs.spec import FamilyName, JobSpec, ModelSpec, Prior, PrivacySpec, Spend, UpTo
from dpmcmc.inputs.spooled import spooled
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.inputs.units import by_units, in_random_order
from dpmcmc.planner import Plan, check_rows, cost_of, expected_seconds, shortfall
from dpmcmc.planner import plan as planned_job
from dpmcmc.planner.warn import MAY_BE_YES_OR_NO
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.promises import check_delta
from dpmcmc.releases import RELEASES
from dpmcmc.releases.base import columns_read
from dpmcmc.releases.reuse import POINTER, Earlier, whitened_at
from dpmcmc.samplers.algorithms import ALGORITHMS

# How far a run is, on a terminal: from the steps that are done and the clock alone.
LEAST_SECONDS = 2.0  # what takes less shows nothing
WIDTH = 30


def shown(blocks: Iterable[Any], steps: int, seconds: float, wanted: bool | None) -> Iterator[Any]:
    """Yield blocks of draws (chain, draw, ...), showing a progress bar on stderr.

    steps: draws of each chain in all. seconds: how long the run is expected to take. wanted: None
    where a bar is drawn on terminals alone, and for long runs alone.
    """
    if wanted is None:
        wanted = seconds > LEAST_SECONDS and _is_terminal()
    done, began = 0, time.monotonic()
    for block in blocks:
        yield block
        done += block.value.shape[1]
        if wanted:
            _tell("\r" + _bar(done / steps, time.monotonic() - began))
    if wanted:
        _tell("\n")


def _is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        return False


def _tell(text: str) -> None:
    """Write to stderr, ignoring errors: the run is paid for and must continue."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _bar(share: float, elapsed: float) -> str:
    """Return the text of the progress bar."""
    full = round(WIDTH * share)
    seconds_left = elapsed * (1.0 / share - 1.0)
    return f"[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}  {seconds_left:4.0f} s left"


FEW_WORDS = 8  # categories, up to which comparing an array with each takes the least time
SPOOLED_NUMBERS = 2**24  # 128 MiB, above which rows that come in batches are not held in memory
DRAWS = ("normals", "uniforms", "integers", "words")  # what a source of randomness draws
FORMULA = 'is needed, such as "y ~ age + sex"'
# types whose equal values have the same category name; 1 and 1.0 as Decimal have not
NAMED_ALIKE = (str, int, float, np.bool_, np.integer, np.floating, type(None))
FAMILIES: dict[str, FamilyName] = {
    "date": "linear",
    "binary": "logistic",
    "category": "multinomial",
    "number": "linear",
}


@own_errors
def sample(
    formula: object = None,
    data: object = None,
    schema: Schema | None = None,
    *,
    epsilon: float | Mapping[str, object] | UpTo | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    family: FamilyName | None = None,
    prior: Prior = None,
    model: ModelSpec | None = None,
    sampler: AlgorithmOptions | AlgorithmName | None = None,
    budget: Budget | None = None,
    spend: Spend = "until_hopeless",
    whitening: StoredRelease | None = None,
    accept_low_quality: bool = False,
    max_rows: int | None = None,
    progress: bool | None = None,
    random: RandomSource | None = None,
) -> Result:
    """Fit a model to rows of your own: plan the job, pay for it, and draw from its posterior.

    Write `sample("y ~ age + sex", frame, schema, epsilon=1)` or, with a whole ModelSpec,
    `sample(data, schema=schema, model=model, epsilon=1)`.

    Parameters
    ----------
    formula
        Response and covariates as in ModelSpec, such as "y ~ age + sex".
    data
        The rows: a data frame (pandas, polars, Arrow, ...), or a mapping of column names to numbers
        or words of the declared categories. Or a dataset of Arrow (`pyarrow.dataset.dataset`), an
        iterator of such frames or a RecordBatchReader, which is read once: batch by batch, and only
        the columns of the formula are kept, eight bytes for a number and four for a category. Of
        many rows they are kept in an encrypted temporary file, where the algorithm is
        noisy_quadratic and units are rows; otherwise in memory.
    schema
        Declared columns and number of rows: `Schema.from_frame` makes one.
    epsilon
        What the call may cost. With {"up_to": 4, "until": "reliable"} it begins small and goes on
        until its own verdict is reliable: 4 is the most, and `result.cost` what was spent.
    delta
        By default the budget's, or else the smaller of 1e-6 and 0.1 / rows.
    noise_multiplier
        In place of epsilon: sd of the noise over the sensitivity.
    family
        By default that of the response: logistic for two categories, multinomial for more, binomial
        for cases among trials, exponential for surv(time, event), linear for a number (with a
        warning if its bounds are 0 and 1, which logistic takes as well).
    prior
        By default one that follows from the declared bounds.
    model
        In place of formula, family and prior.
    sampler
        An algorithm's options, or its name with all options left to the planner. By default the
        planner chooses; `result.plan.reasons` says why.
    budget
        If given, it pays for the call before a row is read. Without one every call spends its cost
        anew, and the sum is the caller's to account for.
    spend
        "until_hopeless" ends a release that its own released numbers show to be hopeless, and gives
        the budget back what was not drawn: `result.cost` is what was spent, and the verdict says
        so. "all" goes on.
    whitening
        An earlier release of the same columns of the same rows. Its coordinates are used again, and
        all of the cost is left for the rest.
    accept_low_quality
        Whether to run, and to pay for, a job whose plan is not `usable`.
    max_rows
        Fewer rows of each person than the schema declares, chosen at random.
    progress
        Whether stderr shows how far the run is; by default on terminals, for long runs.
    random
        For tests only.

    Returns
    -------
    Result
        Posterior draws, summary, verdict, plan and release.

    Raises
    ------
    SpecError
        If the job is not possible; the message names the field and the remedy.
    LowQualityError
        If its plan is not usable.
    BudgetExhaustedError
        If too little of the budget is left.
    ValueError
        If the data do not fit the schema. Nothing is charged for any of these errors.

    Examples
    --------
    >>> schema = Schema.from_frame(rows, bounds={"dose": (0, 10), "cured": ("no", "yes")})
    >>> fit = sample("cured ~ dose", rows, schema, epsilon=1)
    >>> print(fit)
    """
    if formula is not None and not isinstance(formula, str):
        if data is not None:
            raise SpecError("/model/formula", f"{FORMULA}, before the data")
        formula, data = None, formula
    known = check_call(schema, budget, random, progress).with_max_rows(max_rows)
    check_accepted(accept_low_quality)
    delta = usual_delta(known, budget) if delta is None else delta
    any_epsilon: Any = epsilon  # a mapping is read by PrivacySpec, and the plan checks it
    privacy = PrivacySpec(delta=delta, epsilon=any_epsilon, noise_multiplier=noise_multiplier)
    model_of_job = _model(known, formula, family, prior, model)
    spec, planned = _planned(known, model_of_job, sampler, privacy, spend, whitening)
    check_rows(known, planned)
    yes_or_no = planned.spec.model.formula if planned.spec.model.family == "logistic" else None
    read = columns_read(make_design(known, planned.spec.model.formula), planned.spec.model)
    release = RELEASES.get(planned.spec.sampler.algorithm)
    streams = release is not None and release.streams
    checked = checked_rows(
        known, data, planned.cost.delta, budget, read, yes_or_no, streams=streams
    )
    if not planned.usable and not accept_low_quality:
        raise LowQualityError(*shortfall(known, planned, spec))
    rows, permit, taken = paid_rows(checked, planned.event, budget, known.unit)
    result, drawn = _ran(known, planned, (rows, permit), whitening, progress, random)
    if drawn is None:
        return result
    if budget is not None and taken is not None:
        try:
            budget.return_rest(taken, drawn)
        except (OSError, ValueError):  # the file is gone, or its disk full: all stays spent
            return result
    return replace(result, drawn=cost_of(drawn, planned.cost.delta))


@own_errors
def plan(
    formula: object = None,
    schema: object = None,
    *,
    epsilon: float | Mapping[str, object] | UpTo | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    family: FamilyName | None = None,
    prior: Prior = None,
    model: ModelSpec | None = None,
    sampler: AlgorithmOptions | AlgorithmName | None = None,
    spend: Spend = "until_hopeless",
    whitening: StoredRelease | None = None,
    max_rows: int | None = None,
) -> Plan:
    """Say what a fit would cost and what to expect of it, without a row and free of charge.

    Write `plan("y ~ age + sex", schema, epsilon=1)`, with the arguments of `sample` that a plan
    depends on; or, for a job that is written already, `plan(schema, job)`.

    Parameters
    ----------
    formula
        Response and covariates as in ModelSpec; or the schema, before a JobSpec.
    schema
        Declared columns and number of rows; or a JobSpec, after the schema.
    epsilon, noise_multiplier, family, prior, model, sampler, spend, whitening, max_rows
        As in `sample`.
    delta
        By default the smaller of 1e-6 and 0.1 / rows; give a budget's, if one is to pay.

    Returns
    -------
    Plan
        The job with all options filled in, its cost, `expected_width`, `expected_ess`, `usable`,
        `warnings` and `reasons`.

    Raises
    ------
    SpecError
        If the job is not possible; the message names the field and the remedy.

    Examples
    --------
    >>> plan("cured ~ dose", schema, epsilon=1).expected_width
    """
    if isinstance(formula, Schema) or isinstance(schema, JobSpec):
        others = (epsilon, delta, noise_multiplier, family, prior, model, sampler, whitening)
        if not isinstance(formula, Schema) or not isinstance(schema, JobSpec):
            raise SpecError(
                "/schema", 'write plan("y ~ x", schema, epsilon=1) or plan(schema, job)'
            )
        if others != (None,) * len(others) or spend != "until_hopeless":
            raise SpecError("/privacy", "a JobSpec says all of a job: leave the other options out")
        return planned_job(formula.with_max_rows(max_rows), schema)
    known = check_call(schema, None, None).with_max_rows(max_rows)
    delta = usual_delta(known, None) if delta is None else delta
    any_epsilon: Any = epsilon  # a mapping is read by PrivacySpec, and the plan checks it
    privacy = PrivacySpec(delta=delta, epsilon=any_epsilon, noise_multiplier=noise_multiplier)
    model_of_job = _model(known, formula, family, prior, model)
    return _planned(known, model_of_job, sampler, privacy, spend, whitening)[1]


def _planned(
    schema: Schema,
    model: ModelSpec,
    sampler: AlgorithmOptions | str | None,
    privacy: PrivacySpec,
    spend: Spend,
    whitening: object,
) -> tuple[JobSpec, Plan]:
    """Return a call's job as given, and its plan. Raises SpecError."""
    spec = JobSpec(model=model, sampler=_options(sampler), privacy=privacy, spend=spend)
    spec, earlier = _with_whitening(spec, whitening)
    return spec, planned_job(schema, spec, earlier=earlier)


def _model(
    schema: Schema, formula: object, family: str | None, prior: Prior, model: object
) -> ModelSpec:
    """Return the model that a call gives as a whole or in parts. Raises SpecError."""
    if model is None:
        return modelled(schema, formula, family, prior)
    if not isinstance(model, ModelSpec):
        message = 'must be a ModelSpec, such as ModelSpec(family="logistic", formula="y ~ x")'
        raise SpecError("/model", message)
    if (formula, family, prior) != (None, None, None):
        raise SpecError("/model", "holds formula, family and prior already: leave those out")
    return model


def usual_delta(schema: Schema, budget: Budget | None) -> float:
    """Return the default delta: the budget's, or one that suits the number of rows."""
    return min(1e-6, 0.1 / max(schema.units, 1)) if budget is None else budget.delta


def check_accepted(accept_low_quality: object) -> None:
    """Raise SpecError unless it is true or false."""
    if not isinstance(accept_low_quality, bool | np.bool_):
        raise SpecError("/accept_low_quality", "must be True or False")


def check_call(schema: object, budget: object, random: object, progress: object = None) -> Schema:
    """Return the schema, after checking a call's arguments. Raises SpecError."""
    if not isinstance(schema, Schema):
        raise SpecError("/schema", "is needed: Schema.from_frame(data, bounds={...}) makes one")
    if budget is not None and not isinstance(budget, Budget):
        raise SpecError("/budget", "must be a Budget, such as Budget(epsilon=2, delta=1e-6)")
    if random is not None and not all(callable(getattr(type(random), n, None)) for n in DRAWS):
        raise SpecError("/random", "is for tests alone: leave it out, and noise is secure")
    if progress is not None and not isinstance(progress, bool | np.bool_):
        raise SpecError("/progress", "must be True or False")
    return schema


def modelled(schema: Schema, formula: object, family: str | None, prior: Prior) -> ModelSpec:
    """Return the model of a formula. Raises SpecError where its family is not clear."""
    if not isinstance(formula, str) or not formula:
        raise SpecError("/model/formula", FORMULA)
    if family is not None:
        return ModelSpec(family=family, formula=formula, prior=prior)
    named = family_by(formula)
    if named is not None:
        return ModelSpec(family=named, formula=formula, prior=prior)
    response = formula.partition("~")[0].strip()
    if not response:
        raise SpecError("/model/family", "is needed where a formula has no response: y ~ x has one")
    token = parse(formula, tuple(column.name for column in schema.columns)).response
    variable = None if token is None else response_variable(schema, token)
    if variable is not None and variable.source is not None:
        return ModelSpec(family="linear", formula=formula, prior=prior)
    response = response if variable is None else variable.columns[0]
    for column in schema.columns:
        if column.name == response:
            if zero_to_one(column):
                hint = f"{MAY_BE_YES_OR_NO.format(name=response)}: family='logistic'"
                warnings.warn(f"{hint}, or family='linear' for what it is now", stacklevel=5)
            return ModelSpec(family=FAMILIES[column.type], formula=formula, prior=prior)
    guess = near(response, [column.name for column in schema.columns])
    message = f"is needed: the response {response!r} is no declared column{guess}"
    raise SpecError("/model/family", message)


def _ran(
    schema: Schema,
    planned: Plan,
    opened: tuple[Private[AnyRows], Permit],
    whitening: StoredRelease | None,
    progress: bool | None,
    random: RandomSource | None,
) -> tuple[Result, Event | None]:
    """Run a paid job. Returns its result, and the drawn event if it stopped early."""
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
        verdict = judged(schema, planned.spec, draws, (), release)
    else:
        _, verdict = summary_and_verdict(design, planned.spec, planned.parameters, draws, release)
    return Result(planned, draws, verdict, design, release), running.drawn


def owned(
    schema: Schema,
    data: object,
    paid_event: Event,
    delta: float,
    budget: Budget | None,
    read: Collection[str],
    *,
    streams: bool = True,
) -> tuple[Private[AnyRows], Permit, Taken | None]:
    """Pay for an event on the caller's rows. Returns rows, permit, and payment if any.

    Arguments and errors are those of `checked_rows` and `paid_rows`.
    """
    checked = checked_rows(schema, data, delta, budget, read, streams=streams)
    return paid_rows(checked, paid_event, budget, schema.unit)


def checked_rows(
    schema: Schema,
    data: object,
    delta: float,
    budget: Budget | None,
    read: Collection[str],
    yes_or_no: str | None = None,
    *,
    streams: bool = True,
) -> AnyRows:
    """Return rows checked against the schema, with the columns that the call reads. Unpaid.

    data: as in `sample`. delta: of the call. read: names of columns, from the call alone. What the
    others hold is not looked at. yes_or_no: a formula whose response is to be 0 and 1 alone.
    streams: whether the call can do with rows that are not in memory. Many that come in batches
    then lie in a temporary file, encrypted under a key of this process.
    Raises SpecError where a delta is no promise for so many rows, ValueError where data do not suit
    the schema, and OSError where the temporary file finds no room.
    """
    check_delta("/privacy/delta", delta, schema.units, schema.unit)
    if budget is not None:
        check_delta("/budget/delta", budget.delta, schema.units, schema.unit)
    unit = schema.privacy_unit
    named = {*read, unit.column} if isinstance(unit, PrivacyUnit) else {*read}
    batches = batches_of(data, named)
    many = schema.rows * len(named) > SPOOLED_NUMBERS and not isinstance(unit, PrivacyUnit)
    if batches is not None and streams and many:
        tables = _tables(schema, batches, read)
        if yes_or_no is not None:
            tables = _with_yes_or_no(schema, yes_or_no, tables)
        return spooled(schema, tables)
    table = table_of(schema, columns_of(data) if batches is None else batches, read)
    if yes_or_no is not None:
        _check_yes_or_no(schema, yes_or_no, table)
    return table


def _tables(
    schema: Schema, batches: Iterator[Mapping[str, Sequence[object]]], read: Collection[str]
) -> Iterator[Table]:
    """Yield batches of rows as clamped tables. Raises ValueError as `table_of` does."""
    for batch in batches:
        rows = rows_of(batch) if batch else 0
        yield Table(_clamped_columns(schema, batch, rows, read), rows)


def _with_yes_or_no(schema: Schema, formula: str, tables: Iterator[Table]) -> Iterator[Table]:
    """Yield tables after checking that responses are binary. Raises ValueError."""
    for table in tables:
        _check_yes_or_no(schema, formula, table)
        yield table


def paid_rows(
    checked: AnyRows, paid_event: Event, budget: Budget | None, unit: str
) -> tuple[Private[AnyRows], Permit, Taken | None]:
    """Pay for an event on checked rows. Returns rows, permit, and payment if any.

    budget: pays; without one the cost is the caller's to account for. unit: whom the event
    protects. Raises BudgetExhaustedError where too little is left.
    """
    taken = None if budget is None else budget.take(paid_event, unit)
    subject = str(uuid.uuid4())
    permit = Permit(subject=subject, event_digest=digest(paid_event))
    return Private(checked, subject=subject), permit, taken


def dummy_rows(schema: Schema, paid_event: Event) -> tuple[Private[AnyRows], Permit]:
    """Return simulated rows made from a schema alone, and the permit that opens them.

    The permit opens nothing else: no other rows have the identifier of these.
    """
    table = table_of(schema, cast("Any", schema.dummy_whole()))
    return paid_rows(table, paid_event, None, schema.unit)[:2]


def _check_yes_or_no(schema: Schema, formula: str, table: Table) -> None:
    """Refuse fractional numbers as a binary response. Raises ValueError."""
    design = make_design(schema, formula)
    column = design.answer
    if not isinstance(column, NumberColumn):
        return
    answers = design.responses(table)[~design.left_out(table)]
    if not np.isin(answers, (0.0, 1.0)).all():
        message = "has values between 0 and 1, and logistic regression needs 0 or 1"
        raise ValueError(f"the response {column.name!r} {message}: family='linear' takes them")


def _with_whitening(spec: JobSpec, whitening: object) -> tuple[JobSpec, tuple[Earlier, ...]]:
    """Return the job with the release whose whitening it reuses, and that release, if any.

    Raises SpecError.
    """
    if whitening is None:
        return spec, ()
    if not isinstance(whitening, StoredRelease):
        raise SpecError(POINTER, "must be the release of an earlier fit: whitening=fit.release")
    options: Any = spec.sampler
    if not hasattr(options, "whitening"):
        raise SpecError(POINTER, f"{options.algorithm} uses none; noisy_quadratic does")
    earlier = whitening.spec
    whitening.whitening(whitening.design)  # it has one
    release = Earlier("given", earlier.model.formula, whitened_at(earlier))
    return replace(spec, sampler=replace(options, whitening=release.name)), (release,)


def _options(sampler: AlgorithmOptions | str | None) -> AlgorithmOptions:
    """Return the options of an algorithm, given as record or as name.

    Raises SpecError.
    """
    if sampler is None or (isinstance(sampler, str) and sampler == "auto"):
        return AutoOptions()
    if not isinstance(sampler, str | type) and hasattr(sampler, "algorithm"):
        return sampler
    sampler, options_given = algorithm_of(sampler) if isinstance(sampler, str) else (sampler, {})
    if not isinstance(sampler, str) or sampler not in ALGORITHMS:
        names = ", ".join(["auto", *ALGORITHMS])
        guess = near(str(sampler), ALGORITHMS)
        raise SpecError("/sampler", f"must be options, or one of {names}{guess}")
    options: AlgorithmOptions = ALGORITHMS[sampler].options(**options_given)
    return options


def table_of(
    schema: Schema,
    data: Mapping[str, Sequence[object]] | Iterator[Mapping[str, Sequence[object]]],
    read: Collection[str] | None = None,
) -> Table:
    """Return data, or batches of data, as a clamped table, grouped by units if any.

    read: the columns that the table has; all declared ones where left out. Raises ValueError on a
    missing column, value or category.
    """
    unit, in_one = schema.privacy_unit, isinstance(data, Mapping)
    by_unit = isinstance(unit, PrivacyUnit)
    parts: dict[str, list[NDArray[np.float64] | NDArray[np.int32]]] = {}
    names, unit_of, rows = dict[str, int](), list[NDArray[np.int64]](), 0
    for batch in (data,) if isinstance(data, Mapping) else data:
        if isinstance(unit, PrivacyUnit):
            named, of_rows = units_of(unit.column, batch)
            numbers = np.array([names.setdefault(name, len(names)) for name in named], np.int64)
            unit_of.append(numbers[of_rows])
            length = len(of_rows)
        else:
            length = schema.rows if in_one else rows_of(batch) if batch else 0
        for name, values in _clamped_columns(schema, batch, length, read).items():
            parts.setdefault(name, []).append(values)
        rows += length
    if not rows or (not by_unit and rows != schema.rows):
        raise ValueError(f"the data have {rows} rows, and the schema says {schema.rows}")
    columns = {name: _joined(parts.pop(name)) for name in list(parts)}
    if not isinstance(unit, PrivacyUnit):
        return Table(columns, schema.rows)
    groups = in_random_order(_joined(unit_of), len(names)).grouped(unit.max_rows, os.urandom(32))
    if len(names) != schema.units:
        raise ValueError(
            f"the data have {len(names)} units in {unit.column!r}, and the schema says"
            f" {schema.units}: make it of these data with Schema.from_frame"
        )
    return by_units(schema, columns, groups)


def _joined(parts: list[Any]) -> NDArray[Any]:
    """Return the concatenation, freeing each part once it is copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _clamped_columns(
    schema: Schema,
    data: Mapping[str, Sequence[object]],
    rows: int,
    read: Collection[str] | None,
) -> dict[str, NDArray[np.float64] | NDArray[np.int32]]:
    """Return the columns of data (rows,), clamped. Raises ValueError."""
    columns: dict[str, NDArray[np.float64] | NDArray[np.int32]] = {}
    for column in schema.columns:
        if read is not None and column.name not in read:
            continue
        if column.name not in data:
            guess = near(column.name, map(str, data))
            raise ValueError(f"the data have no column {column.name!r}, which is declared{guess}")
        values = data[column.name]
        if len(values) != rows or np.ndim(cast("Any", values)) > 1:
            raise ValueError(f"column {column.name!r} must have {rows} values")
        if isinstance(values, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(values)
            values = np.where(mask, None, values.data) if mask.any() else values.data
        if isinstance(column, DateColumn):
            columns[column.name] = column.clamped(_days(column, values))
        elif isinstance(column, NumberColumn):
            columns[column.name] = column.clamped(_numbers(column, values))
        else:
            columns[column.name] = _codes(column, values)
        if len(columns[column.name]) != rows:  # its length is not that of what it gives
            raise ValueError(f"column {column.name!r} must have {rows} values")
    return columns


def _days(column: DateColumn, values: Sequence[object]) -> NDArray[np.float64]:
    """Return a column's dates (rows,) as days. Raises ValueError without naming one."""
    array = values if isinstance(values, np.ndarray) else np.array([*values, None], object)[:-1]
    if array.dtype.kind == "M":
        none, origin = np.isnat(array), np.datetime64(column.origin)
        days = (array.astype("datetime64[D]") - origin).astype(np.float64)
    else:
        none = np.array([is_missing(value) or value == "" for value in array], np.bool_)
        known = {value: column.number_of(value) for value in set(array[~none])}
        days = np.array(
            [known[value] if present else 0.0 for value, present in zip(array, ~none, strict=True)],
            np.float64,
        )
    lacking, wrong = int(none.sum()), int(np.isnan(days[~none]).sum())
    if wrong:
        message = f"column {column.name!r} has values that are no dates, {wrong} in all"
        raise ValueError(f"{message}: {NO_DATE}")
    if lacking and not column.empty:
        remedy = f"declare that values may be missing: missing={{{column.name!r}: True}}"
        raise ValueError(f"column {column.name!r} has missing values, {lacking} in all: {remedy}")
    return column.filled(np.where(none, np.nan, days))


def _numbers(column: NumberColumn, values: Sequence[object]) -> NDArray[np.float64]:
    """Return a column's values (rows,), all finite. Raises ValueError without naming one."""
    name, type = column.name, type_of(values)
    array = np.asarray(values)
    check_type(column, type)
    try:
        if array.dtype == object:
            numbers = np.array([np.nan if is_missing(value) else float(value) for value in array])
            for short in {value.dtype for value in array if isinstance(value, np.floating)}:
                short_ones = np.array([getattr(value, "dtype", None) == short for value in array])
                numbers = np.where(short_ones, column.declared(numbers, short), numbers)
        else:
            numbers = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        if any(map(is_date, array)):
            raise ValueError(f"column {name!r} has dates or times, and {DATES}") from None
        message = "give numbers, or declare its categories"
        raise ValueError(f"column {name!r} has values that are no numbers: {message}") from None
    present = numbers[~np.isnan(numbers)] if column.empty else numbers
    if not np.isfinite(present).all():
        message = (
            f"declare that values may be missing: missing={{{name!r}: True}}, or give a code in"
            f" their place: missing={{{name!r}: [code]}}"
        )
        raise ValueError(f"column {name!r} has values that are not finite: {message}")
    numbers = column.filled(column.declared(numbers, type))
    if column.integer and not column.is_whole(numbers).all():
        message = "round them, or declare it without integer"
        raise ValueError(f"column {name!r} has values that are not whole numbers: {message}")
    return numbers


def _codes(column: CategoryColumn | BinaryColumn, values: Sequence[object]) -> NDArray[np.int32]:
    """Return codes (rows,) of a column's values among its categories. Raises ValueError."""
    codes = {word: code for code, word in enumerate(column.categories)}
    if isinstance(values, np.ndarray) and values.dtype.kind == "U" and len(codes) <= FEW_WORDS:
        found = np.full(len(values), -1, np.int32)
        for word, code in codes.items():
            found[values == word] = code
        if (found >= 0).all():  # all are written as they are declared
            return found
    keys, words = _words(values)
    if are_truth(column.categories):
        codes = {word.lower(): code for word, code in codes.items()}
        words = {key: word if word is None else word.lower() for key, word in words.items()}
    names = set(words.values())
    if None in names and not column.missing:
        lacking = sum(words[key] is None for key in keys)
        remedy = (
            f"declare that values may be missing: missing={{{column.name!r}: True}}, or name them,"
            " and declare that name as a category"
        )
        raise ValueError(f"column {column.name!r} has missing values, {lacking} in all: {remedy}")
    if not names - {None} <= set(codes):
        declared = ", ".join(column.categories[:12])
        if any(is_date(value) and not isinstance(value, str) for value in values):
            message = "has dates or times: write them as the words that are its categories"
            raise ValueError(f"column {column.name!r} {message}, {declared}")
        raise ValueError(f"column {column.name!r} has values outside its categories: {declared}")
    code_of = {key: len(codes) if word is None else codes[word] for key, word in words.items()}
    return np.fromiter(map(code_of.__getitem__, keys), np.int32, len(keys))


def _words(values: Sequence[object]) -> tuple[list[Any], dict[Any, str | None]]:
    """Return a key of each value, and each key's category name, None where it is missing.

    A million values are few different ones, which are named once. Keys have the type where there
    are several: 1 and True have different names.
    """
    array = values if isinstance(values, np.ndarray) and values.dtype.kind in "Ubiu" else None
    listed: list[Any] = list(values) if array is None else array.tolist()
    types = set(map(type, listed))
    keys: list[Any] = listed
    if not all(issubclass(kind, NAMED_ALIKE) for kind in types):
        keys = list(range(len(listed)))
    elif len(types) > 1:
        keys = list(zip(map(type, listed), listed, strict=True))
    first = dict(zip(keys, listed, strict=True))
    return keys, {
        key: None if is_missing(value) else word_of(value) for key, value in first.items()
    }
