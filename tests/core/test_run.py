import inspect
import math
import os

import numpy as np
import pytest

import dpmcmc
from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, PermitError, Private, Released
from dpmcmc.fit.local import sample, table_of
from dpmcmc.fit.run import block_length, rows_read, run
from dpmcmc.inputs.options import (
    DpMalaOptions,
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    Proposal,
)
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Gaussian, Repeat

ROWS = 60
FORMULA = "ill ~ age + group"


def job(formula=FORMULA, steps=40, **options):
    return JobSpec(
        model=ModelSpec(family="logistic", formula=formula),
        sampler=DpPenaltyOptions(num_steps=steps, **{"num_chains": 2, **options}),
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=2.0),
    )


@pytest.fixture
def schema(schema_of):
    return schema_of(ROWS)


@pytest.fixture
def rows(schema, people):
    return Private(table_of(schema, people(ROWS)), subject="d1")


def draws_of(schema, spec, rows, random=None):
    made = plan(schema, spec)
    permit = Permit(subject="d1", event_digest=digest(made.event))
    blocks = list(run(schema, made.spec, rows, permit, random=random))
    assert all(isinstance(block, Released) for block in blocks)
    return blocks


@pytest.mark.compiled("thousands of steps")
def test_blocks_make_up_the_whole_chain_with_warmup(schema, rows):
    blocks = draws_of(schema, job(steps=5000, num_warmup=10), rows)
    assert 5 <= len(blocks) <= 50
    draws = np.concatenate([block.value for block in blocks], axis=1)
    assert draws.shape == (2, 5000, 4)
    assert draws.dtype == np.float64
    assert np.isfinite(draws).all()


def test_a_permit_for_another_event_opens_nothing(schema, rows):
    made = plan(schema, job())
    permit = Permit(subject="d1", event_digest=digest(Repeat(Gaussian(2.0), 79)))
    with pytest.raises(PermitError):
        run(schema, made.spec, rows, permit)


def test_a_permit_for_another_dataset_opens_nothing(schema, rows):
    made = plan(schema, job())
    with pytest.raises(PermitError):
        run(schema, made.spec, rows, Permit(subject="d2", event_digest=digest(made.event)))


def in_a_fork(work):
    """Return how a forked process ended: 0 where work was refused there with a PermitError."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except PermitError as error:
            os._exit(0 if "another process" in str(error) else 2)
        except BaseException:
            os._exit(3)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_process_does_not_draw_what_its_parent_may_draw(schema, rows):
    """A fork copies the permit, and the run: both would add noise of their own to the same rows."""
    made = plan(schema, job())
    permit = Permit(subject="d1", event_digest=digest(made.event))
    assert in_a_fork(lambda: run(schema, made.spec, rows, permit)) == 0
    running = run(schema, made.spec, rows, permit)
    assert in_a_fork(lambda: next(running)) == 0
    assert len(list(running)) > 0


def test_a_permit_runs_once(schema, rows):
    made = plan(schema, job())
    permit = Permit(subject="d1", event_digest=digest(made.event))
    list(run(schema, made.spec, rows, permit))
    with pytest.raises(PermitError, match="used before"):
        run(schema, made.spec, rows, permit)


def test_fresh_noise_in_every_run(schema, rows):
    runs = (draws_of(schema, job(), rows) for _ in range(2))
    first, second = (np.concatenate([block.value for block in blocks], axis=1) for blocks in runs)
    assert not np.array_equal(first, second)


def test_no_public_way_to_seed_or_silence_the_noise():
    for function in (run, sample):
        names = set(inspect.signature(function).parameters)
        assert not names & {"seed", "noise", "key", "rng", "debug"}
        assert inspect.signature(function).parameters["random"].default is None


def test_the_order_of_rows_does_not_show(schema, people, seeded):
    """Fewer rows than a lane group would hide nothing: sums are exact up to their public grid."""
    data = people(ROWS)
    order = np.random.default_rng(0).permutation(ROWS)
    mixed = {name: values[order] for name, values in data.items()}
    draws = [
        draws_of(schema, job(), Private(table_of(schema, d), subject="d1"), seeded(4))
        for d in (data, mixed)
    ]
    for left, right in zip(*draws, strict=True):
        assert left.value == pytest.approx(right.value, abs=1e-9)


def test_blocks_do_not_depend_on_rows(schema, people, seeded):
    lengths = []
    for seed in (1, 2):
        private = Private(table_of(schema, people(ROWS, seed)), subject="d1")
        lengths.append([b.value.shape for b in draws_of(schema, job(), private, seeded(4))])
    assert lengths[0] == lengths[1]


def test_blocks_are_short_where_rows_are_many():
    assert block_length(100, 3, 1, 900) == 900  # a short job is stored at once
    assert block_length(100, 3, 1, 100_000) == 4000
    assert block_length(10**6, 10, 4, 100_000) < 100
    assert block_length(10**12, 10, 4, 100) == 1
    assert rows_read(DpPenaltyOptions(), 10**6) == 10**6
    assert rows_read(DpPenaltySubsampledOptions(batch=1000), 10**6) == 3000
    assert rows_read(DpPenaltySubsampledOptions(batch=1000), 1500) == 1500
    assert block_length(10, 3, 1, 1) == 1


@pytest.mark.parametrize("kind", ["full", "component"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1000.0])
def test_absurd_scales_give_finite_chains(schema, rows, kind, scale):
    spec = job(proposal=Proposal(kind=kind, scale=scale))
    for block in draws_of(schema, spec, rows):
        assert np.isfinite(block.value).all()


@pytest.mark.parametrize("prior", [1e-3, 1e3])
@pytest.mark.parametrize("count", [1, 2, 17])
def test_few_rows_give_finite_chains(schema_of, people, prior, count):
    """`sample` refuses these; a run of such a plan all the same never fails on its rows."""
    schema = schema_of(count)
    model = ModelSpec(family="logistic", formula=FORMULA, prior=NormalPrior(scale=prior))
    spec = JobSpec(
        model=model,
        sampler=DpPenaltyOptions(num_steps=30),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    few = Private(table_of(schema, people(count)), subject="d1")
    for block in draws_of(schema, spec, few):
        assert np.isfinite(block.value).all()


def test_tables_with_impossible_entries_give_finite_chains(schema, people):
    table = table_of(schema, people(ROWS))
    broken = {**table.columns, "age": np.full(ROWS, np.nan), "group": np.full(ROWS, 77, np.int32)}
    private = Private(Table(columns=broken, rows=ROWS), subject="d1")
    for block in draws_of(schema, job(), private):
        assert np.isfinite(block.value).all()


def test_collinear_columns_give_finite_chains(schema, people):
    data = people(ROWS)
    data["body mass"] = 10 + (data["age"] - 20) * 40 / 60
    private = Private(table_of(schema, data), subject="d1")
    for block in draws_of(schema, job("ill ~ age + `body mass`"), private):
        assert np.isfinite(block.value).all()


def test_sample_is_the_same_path_with_the_cost_beside_it(schema, people):
    result = dpmcmc.sample(
        people(ROWS),
        schema=schema,
        model=ModelSpec(family="logistic", formula=FORMULA),
        delta=1e-6,
        epsilon=2.0,
        sampler=DpPenaltyOptions(num_steps=50, num_chains=2, num_warmup=20),
        accept_low_quality=True,
    )
    assert result.draws.shape == (2, 50, 4)
    assert result.cost.epsilon <= 2.0
    data = result.to_datatree()["posterior"]
    assert dict(data.sizes) == {"chain": 2, "draw": 30}
    assert list(data.data_vars) == list(result.plan.parameters)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("age", [math.nan] * ROWS),
        ("age", [math.inf] * ROWS),
        ("group", ["nobody"] * ROWS),
        ("ill", [1] * ROWS),
        ("age", [30.0] * (ROWS - 1)),
    ],
)
def test_data_that_do_not_suit_the_schema_are_refused_without_their_values(
    schema, people, column, values
):
    with pytest.raises(ValueError, match=column) as caught:
        table_of(schema, {**people(ROWS), column: values})
    assert "nobody" not in str(caught.value)


def test_a_missing_column_is_refused(schema, people):
    data = people(ROWS)
    del data["age"]
    with pytest.raises(ValueError, match="age"):
        table_of(schema, data)


def test_numbers_are_clamped(schema, people):
    data = people(ROWS)
    data["age"][:2] = (-5, 500)
    column = schema.columns[0]
    assert isinstance(column, NumberColumn)
    assert table_of(schema, data).columns["age"][:2].tolist() == [column.lower, column.upper]


@pytest.mark.compiled("thousands of steps")
def test_an_algorithm_by_its_name_is_left_to_the_planner(schema_of, people):
    def found(sampler):
        return sample(
            people(200),
            schema=schema_of(200),
            model=ModelSpec(family="logistic", formula=FORMULA),
            delta=1e-6,
            epsilon=0.1,
            sampler=sampler,
            accept_low_quality=True,
        ).plan.spec.sampler

    assert found("dp_mala") == found(DpMalaOptions())
    assert found("auto") == found(None)
    with pytest.raises(SpecError, match="dp_mala") as caught:
        found("dp_walk")
    assert caught.value.pointer == "/sampler"


def test_categories_may_be_coded_as_numbers():
    schema = Schema(columns=(BinaryColumn(name="y", categories=("0", "1")),), rows=3)
    assert table_of(schema, {"y": np.array([1, 0, 1])}).columns["y"].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="'y'"):
        table_of(schema, {"y": [0, 1, 2]})
