# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 Numba reads the names of arguments
"""Counters in shared arrays, with which two threads divide work inside a compiled function.

As plain Python, each function here is correct for one thread only.
"""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from dpmcmc.kernels.compiled.maths import leaf, uncounted

BLOCKS_PER_CLAIM = 8  # blocks that a thread takes at once
SPIN_READS = 1000  # some 10 us
MEMORY_ORDER = "seq_cst"  # writes before a change of a counter are visible to its reader


def _pointer(context, builder, signature, arguments):
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


def _add(_, counters, index, amount):
    """Add to counters.reshape(-1)[index], int64, and return what it was before."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], MEMORY_ORDER)

    return types.int64(counters, types.int64, types.int64), generate


def _read(_, counters, index):
    """Return counters[index], int64, as it is now."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, MEMORY_ORDER, 8)

    return types.int64(counters, types.int64), generate


def _yield_core(_):
    """Let another process run on this core, if one is waiting."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def _add_plain(counters, index, amount):
    flat = counters.reshape(-1)
    before = flat[index]
    flat[index] += amount
    return before


if config.DISABLE_JIT:  # type: ignore[attr-defined]
    add: Any = _add_plain
    read: Any = lambda counters, index: counters[index]  # noqa: E731
    yield_core: Any = lambda: None  # noqa: E731
else:
    add, read, yield_core = intrinsic(_add), intrinsic(_read), intrinsic(_yield_core)


@leaf
def wait(counters, index, enough):
    """Wait until counters[index] has reached enough, after a while yielding the core."""
    reads = 0
    while read(counters, index) < enough:
        reads += 1
        if reads > SPIN_READS:
            yield_core()


@leaf
def borrowed(arrays):
    """Return the tuple (array, array, ...) with uncounted references to the first two."""
    return (uncounted(arrays[0]), uncounted(arrays[1]), *arrays[2:])


@leaf
def borrowed_counters(shared):
    """Return (rank, claimed, done, sums) with uncounted references to the arrays."""
    rank, claimed, done, sums = shared
    return rank, uncounted(claimed), uncounted(done), uncounted(sums)


@leaf
def part_taken(shared, turn, blocks, parts_before):
    """Return (first, last) blocks of the next part of this thread, or (blocks, blocks).

    shared: (rank, claimed, done, sums): the thread, and for each turn the number of parts that are
    claimed and done (turn,), and their sums, (turn, numbers) int64. parts_before: this thread's
    parts so far in this turn. One thread begins at the first part and the other at the last; in the
    next turn both begin in the middle, with the rows that are still in their caches.

    Between this and all_done nothing may fail, not even for lack of memory: the other thread would
    wait for ever. So a thread allocates all its arrays before.
    """
    parts = -(-blocks // BLOCKS_PER_CLAIM)
    if add(shared[1], turn, 1) >= parts:
        return blocks, blocks
    if turn % 2 == 0:
        part = parts_before if shared[0] == 0 else parts - 1 - parts_before
    else:  # in a circle: one thread may take more than half
        part = (parts // 2 + (-1 - parts_before if shared[0] == 0 else parts_before)) % parts
    return BLOCKS_PER_CLAIM * part, min(BLOCKS_PER_CLAIM * part + BLOCKS_PER_CLAIM, blocks)


@leaf
def all_done(shared, turn, blocks, parts, totals):
    """Add this thread's sums, int64, to the shared ones; write those over all rows into totals."""
    own_totals, sums, offset = totals.reshape(-1), shared[3], turn * shared[3].shape[1]
    for i in range(own_totals.size):
        add(sums, offset + i, own_totals[i])
    add(shared[2], turn, parts)
    wait(shared[2], turn, -(-blocks // BLOCKS_PER_CLAIM))
    for i in range(own_totals.size):
        own_totals[i] = sums[turn, i]
