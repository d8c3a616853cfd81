"""What is replayed: every algorithm with every family, every task, and options at their ends.

All rows are at the corners of their bounds, alike but for the one that is replaced or not: there a
row can move an answer most.
"""

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS, parameters_of
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import NumberColumn, PrivacyUnit, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles
from dpmcmc.queries.tasks import TaskSpec
from dpmcmc.queries.tasks.predictive_check import FittedModel, PredictiveCheckTask
from dpmcmc.queries.tasks.statistic import StatisticTask
from dpmcmc.queries.tasks.summaries import SummariesTask
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from dpmcmc.queries.tasks.two_stages import TwoStagesTask
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS
from dpmcmc.samplers.dp_barker import widest_room
from tests.audit import search
from tests.audit.cells import families_of
from tests.audit.replay import Case, Row
from tests.audit.requests import Request
from tests.audit.schemas import put
from tests.cases import asked_for

X: dict[str, Any] = {"name": "x", "type": "number", "lower": -1.0, "upper": 1.0}
W: dict[str, Any] = {"name": "w", "type": "number", "lower": -1.0, "upper": 1.0}
V: dict[str, Any] = {"name": "v", "type": "number", "lower": -1.0, "upper": 1.0}
Y: dict[str, Any] = {"name": "y", "type": "number", "lower": 0.0, "upper": 8.0}
L: dict[str, Any] = {"name": "l", "type": "number", "lower": 0.5, "upper": 8.0}  # above 0
T: dict[str, Any] = {"name": "t", "type": "number", "lower": 0.0, "upper": 9.0}  # trials
B: dict[str, Any] = {"name": "b", "type": "binary", "categories": ["no", "yes"]}
G: dict[str, Any] = {"name": "g", "type": "category", "categories": ["p", "q", "r"]}
M: dict[str, Any] = {"name": "m", "type": "number", "lower": -1, "upper": 1, "missing": [-9.0]}
WHOLE: dict[str, Any] = {"name": "i", "type": "number", "lower": 0.0, "upper": 9.0, "integer": True}
S: dict[str, Any] = {"name": "s", "type": "number", "lower": 0.0, "upper": 9.0, "spikes": [0.0]}
E: dict[str, Any] = {"name": "e", "type": "number", "lower": -1.0, "upper": 1.0, "empty": True}
OFFSET: dict[str, Any] = {"name": "o", "type": "number", "lower": -20.0, "upper": 20.0}
DESIGNS = (
    ((X,), "~ x"),
    ((X, W), "~ x + w"),
    ((X, W, B), "b ~ x + w"),
    ((X, W, Y), "y ~ x + w"),
    ((X, W, G), "g ~ x + w"),
    ((X, W, L), "l ~ x + w"),
    ((X, W, L), "I(l / 10) ~ x + w"),
    ((X, W, Y, T), "y | trials(t) ~ x + w"),
    ((X, W, L, B), "surv(l, b) ~ x + w"),
)
ROWS, RELEASE_ROWS, STEPS, DRAWS, DELTA = 6, 30, 3, 20, 1e-6
# options with which rows reach the ends of what is charged for
SHARP: dict[str, dict[str, Any]] = {
    "dp_penalty": {"clip_bound": 0.01},
    "dp_penalty_component": {"clip_bound": 0.01},
    "dp_penalty_guided": {"clip_bound": 0.01},
    "dp_penalty_subsampled": {"clip_bound": 0.01, "batch": 3},
    "dp_hmc": {"clip_bound": 0.01, "gradient_clip": 0.01},
    "dp_mala": {"clip_bound": 0.01, "gradient_clip": 0.01},
    "noisy_mean": {"shares": [0.3, 0.7], "clip_bounds": [0.1, 0.05]},
}


def base(algorithm: str, family: str, z: float = 1.0, **options: Any) -> Request | None:
    """Return a small admitted request of an algorithm and a family, or None."""
    release = algorithm in RELEASES
    for columns, formula in DESIGNS:
        sampler = {"algorithm": algorithm, "num_steps": DRAWS if release else STEPS}
        chains = 1 if release else 2
        job = {
            "model": asked_for(family, formula),
            "sampler": {**sampler, "num_chains": chains, "num_warmup": 0, **options},
            "privacy": {"delta": DELTA, "noise_multiplier": z},
        }
        made = Request(columns, RELEASE_ROWS if release else ROWS, job)
        try:
            made.plan()
        except SpecError:
            continue
        return made
    return None


def corners(schema: Schema) -> list[Row]:
    """Return every row at the ends of what is declared, and such with missing codes."""
    ends = [
        (c.lower, c.upper, *c.missing) if isinstance(c, NumberColumn) else c.categories
        for c in schema.columns
    ]
    names = [column.name for column in schema.columns]
    return [dict(zip(names, row, strict=True)) for row in itertools.product(*ends)]


def middle(schema: Schema) -> Row:
    """Return the row in the middle of what is declared."""
    row: Row = {}
    for c in schema.columns:
        if isinstance(c, NumberColumn):
            half = 0.5 * (c.lower + c.upper)
            row[c.name] = float(math.floor(half)) if c.integer else half
        else:
            row[c.name] = c.categories[0]
    return row


def case_of(name: str, mechanism: str, schema: Schema, job: Any, **others: Any) -> Case:
    """Return a case on rows that are all alike, twice, and on rows of every kind."""
    rows = corners(schema)
    every = [rows[k % len(rows)] for k in range(schema.rows)]
    tables = [tuple([row] * schema.rows) for row in (rows[0], rows[-1], middle(schema))]
    outside = [{**rows[0], **{c.name: 1e9 for c in schema.columns if isinstance(c, NumberColumn)}}]
    given = {"tables": (*tables, tuple(every)), "replacements": (*rows, middle(schema), *outside)}
    return Case(name, mechanism, schema, job, **{**given, **others})


def of_request(name: str, request: Request, **others: Any) -> Case:
    """Return the case of a request."""
    job = request.spec()
    return case_of(name, job.sampler.algorithm, request.schema(), job, **others)


def chains_and_releases() -> Iterator[Case]:
    """Every algorithm on every family that it is for, as the planner has it."""
    for algorithm in ALGORITHMS:
        for family in families_of(algorithm):
            made = base(algorithm, family)
            if made is not None:
                yield of_request(f"{algorithm}, {family}", made)


def sharp() -> Iterator[Case]:
    """Options with which the worst neighbours are among the corners."""
    for algorithm in SAMPLERS:
        if algorithm == "dp_barker":
            continue
        family = next(f for f in families_of(algorithm) if f == "logistic")
        made = base(algorithm, family, **SHARP.get(algorithm, {}))
        if made is not None:
            yield of_request(f"{algorithm}, cut", made)
    made = base("noisy_mean", "gaussian_mean", **SHARP["noisy_mean"])
    if made is not None:
        yield of_request("noisy_mean, cut", made)
    for batch in (2, ROWS):
        clip = 0.9999 * widest_room(1.0, batch, ROWS).g * math.sqrt(batch) / ROWS
        made = base("dp_barker", "logistic", clip_bound=clip, batch=batch, scale=1e3)
        if made is not None:
            yield of_request(f"dp_barker, cut, batch {batch} of {ROWS}", made, far=True)


def schema_of(rows: int, *columns: dict[str, Any], **others: Any) -> Schema:
    """Return a schema of these columns."""
    return replace(Request(columns, rows, {}).schema(), **others)


def kinds_of_jobs() -> Iterator[Case]:
    """Starts, whitenings used again, holders, and rows that are left out."""
    for algorithm in SAMPLERS:
        made = base(algorithm, "logistic", start={"noise_multiplier": 2.0, "num_far": 3})
        if made is not None:
            yield of_request(f"{algorithm}, after a release", made)
    made = base("noisy_quadratic", "logistic", num_far=3)
    if made is not None:
        again = made.spec()
        options = NoisyQuadraticOptions(
            num_steps=DRAWS, num_chains=1, num_warmup=0, num_far=3, whitening="earlier"
        )
        job = replace(again, sampler=options)
        name = "noisy_quadratic, a whitening again"
        yield case_of(name, "noisy_quadratic", made.schema(), job, earlier=True)
    for family in families_of("noisy_quadratic"):
        for z in (0.3, 3.0):
            made = base("noisy_quadratic", family, z, num_far=3, estimand="model")
            if made is not None:
                yield of_request(f"noisy_quadratic, the model, {family}, {z:g}", made)
    for family, estimand in (("logistic", "model"), ("linear", "model"), ("poisson", "robust")):
        made = base("noisy_quadratic", family, 0.3, num_far=3, estimand=estimand, rounds=2)
        if made is not None:
            yield of_request(f"noisy_quadratic, two rounds, {family}, {estimand}", made)
    made = base("noisy_quadratic", "linear", 0.3, num_far=3, estimand="model")
    if made is not None:  # one row of many alike, as far out as it may be
        job = {**made.job, "model": asked_for("linear", "y ~ x")}
        yield of_request("noisy_quadratic, the model, far out", Request((X, Y), 2000, job))
    for family, columns in (("linear", (X, G, Y)), ("logistic", (X, G, B))):
        made = base("noisy_quadratic", family, 1.0, num_far=3)
        if made is not None:  # rows that differ in their group, or in all else
            answer = "y" if family == "linear" else "b"
            job = {**made.job, "model": asked_for(family, f"{answer} ~ x + (1 | g)")}
            request = Request(columns, made.rows, job)
            yield of_request(f"noisy_quadratic, groups, {family}", request)
            job = {**made.job, "model": asked_for(family, f"{answer} ~ x + (x | g)")}
            request = Request(columns, made.rows, job)
            yield of_request(f"noisy_quadratic, slopes of groups, {family}", request)
    made = base("sufficient_statistics", "linear", num_holders=1)
    if made is not None:
        schema = replace(made.schema(), holders=(10, 12, 8))
        spec: Any = made.spec()
        job = replace(spec, sampler=replace(spec.sampler, num_holders=3))
        for at in (0, 15, 29):
            name = f"sufficient_statistics, holders, row {at}"
            yield case_of(name, "sufficient_statistics", schema, job, at=at)
    for algorithm, columns, formula, family in (
        ("noisy_quadratic", (X, M, B), "b ~ x + m", "logistic"),
        ("noisy_mean", (M,), "~ m", "gaussian_mean"),
        ("dp_penalty", (M, B), "b ~ m", "logistic"),
        ("dp_hmc", (M, B), "b ~ m", "logistic"),
        ("dp_penalty_subsampled", (M, B), "b ~ m", "logistic"),
    ):
        made = base(algorithm, family)
        if made is not None:
            job = {**made.job, "model": asked_for(family, formula)}
            yield of_request(f"{algorithm}, missing", Request(columns, made.rows, job))


UNIT_ROWS = 3


def persons() -> Iterator[Case]:
    """Every algorithm that reads all rows on persons with several rows, and summaries."""
    for algorithm in ALGORITHMS:
        if hasattr(ALGORITHMS[algorithm].options(), "batch"):
            continue
        for family in families_of(algorithm):
            for options in (
                {},
                SHARP.get(algorithm, {"num_far": 3} if algorithm == "noisy_quadratic" else {}),
            ):
                made = base(algorithm, family, **options)
                if made is None or (options == {} and algorithm in SHARP):
                    continue
                job = made.spec()
                kind = "" if not options else ", cut"
                with suppress(SpecError):
                    yield _by_person(f"{algorithm}, persons, {family}{kind}", made.schema(), job)
                break
    made = base("noisy_quadratic", "logistic", 1.0)
    if made is not None:
        job = replace(made.spec(), model=ModelSpec(family="logistic", formula="b ~ x"))
        yield _by_person("noisy_quadratic, 1998 rows of persons", schema_of(1998, X, B), job)
    wanted = (Mean("x"), Mean("m"), Quantiles("x", bins=8), Counts(("g", "x"), bins={"x": 3}))
    schema = schema_of(RELEASE_ROWS, X, M, G)
    for count in (1, len(wanted)):
        job = TaskSpec(task=SummariesTask(statistics=wanted[-count:]), privacy=PRIVACY)
        yield _by_person(f"describe, persons, {count} statistics", schema, job)


def _by_person(name: str, schema: Schema, job: Any) -> Case:
    """Persons of as many extreme rows as may be, of one, and of two that differ."""
    unit = PrivacyUnit(column="person", max_rows=UNIT_ROWS)
    schema = replace(schema, privacy_unit=unit)
    if isinstance(job, JobSpec):
        plan(schema, job, advise=False)
    rows = corners(schema)
    every = [rows[k % len(rows)] for k in range(schema.rows)]
    some: list[Row | None] = [*every]
    some[1::UNIT_ROWS] = [None] * schema.units
    same = [tuple([row] * UNIT_ROWS) for row in rows]
    tables = (tuple([rows[0]] * schema.rows), tuple([middle(schema)] * schema.rows), tuple(some))
    units = (*same, *((row,) for row in rows), (rows[0], rows[-1]))
    mechanism = "describe" if isinstance(job, TaskSpec) else job.sampler.algorithm
    return Case(name, mechanism, schema, job, tables=tables, replacements=units)


def wide() -> Iterator[Case]:
    """Columns whose corners stand at the angle at which sums of squares are furthest apart; more
    rows, of which one stands out; and residuals of a known size."""
    columns = (X, W, V, Y)
    for algorithm in ("sufficient_statistics", "noisy_quadratic"):
        made = base(algorithm, "linear")
        if made is not None:
            job = {**made.job, "model": asked_for("linear", "y ~ x + w + v")}
            yield of_request(f"{algorithm}, three columns", Request(columns, made.rows, job))
    known = {"family": "linear", "formula": "y ~ x", "options": {"noise_scale": 0.1}}
    for z in (1.0, 3.0):  # at which few rows of 2000 are cut: those that stand out
        made = base("noisy_quadratic", "logistic", z)
        if made is not None:
            job = {**made.job, "model": asked_for("logistic", "b ~ x")}
            yield of_request(f"noisy_quadratic, 2000 rows at {z:g}", Request((X, B), 2000, job))
    for algorithm in ("dp_vi", "noisy_quadratic", "dp_hmc"):
        made = base(algorithm, "linear", 0.1)
        if made is not None:
            yield of_request(
                f"{algorithm}, known noise", Request((X, Y), 200, {**made.job, "model": known})
            )
    made = base("sufficient_statistics", "linear")
    if made is not None:
        job = {**made.job, "sampler": {**made.job["sampler"], "group": 4}, "model": known}
        yield of_request("sufficient_statistics, groups", Request((X, Y), 200, job))


def far_out() -> Iterator[Case]:
    """Rows with the same covariate, one in the middle of the responses and one far out by its
    offset: scores turn round, and one has the largest curvature that there may be, the other none.
    """
    near, ends = 0.05, ((0.0, "no"), (0.0, "yes"), (20.0, "no"), (-20.0, "yes"))
    longer = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0)
    for name, formula, columns, options in (
        ("far out by its offset", "b ~ 0 + x + offset(o)", (X, OFFSET, B), {"estimand": "robust"}),
        ("groups, far out by its offset", "b ~ x + (1 | g) + offset(o)", (X, OFFSET, B, G), {}),
    ):
        job = {
            "model": {"family": "logistic", "formula": formula},
            "sampler": {
                **{"algorithm": "noisy_quadratic", "num_steps": DRAWS, "num_chains": 1},
                **{"num_warmup": 0, "num_far": 3, **options},
            },
            "privacy": {"delta": DELTA, "noise_multiplier": 1.0},
        }
        made = Request(columns, 2000, job)
        group = {"g": G["categories"][0]} if G in columns else {}
        rows = tuple(
            {"x": near * (-1) ** (k // 2), "o": 0.0, "b": ("no", "yes")[k % 2], **group}
            for k in range(made.rows)
        )
        others = tuple({"x": near * k, "o": o, "b": b, **group} for k in longer for o, b in ends)
        given = {"tables": (rows,), "replacements": others}
        yield of_request(f"noisy_quadratic, {name}", made, **given)


PRIVACY = PrivacySpec(delta=DELTA, epsilon=4.0)
# ends of columns' kinds: whole numbers, spikes, codes, empty values, categories
KINDS_OF_COLUMNS = (("whole", WHOLE), ("spikes", S), ("missing", M), ("empty", E), ("levels", G))


def tables_and_summaries() -> Iterator[Case]:
    """Synthetic tables and summaries of each kind of column, few and many, of rows and persons."""
    for kind, column in KINDS_OF_COLUMNS:
        schema, name = schema_of(RELEASE_ROWS, column, B), column["name"]
        both = ((name,), (name, "b"))
        for size, task in (
            ("small", SyntheticTask(columns=(name,), marginals=((name,),), tables=2, moves=25)),
            ("large", SyntheticTask(columns=(name, "b"), marginals=both, tables=2, moves=25)),
        ):
            if column is not G:
                task = replace(task, bins={name: 2 if size == "small" else 12})
            job = TaskSpec(task=task, privacy=PRIVACY)
            yield _of_few_tables(f"synthesise, {kind}, {size}", "synthesise", schema, job)
        wanted = [Counts((name,), bins={} if column is G else {name: 9}), Counts((name, "b"))]
        if column is not G:
            wanted = [wanted[0], Mean(name)]
        if column in (WHOLE, S):  # of a column without missing values
            wanted += [Quantiles(name, bins=2), Quantiles(name, bins=64)]
        for count in {1, len(wanted)}:
            job = TaskSpec(task=SummariesTask(statistics=tuple(wanted[:count])), privacy=PRIVACY)
            title = f"describe, {kind}, {count} statistics"
            yield _of_few_tables(title, "describe", schema, job)
            if column is not E:  # of persons as well
                yield _by_person(f"{title}, persons", schema, job)
    for epsilon in (0.01, 100.0):
        schema, privacy = schema_of(RELEASE_ROWS, X, G), replace(PRIVACY, epsilon=epsilon)
        task = SyntheticTask(columns=("x", "g"), bins={"x": 3}, tables=2, moves=25)
        job = TaskSpec(task=task, privacy=privacy)
        yield _of_few_tables(f"synthesise, epsilon {epsilon:g}", "synthesise", schema, job)
        job = TaskSpec(task=SummariesTask(statistics=(Mean("x"), Counts(("g",)))), privacy=privacy)
        yield _of_few_tables(f"describe, epsilon {epsilon:g}", "describe", schema, job)


def _of_few_tables(name: str, mechanism: str, schema: Schema, job: Any) -> Case:
    """Rows that are all alike, and those of every corner."""
    rows = corners(schema)
    others = rows if mechanism == "describe" else [rows[0], rows[len(rows) // 2], rows[-1]]
    given = {"tables": ((rows[0],) * schema.rows,), "replacements": tuple(others)}
    return case_of(name, mechanism, schema, job, **given)


def thin() -> Iterator[Case]:
    """Other forms of what was replayed once: fits, statistics, holders, whitenings used again."""
    for family, z in itertools.product(families_of("dp_vi"), (0.3, 3.0)):
        made = base("dp_vi", family, z, num_far=2)
        if made is not None:
            yield of_request(f"dp_vi, {family}, two far rounds, {z:g}", made)
    made = base("dp_vi", "logistic")
    if made is not None:
        job = {**made.job, "model": asked_for("logistic", "b ~ x + m")}
        yield of_request("dp_vi, missing", Request((X, M, B), made.rows, job))
    for family in ("linear", "multinomial"):
        made = base("noisy_quadratic", family, num_far=3)
        if made is None:
            continue
        spec: Any = made.spec()
        for estimand in ("model", "robust"):
            sampler = replace(spec.sampler, whitening="earlier", estimand=estimand)
            name, job = f"a whitening again, {family}, {estimand}", replace(spec, sampler=sampler)
            yield case_of(name, "noisy_quadratic", made.schema(), job, earlier=True)
    for method in ("adassp", "mcmc_fixeds"):
        made = base("sufficient_statistics", "linear", num_holders=1, method=method)
        if made is None:
            continue
        schema, spec = replace(made.schema(), holders=(1, 29)), made.spec()
        job = replace(spec, sampler=replace(spec.sampler, num_holders=2))
        for at in (0, 1):
            name = f"sufficient_statistics, {method}, holders of 1 and 29, row {at}"
            yield case_of(name, "sufficient_statistics", schema, job, at=at)
    for name, column in (("whole", WHOLE), ("spikes", S)):
        task = StatisticTask(column=column["name"], a=0.5, form="batch", noise="gaussian")
        yield _statistic(f"batch of {name} numbers, gaussian", schema_of(9, column), task, 1.0)


def tasks() -> Iterator[Case]:
    """Every kind of task, and every form and noise of a statistic."""
    schema = schema_of(RELEASE_ROWS, X, M, G)
    wanted = (Mean("x"), Mean("m"), Quantiles("x", bins=8), Counts(("g", "x"), bins={"x": 3}))
    for count in range(1, len(wanted) + 1):
        job = TaskSpec(task=SummariesTask(statistics=wanted[-count:]), privacy=PRIVACY)
        yield case_of(f"describe, {count} statistics", "describe", schema, job)
    marginals = (("x",), ("g",))
    table = SyntheticTask(
        columns=("x", "g"), marginals=marginals, bins={"x": 2}, tables=2, moves=25
    )
    job, rows = TaskSpec(task=table, privacy=PRIVACY), corners(schema)
    some = {"tables": ((rows[0],) * RELEASE_ROWS,), "replacements": (rows[0], rows[-1])}
    yield case_of("synthesise", "synthesise", schema, job, **some)
    for a, epsilon in itertools.product((1.0, 3.0), (1.0 / 16.0, 1.0, 4.0, 16.0)):
        for form, noise in (
            ("batch", "gaussian"),
            ("sequential", "gaussian"),
            ("batch", "laplace"),
            ("sequential", "laplace"),
            ("median", "smooth_laplace"),
            ("maximum", "smooth_laplace"),
        ):
            task = StatisticTask(column="x", a=a, form=form, noise=noise)  # type: ignore[arg-type]
            yield _statistic(f"{form} of power {a:g}, {noise}", schema_of(9, X), task, epsilon)
    for epsilon in (1.0 / 16.0, 1.0, 4.0, 16.0):
        task = StatisticTask(column="b", form="sequential", noise="randomised_response")
        yield _statistic("randomised_response", schema_of(9, B), task, epsilon)
    for noise in ("gaussian", "laplace"):
        stages = TwoStagesTask(
            column="x",
            noise=noise,  # type: ignore[arg-type]
            first_rows=3,
            family="uniform_width",
            thetas=(0.5, 1.0),
            powers=(0.5, 2.0),
        )
        name, schema = f"two_stages, {noise}", schema_of(9, X)
        yield case_of(name, "two_stages", schema, TaskSpec(task=stages, privacy=PRIVACY))


def checks() -> Iterator[Case]:
    """Checks of a fit of every family that has one, of rows, of persons and of rows left out."""
    for family, model in MODELS.items():
        if model.distribution(model.example.options) is None and model.categories is None:
            continue
        made = base("noisy_quadratic", family)
        if made is not None:
            yield _check(f"check_fit, {family}", made.schema(), made.spec().model)
    missing = ModelSpec(family="logistic", formula="b ~ x + m")
    yield _check("check_fit, missing", schema_of(RELEASE_ROWS, X, M, B), missing)
    grouped = ModelSpec(family="linear", formula="y ~ x + (x | g)")
    yield _check("check_fit, groups", schema_of(RELEASE_ROWS, X, Y, G), grouped)
    schema, model = schema_of(RELEASE_ROWS, X, Y), ModelSpec(family="linear", formula="y ~ x")
    rows = _check("check_fit, persons", schema, model, 4.0)  # rows at the bounds are in end bins
    yield replace(
        _by_person(rows.name, schema, rows.job), mechanism="check_fit", fitted=rows.fitted
    )


def _check(name: str, schema: Schema, model: ModelSpec, first: float = 0.0) -> Case:
    """A check of a model whose parameters but the first are small; they differ by draw."""
    task = PredictiveCheckTask(job="earlier", bins=8, model=model)
    parameters = len(parameters_of(schema, model))
    draws = 0.1 * np.sin(np.arange(3.0 * parameters)).reshape(3, parameters)
    draws[:, 0] += first
    job, fitted = TaskSpec(task=task, privacy=PRIVACY), FittedModel(draws)
    return case_of(name, "check_fit", schema, job, fitted=fitted)


def _statistic(name: str, schema: Schema, task: StatisticTask, epsilon: float) -> Case:
    """Rows that turn one by one: there the scale of a median's noise changes most."""
    low, high = corners(schema)
    tables = [tuple([high] * k + [low] * (schema.rows - k)) for k in range(schema.rows)]
    job = TaskSpec(task=task, privacy=PrivacySpec(delta=DELTA, epsilon=epsilon))
    name = f"{name}, epsilon {epsilon:g}"
    return case_of(name, "release_statistic", schema, job, tables=tuple(tables), at=schema.rows - 1)


def at_their_ends() -> Iterator[Case]:
    """Every number of every algorithm's options, of models and of privacy, at its ends."""
    bases = {
        algorithm: [made for f in families_of(algorithm) if (made := base(algorithm, f))]
        for algorithm in ALGORITHMS
    }
    for (part, path), ends in search.discovered(bases).items():
        place = part if part in ("model", "privacy") else "sampler"
        for value in sorted({ends.low, ends.high}) if ends is not None else ():
            for algorithm, some in bases.items():
                if part not in ("model", "privacy", algorithm):
                    continue
                for made in some:
                    job = {**made.job, place: put(made.job[place], path, value)}
                    if place == "privacy" and path == ("epsilon",):
                        job[place].pop("noise_multiplier")
                    request = Request(made.columns, made.rows, job)
                    if search.admitted(request):
                        yield of_request(f"{algorithm}, {'/'.join(path)} at {value:g}", request)
                        break


def cases(*, quick: bool) -> list[Case]:
    """Return what is replayed. quick: what takes a minute."""
    usual = [*chains_and_releases(), *sharp(), *kinds_of_jobs(), *persons(), *wide(), *tasks()]
    usual += [*far_out(), *tables_and_summaries(), *thin(), *checks()]
    return usual if quick else [*usual, *at_their_ends()]
