"""Sums over all rows by two threads, where they are long enough for the second to pay."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

THREADS = len(os.sched_getaffinity(0))
# numbers of all chains in up to SUMS_PER_CALL sums, from which a second thread
MIN_NUMBERS_PER_THREAD = 1_000_000
SUMS_PER_CALL = 10  # is there in time: it takes some 0.1 ms to wake up

T = TypeVar("T")


class TwoThreads:
    """This thread, and a second one that is started when it is first needed."""

    def __init__(self) -> None:
        self._helper: ThreadPoolExecutor | None = None

    def run(
        self,
        numbers: int,
        work: Callable[[tuple[Any, ...], T], None],
        fresh: Callable[[], T],
        turns: int,
        size: int,
    ) -> T:
        """Return what work(shared, some) makes of some = fresh(), by two threads if it is much.

        numbers: that one sum reads. turns, size: how many sums over all rows are taken, of how many
        numbers each; kernels.threads.part_taken shares them out. Each thread does everything but
        these sums, on its own copy.
        """
        counters = (np.zeros(shape, np.int64) for shape in (turns, turns, (turns, size)))
        claimed, done, sums = counters
        mine, other = fresh(), None
        if numbers * min(turns, SUMS_PER_CALL) >= MIN_NUMBERS_PER_THREAD and THREADS >= 2:
            other = self._second().submit(work, (1, claimed, done, sums), fresh())
        work((0, claimed, done, sums), mine)
        if other is not None and not other.cancel():  # no core may have been free for it so far
            other.result()
        return mine

    def _second(self) -> ThreadPoolExecutor:
        from dpmcmc.kernels.subnormals import flush

        if self._helper is None:
            self._helper = ThreadPoolExecutor(max_workers=1, initializer=flush)
        return self._helper
