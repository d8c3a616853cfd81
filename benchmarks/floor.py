"""What this machine can do: the fastest that memory is read and elementary functions are taken."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dpmcmc.kernels.compiled.maths import exp, kernel, leaf, log1p_reduced

ELEMENTS = 256  # stays in the first cache
LEAST = 4e-3  # seconds of a probe, beside which starting a thread is nothing
LINE = 8  # float64 of a cache line


@kernel
def read(x, out, repeats):  # type: ignore[no-untyped-def]
    """Touch every cache line of x, again and again; four sums, or additions would be the limit."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for _ in range(repeats):
        for i in range(0, x.size - 3 * LINE, 4 * LINE):
            a += x[i]
            b += x[i + LINE]
            c += x[i + 2 * LINE]
            d += x[i + 3 * LINE]
    out[0] = a + b + c + d


@kernel
def exps(x, out, repeats):  # type: ignore[no-untyped-def]
    """exp of a cached buffer, again and again."""
    for _ in range(repeats):
        for i in range(x.size):
            out[i] = exp(x[i])


@leaf
def log1p_unit(u):  # type: ignore[no-untyped-def]
    """log(1 + u) for u in [0, 1]."""
    high = u > np.sqrt(2.0) - 1.0
    s = (u - 1.0 if high else u) / (u + 3.0 if high else u + 2.0)
    return (np.log(2.0) if high else 0.0) + log1p_reduced(s)


@kernel
def log1ps(x, out, repeats):  # type: ignore[no-untyped-def]
    """log1p of a cached buffer, again and again."""
    for _ in range(repeats):
        for i in range(x.size):
            out[i] = log1p_unit(x[i])


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Floor:
    """Probes with so many threads. Each call measures anew, to stand beside a kernel."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(max_workers=max(1, threads - 1))
        self._arrays: dict[int, list[NDArray[np.float64]]] = {}
        for work in (read, exps, log1ps):  # compile
            work(np.zeros(ELEMENTS), np.zeros(ELEMENTS), 1)

    def _each(self, work: Callable[..., object], arrays: list[NDArray[np.float64]]) -> float:
        """Seconds of one pass of one thread's array, all threads at work."""
        sinks = [np.zeros(ELEMENTS) for _ in arrays]
        once = timed(lambda: work(arrays[0], sinks[0], 1))
        repeats = max(1, int(LEAST / once))

        def together() -> None:
            others = [
                self._pool.submit(work, a, s, repeats)
                for a, s in zip(arrays[1:], sinks[1:], strict=True)
            ]
            work(arrays[0], sinks[0], repeats)
            for other in others:
                other.result()

        return timed(together) / repeats

    def reading(self, numbers: int) -> float:
        """Seconds to read so many float64, shared by the threads."""
        if numbers not in self._arrays:
            share = max(LINE, numbers // self.threads)
            self._arrays = {numbers: [np.ones(share) for _ in range(self.threads)]}
        return self._each(read, self._arrays[numbers])

    def taking(self, exponentials: float, logarithms: float) -> float:
        """Seconds for so many values of exp and of log1p, shared by the threads."""
        near = [np.linspace(0, 1, ELEMENTS) for _ in range(self.threads)]
        one = 0.0
        for number, work in ((exponentials, exps), (logarithms, log1ps)):
            if number:
                one += number * self._each(work, near) / (ELEMENTS * self.threads)
        return one

    def seconds(self, numbers: int, exponentials: float = 0, logarithms: float = 0) -> float:
        """The floor: the larger of the two."""
        return max(self.reading(numbers), self.taking(exponentials, logarithms))
