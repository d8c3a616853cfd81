"""Rows with a declared missing code: nothing is said by them, and nothing tells how many there are.

Each family is compared with the same rows without those that are left out.
"""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import (
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    NoisyQuadraticOptions,
)
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.kernels.compiled import batches
from dpmcmc.mechanisms import joint_sums, sums
from dpmcmc.mechanisms.joint_sums import Block, Caps, release
from dpmcmc.planner import plan
from tests.sources import Seeded

CODE = -200.0
AIR = Path(__file__).resolve().parents[3] / "shared/data/datasets/airquality_thesis003.csv.gz"
MODELS_TRIED = {
    "logistic": ModelSpec(family="logistic", formula="y ~ a + b"),
    "poisson": ModelSpec(family="poisson", formula="c ~ a + b"),
    "linear": ModelSpec(family="linear", formula="t ~ a + b"),
    "known noise": ModelSpec(
        family="linear", formula="t ~ a + b", options=ModelOptions(noise_scale=1.0)
    ),
    "gaussian_mean": ModelSpec(family="gaussian_mean", formula="~ a + t"),
    "banana": ModelSpec(
        family="banana", formula="~ a + t", options=ModelOptions(coordinates="natural")
    ),
}


def schema_of(rows, codes=(CODE,), least=0.0):
    return Schema(
        columns=(
            NumberColumn(name="a", lower=-1.0, upper=2.0, missing=codes),
            NumberColumn(name="b", lower=-1.0, upper=1.0),
            NumberColumn(name="t", lower=-4.0, upper=9.0, missing=codes),
            NumberColumn(name="c", lower=least, upper=60.0, missing=codes),
            BinaryColumn(name="y", categories=("no", "yes")),
        ),
        rows=rows,
    )


def people(rows, seed=1, part=0.3):
    """Rows, some with codes in any of the columns, and whether a row has one in a or the other."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 2, rows), rng.uniform(-1, 1, rows)
    eta = -0.3 + 0.6 * a - 0.8 * b
    data = {
        "a": a,
        "b": b,
        "t": np.clip(eta + rng.standard_normal(rows), -4, 9),
        "c": np.clip(rng.poisson(np.exp(eta + 1.0)), 0, 60).astype(float),
        "y": np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-eta)), "yes", "no"),
    }
    lost = {name: rng.random(rows) < part for name in "atc"}
    return {name: np.where(lost[name], CODE, v) if name in lost else v for name, v in data.items()}


def columns_of(model):
    return [name for name in "atc" if name in model.formula.replace("gaussian", "")]


def complete(data, model):
    there = np.ones(len(data["b"]), bool)
    for name in columns_of(model):
        there &= data[name] != CODE
    return there


def target_of(model, data, chains=1, schema=None, **numbers):
    rows = len(data["b"])
    schema = schema or schema_of(rows)
    design = make_design(schema, model.formula)
    family = MODELS[model.family]
    options = DpPenaltyOptions(num_steps=1, num_chains=chains, **numbers)
    privacy = PrivacySpec(delta=1e-6, noise_multiplier=1.0)
    spec = JobSpec(model=family.resolved(design, model), sampler=options, privacy=privacy)
    return family.target(design, spec, table_of(schema, data), chains)


def test_codes_are_kept_and_all_else_is_clamped():
    column = NumberColumn(name="x", lower=0.0, upper=1.0, missing=(-200.0, 0.5))
    found = column.clamped(np.array([-200.0, -199.0, 0.25, 7.0, 0.5]))
    assert found.tolist() == [-200.0, 0.0, 0.25, 1.0, 0.5]
    schema = Schema(columns=(column,), rows=2)
    assert table_of(schema, {"x": [-200.0, 3.0]}).columns["x"].tolist() == [-200.0, 1.0]


def test_only_models_that_use_the_column_leave_its_rows_out():
    data, schema = people(50), schema_of(50)
    table = table_of(schema, data)
    x, y = make_design(schema, "t ~ a + b").build(table)
    out = ~complete(data, MODELS_TRIED["linear"])
    assert (x[:, out] == 0.0).all()
    assert np.isnan(y[out]).all()
    assert np.isfinite(y[~out]).all()
    assert (x[0, ~out] == 1.0).all()
    assert not make_design(schema, "y ~ b").gappy
    assert np.isfinite(make_design(schema, "y ~ b").build(table)[1]).all()


@pytest.mark.parametrize("name", MODELS_TRIED)
@pytest.mark.parametrize("size", [1e-4, 0.1, 3.0])
def test_a_row_that_is_left_out_changes_no_ratio(name, size):
    """Up to cells: a sum over all rows has about 2^-40 of an interval for each of them."""
    model, data = MODELS_TRIED[name], people(3000)
    there = complete(data, model)
    kept = {key: values[there] for key, values in data.items()}
    whole, part = target_of(model, data), target_of(model, kept)
    rng = np.random.default_rng(2)
    for _ in range(5):
        deltas = rng.normal(size=whole.position.shape) * size
        sums, sensitivities, _ = whole.vector_ratios(deltas)
        others, _, _ = part.vector_ratios(deltas)
        assert sums[0] == pytest.approx(others[0], rel=2e-5, abs=1e-6 * sensitivities[0])
        for target in (whole, part):
            target.vector_commit(deltas, np.array([True]))


@pytest.mark.parametrize("name", MODELS_TRIED)
@pytest.mark.parametrize("clip", [0.5, 1e3])
def test_a_row_that_is_left_out_changes_no_gradient(name, clip):
    model, data = MODELS_TRIED[name], people(3000)
    there = complete(data, model)
    whole, part = (
        target_of(model, data),
        target_of(model, {key: values[there] for key, values in data.items()}),
    )
    rng = np.random.default_rng(3)
    for size in (0.1, 2.0):
        at = whole.position + size * rng.normal(size=whole.position.shape)
        sums, sensitivity = whole.gradient(at, clip)
        others, _ = part.gradient(at, clip)
        assert sums == pytest.approx(others, abs=1e-5 * sensitivity * len(there))
        assert np.abs(sums).max() > 0.0


@pytest.mark.longer
@pytest.mark.parametrize("name", MODELS_TRIED)
def test_a_row_that_comes_or_goes_changes_a_ratio_sum_by_no_more_than_is_charged(name):
    """Also where the interval of all other rows is far from 0, as that of a count of 5 or more."""
    model, rng = MODELS_TRIED[name], np.random.default_rng(4)
    schema, worst = schema_of(3, least=5.0), 0.0
    formula = model.formula.replace(" ~ a + b", " ~ a")
    model = replace(model, formula=formula)
    for _ in range(300):
        data = people(3, seed=int(rng.integers(10**6)), part=0.0)
        data["c"] = np.maximum(data["c"], 5.0)
        for key in ("a", "t", "c"):
            data[key][0] = rng.choice([-4.0, -1.0, 2.0, 9.0, 60.0])
        gone = {key: np.array(values) for key, values in data.items()}
        gone["a"][0] = CODE
        sums = []
        position = rng.normal(size=2) * 3.0
        for rows in (data, gone):
            target = target_of(model, rows, schema=schema)
            target.position[0, :2] = position
            target.refresh()
            deltas = np.zeros(target.position.shape)
            deltas[0] = np.sign(position[0]) * 0.3
            found, sensitivity, _ = target.vector_ratios(deltas)
            sums.append(found[0])
        worst = max(worst, abs(sums[1] - sums[0]) / sensitivity[0])
    assert 0.0 < worst <= 1.0


@pytest.mark.parametrize("name", MODELS_TRIED)
@pytest.mark.parametrize("size", [1e-3, 2.0])
def test_a_row_that_is_left_out_adds_nothing_to_a_batch(name, size):
    """All rows as one batch: sum and squares are those of the complete rows around the middle."""
    model, data = MODELS_TRIED[name], people(1000)
    there = complete(data, model)
    rng = np.random.default_rng(5)
    d = target_of(model, data).position.shape[1]
    start, move = rng.normal(size=d), size * rng.normal(size=d)
    found = []
    for rows in (data, {key: values[there] for key, values in data.items()}):
        target = target_of(model, rows)
        public, count = target._form.public, len(rows["b"])
        before, aux = target._position_facts.describe_all(public, np.array([start, start + move]))
        ends = (before[0], aux[0], before[1], aux[1])
        chosen = np.arange(count, dtype=np.int32)
        unit, middle = 2.0**-14, 0.7
        told = batches.sums(
            *(target.table(), len(public.lower), target._form.max_row_norm, public.family),
            *(chosen, count, ends, (1.0 / unit, middle / unit), np.empty((4, 256))),
        )
        found.append((told, count))
    (one, rows), (other, fewer) = found
    out, shift = rows - fewer, round(-0.7 * 2.0**14)
    assert out > 100
    assert one[0] - out * shift == pytest.approx(other[0], abs=out)
    assert one[1] - out * shift**2 == pytest.approx(other[1], rel=1e-3)


CAPS = Caps(3.0, 2.0, 1.5, 4.0, (0.6, 0.2, 0.1, 0.1))


def flat_of(monkeypatch, vectors, counted):
    seen = {}

    def spy(total, sensitivity, z, noise):
        seen["flat"], seen["sensitivity"] = np.array(total), sensitivity
        return total

    monkeypatch.setattr(sums, "noisy_sums", spy)
    block = Block(vectors, (vectors,), (vectors,), vectors[0] ** 2, counted)
    release([block], len(vectors), vectors.shape[1], CAPS, 1.0, Seeded(1), gaps=True)
    return seen["flat"], seen["sensitivity"]


def test_a_number_of_rows_rides_along_with_joint_sums_for_free(monkeypatch):
    """Rows as long as can be, which come, go or turn round."""
    rng, apart = np.random.default_rng(6), []
    for _ in range(200):
        vectors, other = rng.normal(size=(2, 2, 4)) * 1e6
        other[:, 1:] = vectors[:, 1:]
        kinds = rng.integers(0, 2, (2, 4)).astype(float)
        kinds[1, 1:] = kinds[0, 1:]
        first, charged = flat_of(monkeypatch, vectors, kinds[0])
        second, _ = flat_of(monkeypatch, other, kinds[1])
        apart.append(np.linalg.norm(first - second))
        assert first[-1] * joint_sums.COUNT_SCALE == pytest.approx(kinds[0].sum(), rel=1e-9)
    assert 0.9 < max(apart) <= charged


def test_a_number_of_rows_rides_along_with_noisy_means_for_free(monkeypatch):
    """One row that is at the clip, and is then left out."""
    from dpmcmc.releases import noisy_mean

    seen = []
    monkeypatch.setattr(sums, "noisy_sums", lambda s, *_: seen.append(np.array(s)) or s)
    for value in (2.0, -1.0, CODE):
        data = people(1, part=0.0)
        data["a"], data["t"] = np.array([value]), np.array([9.0 if value > 0 else -4.0])
        target = target_of(MODELS_TRIED["gaussian_mean"], data)
        clip = 0.25
        noisy_mean.released_sum(target, np.zeros(2), clip, 1.0, Seeded(1))
    sensitivity = 2.0 * clip
    assert np.linalg.norm(seen[0] - seen[1]) <= sensitivity
    assert 0.99 * sensitivity < np.linalg.norm(seen[0] - seen[2]) <= sensitivity
    assert seen[2][0].tolist() == [0.0, 0.0, 0.0]


TRUTH = {"y": [-0.3, 0.6, -0.8], "c": [0.7, 0.6, -0.8], "t": [-0.3, 0.6, -0.8]}


@pytest.mark.parametrize(
    ("family", "response"), [("logistic", "y"), ("poisson", "c"), ("linear", "t")]
)
@pytest.mark.parametrize(("epsilon", "part"), [(1e5, 0.2), (4.0, 0.3), (1e5, 0.6)])
def test_a_release_finds_the_posterior_of_complete_rows(family, response, epsilon, part):
    """By the design's columns: a runs from -1 to 2, so its middle is .5 and its half 1.5."""
    rows, model = 40_000, ModelSpec(family=family, formula=f"{response} ~ a + b")
    data = people(rows, seed=7, part=part)
    result = sample(
        data,
        schema=schema_of(rows),
        model=model,
        delta=1e-6,
        epsilon=epsilon,
        sampler=NoisyQuadraticOptions(estimand="robust"),
        random=Seeded(8),
    )
    draws = result.draws.reshape(-1, result.draws.shape[2])
    first, *slopes = TRUTH[response]
    truth = np.array([first + 0.5 * slopes[0], 1.5 * slopes[0], slopes[1]])
    away = (draws[:, :3].mean(axis=0) - truth) / draws[:, :3].std(axis=0)
    assert np.abs(away).max() < 5.0
    assert result.verdict.status == "reliable"
    count = complete(data, model).sum()
    told = result.release.to_dict()
    assert told["rows"] == pytest.approx(count, abs=8.0 * 2.0**0.5 * told["noise_multiplier"] + 1)
    assert "complete" in result.verdict.sentence


def test_several_classes_are_those_of_complete_rows():
    rows = 20_000
    data = people(rows, seed=16, part=0.4)
    there = data["a"] != CODE
    chance = np.random.default_rng(17).random(rows)
    data["g"] = np.where(chance < 0.3, "p", np.where(data["b"] + chance < 1.0, "q", "r"))

    def answer(some, codes):
        columns = (
            NumberColumn(name="a", lower=-1.0, upper=2.0, missing=codes),
            NumberColumn(name="b", lower=-1.0, upper=1.0),
            CategoryColumn(name="g", categories=("p", "q", "r")),
        )
        return sample(
            some,
            schema=Schema(columns=columns, rows=len(some["b"])),
            model=ModelSpec(family="multinomial", formula="g ~ a + b"),
            delta=1e-6,
            epsilon=1e5,
            sampler="noisy_quadratic",
            random=Seeded(18),
        ).draws.reshape(-1, 6)

    declared = answer(data, (CODE,))
    alone = answer({key: values[there] for key, values in data.items()}, ())
    assert np.abs((declared.mean(axis=0) - alone.mean(axis=0)) / alone.std(axis=0)).max() < 1.0
    assert declared.std(axis=0) == pytest.approx(alone.std(axis=0), rel=0.15)


def test_widths_are_those_of_complete_rows():
    """Six rows of ten are left out: sds as without those rows, also of the log scale."""
    rows, model = 40_000, ModelSpec(family="linear", formula="t ~ a + b")
    data = people(rows, seed=9, part=1.0 - 0.4**0.5)
    there = complete(data, model)
    kept = {key: values[there] for key, values in data.items()}
    sds = []
    for some in (data, kept):
        result = sample(
            some,
            schema=schema_of(len(some["b"])),
            model=model,
            delta=1e-6,
            epsilon=1e5,
            sampler="noisy_quadratic",
            random=Seeded(10),
        )
        sds.append(result.draws.reshape(-1, 4).std(axis=0))
    assert there.sum() < 0.42 * rows
    assert sds[0] == pytest.approx(sds[1], rel=0.12)  # a sampled sd is off by .016 of itself


@pytest.mark.parametrize("epsilon", [1.0, 1e4])
def test_noisy_means_are_of_complete_rows(epsilon):
    rows = 20_000
    rng = np.random.default_rng(11)
    a, t = 0.9 + 0.7 * rng.standard_normal(rows), 3.0 + 3.0 * rng.standard_normal(rows)
    out = rng.random(rows) < 0.5
    data = {**people(rows, part=0.0), "a": np.clip(a, -1, 2), "t": np.clip(t, -4, 9)}
    data["a"] = np.where(out, CODE, data["a"])
    result = sample(
        data,
        schema=schema_of(rows),
        model=MODELS_TRIED["gaussian_mean"],
        delta=1e-6,
        epsilon=epsilon,
        random=Seeded(12),
    )
    draws = result.draws.reshape(-1, 2)
    wanted = [data["a"][~out].mean(), data["t"][~out].mean()]
    assert np.abs((draws.mean(axis=0) - wanted) / draws.std(axis=0)).max() < 5.0
    told = result.release.to_dict()
    assert told["complete"] == pytest.approx((~out).sum(), abs=6.0 * told["complete_sd"] + 1.0)
    if epsilon > 100.0:  # known variances of a quarter of the range: sd / sqrt(10,000)
        assert draws.std(axis=0) == pytest.approx(np.array([0.75, 3.25]) / 100.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.compiled("thousands of steps")
@pytest.mark.parametrize("sampler", ["dp_penalty", "dp_hmc", "dp_penalty_subsampled", "dp_barker"])
def test_chains_find_the_posterior_of_complete_rows(sampler):
    """Half of 30,000 rows is left out; were they 0s, the mean would be off by tens of sds."""
    rows = 30_000
    data = people(rows, seed=13, part=0.5)
    result = sample(
        data,
        schema=schema_of(rows),
        model=ModelSpec(family="gaussian_mean", formula="~ a + b"),
        delta=1e-6,
        epsilon=60.0,
        sampler=sampler,
        random=Seeded(14),
        accept_low_quality=True,
    )
    draws = result.draws[:, result.plan.num_warmup :].reshape(-1, 2)
    there = data["a"] != CODE
    wanted = [data["a"][there].mean(), data["b"][there].mean()]
    widths = np.array([0.75, 0.5]) / np.sqrt(there.sum())
    assert np.abs((draws.mean(axis=0) - wanted) / widths).max() < 6.0


def test_a_plan_says_that_rows_are_left_out_and_a_prediction_takes_no_code():
    schema = schema_of(1000)
    job = JobSpec(
        model=MODELS_TRIED["logistic"],
        sampler=DpPenaltySubsampledOptions(num_chains=1),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    assert "missing code in a are left out" in plan(schema, job).warnings[0]
    other = replace(job, model=ModelSpec(family="logistic", formula="y ~ b"))
    assert not any("missing" in said for said in plan(schema, other).warnings)
    result = sample(
        people(1000),
        schema=schema,
        model=MODELS_TRIED["logistic"],
        delta=1e-6,
        epsilon=50.0,
        sampler="noisy_quadratic",
    )
    with pytest.raises(SpecError, match="missing code"):
        result.release.posterior(num_draws=10).predict([{"a": CODE, "b": 0.0}])


def test_air_quality_with_its_codes():
    """The 827 rows without any -200 alone, and all 9,357 with the code declared: one answer."""
    if not AIR.is_file():
        pytest.skip("the air quality data are not there")
    with gzip.open(AIR, "rt", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    names = ("C6H6_GT", "NOx_GT", "T", "RH")
    data = {name: np.array([float(line[name]) for line in lines]) for name in names}
    there = np.all([data[name] != CODE for name in names], axis=0)
    ends = {"C6H6_GT": (0.0, 65.0), "NOx_GT": (0.0, 1500.0), "T": (-5.0, 45.0), "RH": (0.0, 100.0)}

    def answer(rows, codes):
        columns = tuple(
            NumberColumn(name=name, lower=ends[name][0], upper=ends[name][1], missing=codes)
            for name in names
        )
        return sample(
            rows,
            schema=Schema(columns=columns, rows=len(rows["T"])),
            model=ModelSpec(
                family="linear", formula="C6H6_GT ~ NOx_GT + T + RH", prior=NormalPrior(scale=1e3)
            ),
            delta=1e-6,
            epsilon=1e5,
            sampler="noisy_quadratic",
            random=Seeded(15),
        ).draws.reshape(-1, 5)

    declared = answer(data, (CODE,))
    alone = answer({name: values[there] for name, values in data.items()}, ())
    assert 5000 < there.sum() < 9000
    assert np.abs((declared.mean(axis=0) - alone.mean(axis=0)) / alone.std(axis=0)).max() < 1.0
    assert declared.std(axis=0) == pytest.approx(alone.std(axis=0), rel=0.15)


def test_a_table_is_what_it_was_where_nothing_is_declared():
    """No code, no cost: the rows of a normal model hold no mark."""
    data = people(100, part=0.0)
    plain, marked = (
        target_of(MODELS_TRIED["gaussian_mean"], data, schema=schema_of(100, codes))
        for codes in ((), (CODE,))
    )
    assert plain.table().shape[1] < marked.table().shape[1] or not plain.table()[:, 2:].any()
    assert not plain.gaps
    assert marked.gaps
    assert isinstance(table_of(schema_of(100), data), Table)
