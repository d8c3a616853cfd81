# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 Numba reads the names of arguments
"""Counters in shared arrays, by which two threads share out work inside a compiled function.

Interpreted as plain Python, each function here is correct for one thread only.
"""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from dpmcmc.kernels.compiled.maths import leaf, uncounted

BLOCKS_PER_CLAIM = 8  # blocks that a thread takes at once
SPIN_READS = 1000  # some 10 us
MEMORY_ORDER = "seq_cst"  # what was written before a counter was moved is seen by who reads it


def _place(context, builder, signature, arguments):
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


def _add(_, counters, index, amount):
    """Add to counters.reshape(-1)[index], int64, and return what it was before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], MEMORY_ORDER)

    return types.int64(counters, types.int64, types.int64), generate


def _read(_, counters, index):
    """Return counters[index], int64, as it is now."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, MEMORY_ORDER, 8)

    return types.int64(counters, types.int64), generate


def _rest(_):
    """Let another process have this core, if there is one that wants it."""

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
    rest: Any = lambda: None  # noqa: E731
else:
    add, read, rest = intrinsic(_add), intrinsic(_read), intrinsic(_rest)


@leaf
def wait(counters, index, enough):
    """Wait until counters[index] has reached enough; soon not at the cost of other processes."""
    reads = 0
    while read(counters, index) < enough:
        reads += 1
        if reads > SPIN_READS:
            rest()


@leaf
def held(some):
    """Return some = (array, array, ...), whose references no thread counts."""
    return (uncounted(some[0]), uncounted(some[1]), *some[2:])


@leaf
def held_counters(shared):
    """Return (rank, claimed, done, sums), whose references no thread counts."""
    rank, claimed, done, sums = shared
    return rank, uncounted(claimed), uncounted(done), uncounted(sums)


@leaf
def part_taken(shared, turn, blocks, own):
    """Return (first, last) blocks of a part that is this thread's now, or (blocks, blocks).

    shared: (rank, claimed, done, sums), who asks, and for each turn how many parts are taken and
    done (turn,), and what they came to, (turn, numbers) int64. own: parts it had before in this
    turn. One thread begins at the first part and the other at the last; in the next turn both begin
    in the middle, at what they read last, which their caches still hold.

    Between this and all_done nothing may fail, memory run out least of all: the other thread would
    wait for ever. So who takes parts has made all its arrays before.
    """
    parts = -(-blocks // BLOCKS_PER_CLAIM)
    if add(shared[1], turn, 1) >= parts:
        return blocks, blocks
    if turn % 2 == 0:
        part = own if shared[0] == 0 else parts - 1 - own
    else:  # round and round: one may take more than half
        part = (parts // 2 + (-1 - own if shared[0] == 0 else own)) % parts
    return BLOCKS_PER_CLAIM * part, min(BLOCKS_PER_CLAIM * part + BLOCKS_PER_CLAIM, blocks)


@leaf
def all_done(shared, turn, blocks, own, totals):
    """Hand in the sums over own parts, int64; write those over all rows into totals."""
    every, sums, place = totals.reshape(-1), shared[3], turn * shared[3].shape[1]
    for i in range(every.size):
        add(sums, place + i, every[i])
    add(shared[2], turn, own)
    wait(shared[2], turn, -(-blocks // BLOCKS_PER_CLAIM))
    for i in range(every.size):
        every[i] = sums[turn, i]
