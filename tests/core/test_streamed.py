"""Rows that are read anew at every pass: the same bits as from memory, in a memory without n."""

import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.base.private import Permit, PermitError, Private
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import run
from dpmcmc.inputs import blocks
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.inputs.streamed import Streamed, in_blocks, pieces
from dpmcmc.planner import plan
from dpmcmc.privacy.event_json import digest
from dpmcmc.queries.summaries import call as summaries
from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles
from dpmcmc.queries.synthetic import call as synthetic
from dpmcmc.releases import design_rows, noisy_quadratic
from tests.sources import Seeded

ROWS = 20_011  # three blocks of a pass
BOUNDS = {
    "x": (-1, 1),
    "z": (0, 10),
    "w": (0.5, 2.0),
    "gap": (0, 1),
    "num": (-6, 6),
    "count": (0, 20),
    "yes": ("no", "yes"),
    "job": ("low", "mid", "high"),
    "g": ("a", "b", "c", "d"),
}
MODELS = {
    "linear": ("linear", "num ~ x + z + g", None),
    "gaps": ("linear", "num ~ gap + x", None),
    "weights": ("poisson", "count ~ x + offset(log(z + 1))", "w"),
    "logistic": ("logistic", "yes ~ x + z", None),
    "counts": ("poisson", "count ~ x + g", None),
    "multinomial": ("multinomial", "job ~ x + z", None),
    "ordinal": ("ordinal", "job ~ x + z", None),
    "student_t": ("student_t", "num ~ x", None),
    "groups": ("logistic", "yes ~ x + (1 | g)", None),
}


def people(rows=ROWS, seed=3):
    rng = np.random.default_rng(seed)
    x, z, g = rng.uniform(-1, 1, rows), rng.uniform(0, 10, rows), rng.choice(list("abcd"), rows)
    eta = 0.3 + x - 0.1 * z + 0.5 * (g == "b")
    return {
        "x": x,
        "z": z,
        "w": rng.uniform(0.5, 2.0, rows),
        "gap": np.where(rng.random(rows) < 0.1, -9.0, rng.uniform(0, 1, rows)),
        "num": np.clip(eta + rng.normal(size=rows), -6, 6),
        "count": np.minimum(rng.poisson(np.exp(0.5 * eta)), 20).astype(float),
        "yes": np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        "job": rng.choice(["low", "mid", "high"], rows),
        "g": g,
    }


@pytest.fixture(scope="module")
def table_and_schema():
    data = people()
    schema = Schema.from_frame(data, bounds=BOUNDS, missing={"gap": [-9.0]})
    return table_of(schema, data), schema


def streamed(schema, table, lengths=(4000, 1, 977, 16_384)):
    """The rows of a table in pieces of these lengths, over and over, with what was read."""
    read = []

    def tables(names):
        read.append(tuple(names))
        at, k = 0, 0
        while at < table.rows:
            end = min(at + lengths[k % len(lengths)], table.rows)
            part = table.between(at, end)
            columns = {name: part.columns[name].copy() for name in names}
            yield Table(columns, part.rows, part.present)
            at, k = end, k + 1

    return Streamed(schema, tables), read


def opened(rows, event):
    return Private(rows, subject="s"), Permit(subject="s", event_digest=digest(event))


def released(schema, planned, rows, random=None):
    """Draws, and what is stored, of a run on these rows."""
    running = run(schema, planned.spec, *opened(rows, planned.event), random=random or Seeded(1))
    draws = np.concatenate([block.value for block in running], axis=1)
    return draws, running.stored.to_dict()


def planned_for(schema, family, formula, weights=None, **more):
    options = NoisyQuadraticOptions(num_steps=20, num_chains=2)
    model = ModelSpec(family=family, formula=formula, weights=weights)
    privacy = PrivacySpec(epsilon=8.0, delta=1e-6)
    return plan(schema, JobSpec(model=model, sampler=options, privacy=privacy, **more))


@pytest.mark.parametrize("name", MODELS)
def test_bits_are_those_of_rows_in_memory(table_and_schema, monkeypatch, name):
    table, schema = table_and_schema
    planned = planned_for(schema, *MODELS[name])
    draws, stored = released(schema, planned, table)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    source, read = streamed(schema, table)
    draws_streamed, stored_streamed = released(schema, planned, source)
    assert stored_streamed == stored
    assert (draws_streamed == draws).all()
    passes = noisy_quadratic.passes(planned.spec.sampler, 1)
    assert 3 < len(read) <= passes
    formula = MODELS[name][1]
    assert all(set(names) <= {c for c in BOUNDS if c in formula} | {"w"} for names in read)


@pytest.mark.parametrize("max_rows", [3, 2])
def test_bits_are_those_of_persons_in_memory(monkeypatch, max_rows):
    rows = 30_000
    data = people(rows) | {"person": np.random.default_rng(5).integers(0, 11_000, rows)}
    schema = Schema.from_frame(
        data, bounds=BOUNDS, missing={"gap": [-9.0]}, privacy_unit="person", max_rows=3
    )
    table = table_of(schema, data)
    planned = planned_for(schema.with_max_rows(max_rows), "linear", "num ~ x + gap")
    used = schema.with_max_rows(max_rows)
    draws, stored = released(used, planned, table)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    draws_streamed, stored_streamed = released(used, planned, streamed(schema, table)[0])
    assert stored_streamed == stored
    assert (draws_streamed == draws).all()


def test_few_numbers_are_read_once_and_held(table_and_schema):
    table, schema = table_and_schema
    planned = planned_for(schema, "linear", "num ~ x")
    source, read = streamed(schema, table)
    assert (released(schema, planned, source)[0] == released(schema, planned, table)[0]).all()
    assert read == [("x", "num")]


def numbers(schema):
    """Rows of a schema of numbers that are made while they are read."""

    def tables(names):
        for at in range(0, schema.rows, 16_384):
            rng, rows = np.random.default_rng(at), min(16_384, schema.rows - at)
            columns = {name: rng.uniform(-1, 1, rows) for name in names}
            columns["y"] = np.clip(columns["y"] + columns["x0"], -1, 1)
            yield Table(columns, rows)

    return Streamed(schema, tables)


def peak(act):
    """The most bytes that Python and NumPy hold meanwhile beyond those before."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.longer
@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_of_a_release_does_not_grow_with_the_rows(monkeypatch, threads):
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    monkeypatch.setattr(design_rows, "MOST_ROWS", 8192)  # small blocks, so that few rows are many
    monkeypatch.setattr(blocks, "THREADS", threads)
    most = []
    for rows in (500_000, 100_000, 500_000):  # the first one loads what it needs
        names = ["y", "x0", "x1", "x2"]
        schema = Schema.from_frame(
            {name: np.zeros(1) for name in names}, bounds=dict.fromkeys(names, (-1, 1))
        )
        schema = replace(schema, rows=rows)
        planned = planned_for(schema, "linear", "y ~ x0 + x1 + x2")
        most.append(peak(lambda s=schema, p=planned: released(s, p, numbers(s))))
    if threads == 1:  # how many of a few blocks are there at once depends on who is slow
        assert most[2] < 1.1 * most[1]
    assert most[2] < 500_000 * 4 * 8 / 2


class CountingNoise(Seeded):
    """Counts what is drawn of it."""

    drawn = 0

    def normals(self, shape):
        type(self).drawn += 1
        return super().normals(shape)

    def integers(self, high, shape):
        type(self).drawn += 1
        return super().integers(high, shape)

    def words(self, count):
        type(self).drawn += 1
        return super().words(count)


@pytest.mark.parametrize("bad_pass", [1, 4])
def test_a_pass_that_breaks_off_draws_no_noise_and_ends_the_run(
    table_and_schema, monkeypatch, bad_pass
):
    table, schema = table_and_schema
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    planned = planned_for(schema, "linear", "num ~ x + z")
    seen = []

    def tables(names):
        seen.append(CountingNoise.drawn)
        yield Table({n: table.columns[n][:15_000] for n in names}, 15_000)
        if len(seen) == bad_pass:
            raise OSError("away")
        yield Table({n: table.columns[n][15_000:] for n in names}, table.rows - 15_000)

    monkeypatch.setattr(CountingNoise, "drawn", 0)
    running = run(
        schema,
        planned.spec,
        *opened(Streamed(schema, tables), planned.event),
        random=CountingNoise(1),
    )
    with pytest.raises(OSError, match="away"):
        next(running)
    assert CountingNoise.drawn == seen[-1]
    assert len(set(seen)) == bad_pass  # each pass before drew some
    with pytest.raises(StopIteration):  # there is no going on with other noise
        next(running)
    assert running.stored is None


@pytest.mark.parametrize("change", [-1, 1])
def test_rows_that_came_or_went_meanwhile_are_refused(table_and_schema, change):
    table, schema = table_and_schema
    source, _ = streamed(replace(schema, rows=schema.rows + change), table)
    with pytest.raises(ValueError, match="changed"):
        for _ in source.parts(["x"]):
            pass


def test_a_fork_does_not_read_on(table_and_schema):
    table, schema = table_and_schema
    source, read = streamed(schema, table)
    child = os.fork()
    if not child:
        try:
            next(source.parts(["x"]))
        except PermitError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(source.parts(["x"])).rows == 4000
    assert read == [("x",)]


def test_a_fork_does_not_have_rows_summed_elsewhere(table_and_schema):
    table, schema = table_and_schema
    source = Streamed(schema, lambda _: iter([table]), lambda *_: np.ones(1))
    child = os.fork()
    if not child:
        try:
            source.summed(["x"], 100, lambda _: np.zeros(1))
        except PermitError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.summed(["x"], 100, lambda _: np.zeros(1)) == 1.0


@pytest.mark.parametrize("size", [1, 977, 5000, ROWS, ROWS + 1])
def test_blocks_are_the_rows_in_order(table_and_schema, size):
    table, schema = table_and_schema
    blocks = list(in_blocks(streamed(schema, table)[0].parts(["x", "g"]), size))
    assert [block.rows for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    for name in ("x", "g"):
        whole = np.concatenate([block.columns[name] for block in blocks])
        assert (whole == table.columns[name]).all()


def test_summaries_and_marginals_are_those_of_rows_in_memory(table_and_schema, monkeypatch):
    table, schema = table_and_schema
    monkeypatch.setattr("dpmcmc.inputs.streamed.PIECE_ROWS", 4096)
    statistics = [Mean(column="gap"), Quantiles(column="z"), Counts(columns=("g", "x"))]
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    asked = summaries.planned(schema, statistics, privacy)
    tables = synthetic.planned(schema, privacy, columns=("g", "yes", "x"), bins={"x": 4})
    for module, wanted in ((summaries, asked), (synthetic, tables)):
        both = [
            module.release(wanted, *opened(rows, wanted.paid.event), Seeded(2))
            for rows in (table, streamed(schema, table)[0])
        ]
        assert (both[0] == both[1]).all()
    assert sum(1 for _ in pieces(streamed(schema, table)[0], ["x"])) == 5
