"""Whatever is asked of whatever rows: an error that names its field, or a finite chain, soon."""

import math
import time
from dataclasses import fields

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample, table_of
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.planner.resolve import FEWEST_ROWS
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS

FORMULAS = {
    "logistic": "y ~ x + C(g)",
    "linear": "z ~ x + C(g)",
    "poisson": "count ~ x + C(g)",
    "gaussian_mean": "~ x + z",
    "banana": "~ x + z",
}
ROWS, STEPS = 24, 12
SOON = 60.0  # seconds, the first use of a kernel and a busy machine included
WRONG = (math.nan, math.inf, -math.inf, -1.0, 0.0)
every_sampler = pytest.mark.parametrize("algorithm", SAMPLERS)
every_family = pytest.mark.parametrize("family", FORMULAS)


def schema_of(rows, bounds=(-2.0, 4.0), most=6.0):
    return Schema(
        columns=(
            NumberColumn(name="x", lower=bounds[0], upper=bounds[1]),
            NumberColumn(name="z", lower=bounds[0], upper=bounds[1]),
            NumberColumn(name="count", lower=0.0, upper=most),
            CategoryColumn(name="g", categories=("a", "b", "c")),
            BinaryColumn(name="y", categories=("no", "yes")),
        ),
        rows=rows,
    )


def rows_of(schema, seed=0, **columns):
    rng, rows = np.random.default_rng(seed), schema.rows
    found = {}
    for column in schema.columns:
        if isinstance(column, NumberColumn):
            found[column.name] = column.lower + rng.random(rows) * (column.upper - column.lower)
        else:
            found[column.name] = rng.choice(column.categories, rows)
    return {**found, **columns}


def options_of(algorithm, **options):
    """Options of a short chain, and those of `options` that the sampler knows."""
    kind = SAMPLERS[algorithm].options
    known = {field.name for field in fields(kind)}
    wanted = {"num_steps": STEPS, **options}
    return kind(**{key: value for key, value in wanted.items() if key in known})


def outcome(family, algorithm, schema, columns=None, model=None, privacy=None, **options):
    """The plan of a finite chain that came soon, or the SpecError."""
    began = time.monotonic()
    try:
        result = sample(
            rows_of(schema) if columns is None else columns,
            schema=schema,
            model=ModelSpec(**{"family": family, "formula": FORMULAS[family], **(model or {})}),
            **{"delta": 1e-6, "epsilon": 1.0, **(privacy or {})},
            sampler=options_of(algorithm, **options),
            accept_low_quality=True,
        )
    except SpecError as error:
        return error
    assert time.monotonic() - began < SOON
    assert np.isfinite(result.draws).all()
    made = result.plan
    assert result.draws.shape == (made.num_chains, made.num_steps, len(made.parameters))
    assert math.isfinite(made.expected_ess)
    return made


@pytest.mark.parametrize("family", MODELS)
def test_every_family_that_chains_know_is_tried_here(family):
    assert (family in FORMULAS) is MODELS[family].chains


@pytest.mark.slow
@every_family
@every_sampler
def test_odd_rows_give_finite_chains(algorithm, family):
    schema = schema_of(ROWS)
    line = np.linspace(-2.0, 4.0, ROWS)
    odd = {
        "collinear": {"x": line, "z": line},
        "constant": {
            "x": np.ones(ROWS),
            "z": np.full(ROWS, 4.0),
            "count": np.zeros(ROWS),
            "g": ["b"] * ROWS,
            "y": ["yes"] * ROWS,
        },
        "outside": {"x": 1e300 * (line - 1.0), "z": np.full(ROWS, -1e300)},
    }
    for columns in odd.values():
        made = outcome(family, algorithm, schema, rows_of(schema, **columns))
        assert not isinstance(made, SpecError)
        assert made.cost.epsilon <= 1.0


@pytest.mark.slow
@every_family
@every_sampler
def test_few_rows_are_said_to_be_too_few_and_others_give_finite_chains(algorithm, family):
    for rows in (0, 1, 2, 3, FEWEST_ROWS - 1, FEWEST_ROWS):
        made = outcome(family, algorithm, schema_of(rows))
        assert isinstance(made, SpecError) is (rows < FEWEST_ROWS)
        assert rows >= FEWEST_ROWS or made.pointer == "/dataset"


@pytest.mark.slow
@pytest.mark.compiled("chains of every sampler and family")
@every_family
@every_sampler
def test_extreme_bounds_give_finite_chains_or_an_error_on_the_formula(algorithm, family):
    for bounds in ((-1e12, 1e12), (1e12, 1e12 + 1.0), (-5e-13, 5e-13), (-1e300, 1e300)):
        made = outcome(family, algorithm, schema_of(ROWS, bounds=bounds))
        if isinstance(made, SpecError):
            assert made.pointer == "/model/formula"
            assert bounds == (-1e300, 1e300)
    for most in (1e12, 1e40):
        schema = schema_of(ROWS, most=most)
        made = outcome(family, algorithm, schema, rows_of(schema, count=np.full(ROWS, most)))
        assert not isinstance(made, SpecError)


@pytest.mark.slow
@pytest.mark.compiled("chains of every sampler and family")
@every_family
@every_sampler
def test_extreme_requests_give_finite_chains(algorithm, family):
    schema = schema_of(ROWS)
    requests = [
        {"num_chains": 16, "num_steps": 3, "num_warmup": 2},
        {"num_steps": 1, "privacy": {"epsilon": 1e-4}},
        {"privacy": {"epsilon": 1e9, "delta": 0.04}, "model": {"prior": NormalPrior(scale=1e6)}},
        {"privacy": {"delta": 1e-20}, "clip_bound": 1e-9},
        {"model": {"prior": NormalPrior(scale=1e-3), "tempering": 1e-9}},
    ]
    for request in requests:
        made = outcome(family, algorithm, schema, **request)
        assert not isinstance(made, SpecError), request


@every_family
@every_sampler
def test_huge_steps_give_finite_chains(algorithm, family):
    schema, kind = schema_of(ROWS), SAMPLERS[algorithm].options
    known = {field.name for field in fields(kind)}
    huge = [{key: 1e3} for key in ("scale", "step_size") if key in known]
    if "step_size" in known:
        huge.append({"step_size": 1e3, "start": None})
    if "proposal" in known:
        huge.append({"proposal": type(kind().proposal)(scale=1e3)})
    assert huge
    for options in huge:
        assert not isinstance(outcome(family, algorithm, schema, **options), SpecError)


@every_sampler
def test_numbers_that_are_none_name_their_field(algorithm):
    kind, schema = SAMPLERS[algorithm].options, schema_of(ROWS)
    known = {field.name for field in fields(kind)}
    fractions = {
        "scale",
        "step_size",
        "clip_bound",
        "gradient_clip",
        "gradient_noise_multiplier",
    } & known
    wholes = {"num_steps", "num_chains", "num_leapfrog", "batch"} & known
    cases = [(f"/sampler/{name}", {name: value}) for name in fractions for value in WRONG]
    cases += [
        (f"/sampler/{name}", {name: value}) for name in wholes for value in (-1, 0, 2.5, 10**7)
    ]
    cases += [("/sampler/num_warmup", {"num_warmup": number}) for number in (-1, STEPS, 10**7)]
    if "proposal" in known:
        scaled = [type(kind().proposal)(scale=value) for value in WRONG]
        cases += [("/sampler/proposal/scale", {"proposal": proposal}) for proposal in scaled]
    if "mass" in known:
        masses = [(), (1.0,), (math.nan,) * 4, (0.0,) * 4, (math.inf,) * 4]
        cases += [("/sampler/mass", {"mass": mass}) for mass in masses]
    for pointer, options in cases:
        found = outcome("logistic", algorithm, schema, **options)
        assert isinstance(found, SpecError), options
        assert found.pointer == pointer, options


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    ("pointer", "request_of"),
    [
        ("/privacy/epsilon", lambda v: {"privacy": {"epsilon": v}}),
        ("/privacy/delta", lambda v: {"privacy": {"delta": v}}),
        (
            "/privacy/noise_multiplier",
            lambda v: {"privacy": {"epsilon": None, "noise_multiplier": v}},
        ),
        ("/model/prior/scale", lambda v: {"model": {"prior": NormalPrior(scale=v)}}),
        ("/model/tempering", lambda v: {"model": {"tempering": v}}),
        (
            "/model/options/ratio_slope",
            lambda v: {"model": {"options": ModelOptions(ratio_slope=v)}},
        ),
        (
            "/model/options/noise_scale",
            lambda v: {"model": {"options": ModelOptions(noise_scale=v)}},
        ),
    ],
)
def test_numbers_of_a_job_that_are_none_name_their_field(pointer, request_of, value):
    found = outcome("linear", "dp_penalty", schema_of(ROWS), **request_of(value))
    assert isinstance(found, SpecError)
    assert found.pointer == pointer


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["a", "b", "m", "variances"])
def test_constants_of_a_banana_that_are_none_name_their_field(name, value):
    given = ModelOptions(**{name: (1.0, value) if name == "variances" else value})
    found = outcome("banana", "dp_penalty", schema_of(ROWS), model={"options": given})
    assert isinstance(found, SpecError)
    assert found.pointer == f"/model/options/{name}"


@pytest.mark.parametrize(
    "formula",
    ["y ~ 0 + x", "y ~ 1", "y ~ x * g", "y ~ x:z:count + g:x", "y ~ x - 1", "y ~ 0 + C(g)"],
)
@every_sampler
def test_formulas_with_crossings_or_without_a_level_give_finite_chains(algorithm, formula):
    made = outcome("logistic", algorithm, schema_of(ROWS), model={"formula": formula})
    assert not isinstance(made, SpecError)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (NumberColumn, {"lower": 1.0, "upper": 1.0}),
        (NumberColumn, {"lower": 2.0, "upper": 1.0}),
        (NumberColumn, {"lower": math.nan, "upper": 1.0}),
        (NumberColumn, {"lower": 0.0, "upper": math.inf}),
        (NumberColumn, {"lower": "0", "upper": "1"}),
        (NumberColumn, {"lower": 0, "upper": 1, "missing": (math.nan,)}),
        (CategoryColumn, {"categories": ("only",)}),
        (CategoryColumn, {"categories": ("same", "same")}),
        (CategoryColumn, {"categories": "words"}),
        (CategoryColumn, {"categories": ("a", None)}),
        (BinaryColumn, {"categories": ("a", "b", "c")}),
    ],
)
def test_columns_that_cannot_differ_are_refused_by_name_where_they_are_written(kind, given):
    with pytest.raises(ValueError, match="'x'"):
        kind(name="x", **given)


@pytest.mark.parametrize("family", ["linear", "poisson", "gaussian_mean"])
def test_rows_without_values_are_refused_before_anything_runs(family):
    schema = schema_of(ROWS)
    with pytest.raises(ValueError, match="must have"):
        table_of(schema, {name: [] for name in rows_of(schema)})
    with pytest.raises(ValueError, match="not finite"):
        outcome(family, "dp_penalty", schema, rows_of(schema, x=np.full(ROWS, np.nan)))


def test_bounds_that_nearly_meet_are_planned_or_refused():
    columns = (
        NumberColumn(name="x", lower=15160489.205317127, upper=15160489.559418203),
        NumberColumn(name="w", lower=-1.0, upper=1.0),
    )
    options = ModelOptions(a=1.0, b=1.0, coordinates="natural", ratio_slope=1e9)
    spec = JobSpec(
        model=ModelSpec(family="banana", formula="~ x + w", options=options),
        sampler=ALGORITHMS["dp_barker"].options(),
        privacy=PrivacySpec(epsilon=1e9, delta=0.0499997),
    )
    assert plan(Schema(columns=columns, rows=7), spec).cost.epsilon <= 1e9
