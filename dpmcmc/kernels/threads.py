# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 Numba reads the names of arguments
"""What two threads in the same compiled function tell each other by: counters in shared arrays.

As plain Python each of these is right for one thread alone.
"""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from dpmcmc.kernels.maths import leaf, uncounted

PART = 16  # blocks that a thread takes at once
LOOKS = 1000  # some 10 us
ORDER = "seq_cst"  # what was written before a counter was moved is seen by who reads it


def _place(context, builder, signature, arguments):
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


def _add(_, counters, index, amount):
    """Add to counters[index], int64, and return what it was before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], ORDER)

    return types.int64(counters, types.int64, types.int64), generate


def _read(_, counters, index):
    """Return counters[index], int64, as it is now."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, ORDER, 8)

    return types.int64(counters, types.int64), generate


def _rest(_):
    """Let another process have this core, if there is one that wants it."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def _add_plain(counters, index, amount):
    before = counters[index]
    counters[index] += amount
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
    looks = 0
    while read(counters, index) < enough:
        looks += 1
        if looks > LOOKS:
            rest()


@leaf
def held_rows(rows):
    """Return (x, y, ...) whose references two threads do not both count; see maths.piece."""
    return (uncounted(rows[0]), uncounted(rows[1]), *rows[2:])


@leaf
def held_counters(shared):
    """As held_rows, for (rank, claimed, done, sums)."""
    rank, claimed, done, sums = shared
    return rank, uncounted(claimed), uncounted(done), uncounted(sums)


@leaf
def part_taken(shared, turn, blocks, own):
    """Return (first, last) blocks of a part that is this thread's now, or (blocks, blocks).

    shared: (rank, claimed, done, sums), who asks, and for each turn how many parts are taken and
    done, and what they came to, int64. own: parts it had before; the second thread begins at the
    end.
    """
    parts = -(-blocks // PART)
    if add(shared[1], turn, 1) >= parts:
        return blocks, blocks
    first = PART * (own if shared[0] == 0 else parts - 1 - own)
    return first, min(first + PART, blocks)


@leaf
def part_done(shared, turn, totals):
    """Hand in the sums over a part, int64, and make them 0."""
    every = totals.reshape(-1)
    for i in range(every.size):
        add(shared[3], turn * every.size + i, every[i])
        every[i] = 0
    add(shared[2], turn, 1)


@leaf
def all_done(shared, turn, blocks, totals):
    """Wait for the parts of the other thread. Write the sums over all rows into totals."""
    every = totals.reshape(-1)
    wait(shared[2], turn, -(-blocks // PART))
    for i in range(every.size):
        every[i] = shared[3][turn * every.size + i]
