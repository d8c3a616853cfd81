"""Sums over blocks are the same bits on any number of threads, of few blocks at once."""

import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from dpmcmc.inputs import blocks
from dpmcmc.inputs.blocks import Blocks, added, each, one_blas_thread, shared_out, summed
from dpmcmc.inputs.streamed import Streamed
from dpmcmc.kernels import subnormals
from dpmcmc.releases.design_rows import BLOCK_NUMBERS, MOST_ROWS, HeldRows, block_rows
from tests.core.test_streamed import (
    design_rows,
    planned_for,
    released,
    streamed,
    table_and_schema,  # noqa: F401 - a fixture
)


def parts(count=40):
    return (
        np.random.default_rng(k).integers(-(2**40), 2**40, 7).astype(float) for k in range(count)
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_sum_has_the_same_bits_on_any_number_of_threads(monkeypatch, threads, count):
    monkeypatch.setattr(blocks, "THREADS", threads)
    assert (summed(parts(count), np.negative) == -added(parts(count))).all()


def test_few_parts_are_added_up_by_the_caller_alone(monkeypatch):
    monkeypatch.setattr(blocks, "THREADS", 3)
    seen = set()

    def change(part):
        seen.add(threading.get_ident())
        return -part

    assert (summed(parts(), change, few=True) == -added(parts())).all()
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 400])
def test_a_stack_of_matrices_has_the_same_bits_on_any_number_of_threads(
    monkeypatch, threads, count
):
    monkeypatch.setattr(blocks, "THREADS", threads)
    stack = np.random.default_rng(1).normal(size=(count, 11, 11))
    stack = stack + stack.swapaxes(1, 2)
    for found, whole in zip(shared_out(np.linalg.eigh, stack), np.linalg.eigh(stack), strict=True):
        np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(("width", "one"), [(blocks.NARROW, True), (blocks.NARROW + 1, False)])
def test_narrow_matrices_have_one_thread_of_blas_for_as_long_as_asked(width, one):
    before = blas_threads()
    with one_blas_thread(width):
        assert blas_threads() == ([1] * len(before) if one else before)
    assert blas_threads() == before


def test_blocks_are_computed_on_several_threads_and_few_are_held(monkeypatch):
    monkeypatch.setattr(blocks, "THREADS", 3)
    seen, taken, done = set(), [], []
    both = threading.Barrier(3)

    def read():
        for k in range(30):
            taken.append(k)
            assert len(taken) - len(done) <= (1 + blocks.AHEAD) * 3 + 2
            yield np.array([float(k)])

    def change(part):
        if part[0] < 3:
            both.wait(60)  # all three are at work at once
        seen.add(threading.get_ident())
        done.append(part)
        return part

    assert summed(read(), change) == sum(range(30))
    assert len(seen) == 3
    assert threading.get_ident() not in seen


def test_threads_flush_subnormal_numbers_and_heed_the_callers_errors(monkeypatch):
    monkeypatch.setattr(blocks, "THREADS", 2)

    def change(part):
        assert np.geterr()["divide"] == "call"
        return np.array([float(subnormals.control() & subnormals.BITS == subnormals.BITS)])

    with np.errstate(divide="call"):
        assert summed(parts(10), change) == 10


@pytest.mark.parametrize("broken", ["reading", "computing"])
def test_what_fails_ends_the_sum_and_leaves_no_thread(monkeypatch, broken):
    monkeypatch.setattr(blocks, "THREADS", 2)
    before = threading.active_count()

    def read():
        yield from parts(6)
        if broken == "reading":
            raise OSError("away")
        yield np.array([np.inf])

    def change(part):
        if np.isinf(part).any():
            raise OSError("away")
        return part

    with pytest.raises(OSError, match="away"):
        summed(read(), change)
    assert threading.active_count() == before


def test_steps_are_made_of_each_block_when_it_is_summed():
    made = []
    rows = Blocks(lambda change: summed(parts(3), change))
    doubled = each(lambda part: made.append(1) or 2 * part, rows)
    assert not made
    assert (added(doubled.map(np.negative)) == -2 * added(parts(3))).all()
    assert len(made) == 3


def test_bits_of_a_release_do_not_depend_on_threads(table_and_schema, monkeypatch):  # noqa: F811
    table, schema = table_and_schema
    planned, found = planned_for(schema, "linear", "num ~ x + g"), []
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    for threads in (1, 4):
        monkeypatch.setattr(blocks, "THREADS", threads)
        found.append(released(schema, planned, streamed(schema, table)[0]))
    assert (found[0][0] == found[1][0]).all()
    assert found[0][1] == found[1][1]


def test_opened_rows_are_not_serialised(table_and_schema):  # noqa: F811
    table, schema = table_and_schema
    with pytest.raises(TypeError, match="not serialised"):
        pickle.dumps(Streamed(schema, lambda _: iter([table])))


@pytest.mark.parametrize("count", [1, 5])
def test_blas_has_one_thread_while_blocks_are_added_up(count):
    """Threads of its own would wait for each other in loops, for cores that others use."""
    seen = []

    def look(block):
        seen.extend(blas_threads())
        return np.asarray(block.sum())

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        assert blocks.summed([np.ones(3)] * count, look) == 3.0 * count
        assert blas_threads() == before
    assert set(before) == {2}
    assert set(seen) == {1}


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("unit_rows", [1, 6, 20_000])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (20_000, 10), (10**6, 3), (10**6, 250)])
def test_blocks_are_large_within_memory_and_split_no_unit(rows, width, unit_rows, classes):
    data = HeldRows(np.broadcast_to(np.float64(0.0), (width, rows)), np.broadcast_to(0.0, rows))
    size = block_rows(data, unit_rows, classes)
    assert size % unit_rows == 0
    assert size <= max(MOST_ROWS, unit_rows)
    assert size * width * classes <= max(BLOCK_NUMBERS, 8192 * width, unit_rows * width * classes)
    if rows >= 10**6:  # several blocks for the threads to share
        assert 4 * size <= rows
