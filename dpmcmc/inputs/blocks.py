"""Sums over blocks of rows, which may be computed in any order and on any thread.

What a block adds is whole numbers within what float64 holds exactly. So the sum has the same bits
however blocks are shared out, and it is all that needs to come back from where the rows lie.
"""

import contextvars
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any, Generic, TypeVar, cast

import numpy as np
import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which `_blas` is to find
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dpmcmc.kernels.subnormals import flush

Floats = NDArray[np.float64]
T = TypeVar("T")
S = TypeVar("S")

THREADS = len(os.sched_getaffinity(0))
NARROW = 64  # columns of matrices, up to which one thread is as fast
AHEAD = 2  # blocks of a thread that are read before it needs them


@dataclass(frozen=True, slots=True)
class Steps:
    """A composition of functions, which can be pickled and sent to where the rows are."""

    steps: tuple[Callable[[Any], Any], ...] = ()

    def __call__(self, value: Any) -> Any:
        """Return the composed functions' result."""
        for step in self.steps:
            value = step(value)
        return value


@dataclass(frozen=True, slots=True)
class Blocks(Generic[T]):
    """A computation on each block of rows, evaluated when it is summed.

    total_of: (change) -> the sum over all blocks of what `change` makes of them, in one pass.
    steps: what has been asked for of each block so far.
    """

    total_of: Callable[[Callable[[Any], Floats]], Floats]
    steps: Steps = Steps()

    def map(self, change: Callable[[T], S]) -> "Blocks[S]":
        """Return the blocks with `change` applied to each."""
        return cast("Blocks[S]", Blocks(self.total_of, Steps((*self.steps.steps, change))))

    def total(self) -> Floats:
        """Return the sum over all blocks of whole numbers. One pass."""
        return self.total_of(self.steps)


SomeBlocks = Blocks[T] | Iterable[T]


def each(change: Callable[[T], S], blocks: SomeBlocks[T]) -> SomeBlocks[S]:
    """Return the blocks with `change` applied to each."""
    return blocks.map(change) if isinstance(blocks, Blocks) else map(change, blocks)


def added(blocks: SomeBlocks[Floats]) -> Floats:
    """Return the sum of whole numbers, bit-identical however rows were split."""
    if isinstance(blocks, Blocks):
        return blocks.total()
    total = np.zeros(())
    for block in blocks:
        total = total + block
    return total


def summed(parts: Iterable[T], change: Callable[[T], Floats], *, few: bool = False) -> Floats:
    """Return the sum of change(part) over parts, on all cores while reading on.

    A few parts a thread are in memory at once. BLAS has one thread meanwhile: its own would wait
    for each other in loops, which on a busy machine took 25 times the work itself. few: whether
    parts are so few that threads would take longer to take turns than the work does. Raises what
    reading or `change` raises.
    """
    parts = iter(parts)
    first = list(islice(parts, 2))
    with _blas().limit(limits=1, user_api="blas"):
        if len(first) < 2 or few or THREADS == 1:
            return added(map(change, chain(first, parts)))
        return added(_computed(chain(first, parts), change))


@contextmanager
def one_blas_thread(width: int) -> Iterator[None]:
    """Give BLAS one thread within the context, where matrices of this width gain from no second.

    Else it wakes its threads for every product of many rows, and they wait for the next in loops.
    """
    with _blas().limit(limits=1, user_api="blas") if width <= NARROW else nullcontext():
        yield


def shared_out(change: Callable[[Floats], tuple[Floats, ...]], stack: Floats) -> tuple[Floats, ...]:
    """Return change(stack), computed on all cores. change: of each member of the stack by itself.

    BLAS has one thread meanwhile, see `summed`.
    """
    context = contextvars.copy_context()
    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(THREADS) as pool:
        parts = [
            pool.submit(context.copy().run, change, part) for part in np.array_split(stack, THREADS)
        ]
        found = [part.result() for part in parts]
    return tuple(np.concatenate(results) for results in zip(*found, strict=True))


@cache
def _blas() -> ThreadpoolController:
    """Return what sets the number of threads of every BLAS that is loaded."""
    return ThreadpoolController()


def _computed(parts: Iterator[T], change: Callable[[T], S]) -> Iterator[S]:
    """Yield change(part) of parts, in order."""
    context = contextvars.copy_context()  # how NumPy treats errors
    with ThreadPoolExecutor(THREADS, initializer=flush) as pool:
        waiting = deque[Future[S]]()
        try:
            for part in parts:
                waiting.append(pool.submit(context.copy().run, change, part))
                if len(waiting) > AHEAD * THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
