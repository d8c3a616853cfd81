"""Every kernel beside the measured floor and plain NumPy.

python benchmarks/kernels.py [--rows 100000] [--columns 10] [--rounds 40]
Prints a markdown table. All in one run, medians of single calls. The floor of an operation is
the larger of its bytes over the measured bandwidth and its transcendentals over the measured rate,
both measured here with as many threads as the operation uses.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import make_design
from dpmcmc.kernels.maths import exp, kernel, log1p_unit
from dpmcmc.models import MODELS, rowwise
from dpmcmc.run import table_of
from dpmcmc.samplers import DpPenaltyOptions
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec

Floats = NDArray[np.float64]
FAMILIES = {
    "logistic": "y ~ {}",
    "linear": "z ~ {}",
    "poisson": "count ~ {}",
    "gaussian_mean": "~ {}",
    "banana": "~ {}",
}
ELEMENTS = 256  # stays in the first cache


@kernel
def read(x, out):  # type: ignore[no-untyped-def]
    """Sum of x in eight lanes: as fast as memory gives."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    for i in range(0, x.size - 7, 8):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
        e, f, g, h = e + x[i + 4], f + x[i + 5], g + x[i + 6], h + x[i + 7]
    out[0] = a + b + c + d + e + f + g + h


@kernel
def exps(x, out, repeats):  # type: ignore[no-untyped-def]
    """exp of a cached buffer, again and again."""
    for _ in range(repeats):
        for i in range(x.size):
            out[i] = exp(x[i])


@kernel
def log1ps(x, out, repeats):  # type: ignore[no-untyped-def]
    """log1p of a cached buffer, again and again."""
    for _ in range(repeats):
        for i in range(x.size):
            out[i] = log1p_unit(x[i])


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Median time of one call, the first one not counted."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def together(work: Callable[[], object], threads: int) -> Callable[[], None]:
    """The same work in so many threads at once."""

    def run() -> None:
        helpers = [threading.Thread(target=work) for _ in range(threads - 1)]
        for helper in helpers:
            helper.start()
        work()
        for helper in helpers:
            helper.join()

    return run


class Floor:
    """What this machine can do with this many threads at this size."""

    def __init__(self, numbers: int, threads: int, rounds: int) -> None:
        share = np.ones(max(8, numbers // threads))
        sink = np.zeros(ELEMENTS)
        taken = seconds(together(lambda: read(share, sink), threads), rounds)
        self.bandwidth = share.nbytes * threads / taken
        near, repeats = np.linspace(0, 1, ELEMENTS), 400

        def rate(work: Callable[..., object]) -> float:
            run = together(lambda: work(near, np.empty(ELEMENTS), repeats), threads)
            return ELEMENTS * repeats * threads / seconds(run, rounds)

        self.exps, self.log1ps = rate(exps), rate(log1ps)

    def milliseconds(self, numbers: float, exponentials: float, logarithms: float) -> float:
        """The floor of work that reads and writes so many float64."""
        arithmetic = exponentials / self.exps + logarithms / self.log1ps
        return 1e3 * max(8 * numbers / self.bandwidth, arithmetic)


def setting(rows: int, columns: int) -> tuple[Schema, dict[str, NDArray[np.generic]]]:
    rng = np.random.default_rng()
    names = [f"x{k}" for k in range(columns)]
    schema = Schema(
        columns=(
            *(NumberColumn(name=name, lower=-1, upper=1) for name in names),
            NumberColumn(name="z", lower=-5, upper=5),
            NumberColumn(name="count", lower=0, upper=10),
            BinaryColumn(name="y", categories=("0", "1")),
        ),
        rows=rows,
    )
    data: dict[str, NDArray[np.generic]] = {n: rng.uniform(-1, 1, rows) for n in names}
    data["z"] = rng.normal(size=rows)
    data["count"] = rng.poisson(1.0, rows).astype(float)
    data["y"] = rng.choice(["0", "1"], rows)
    return schema, data


def plain(family: str, x: Floats, y: Floats, here: Floats, there: Floats) -> float:
    """The sum of ratios as one writes it in NumPy; x (n, d), likelihoods of `here` not cached."""
    if family in ("gaussian_mean", "banana"):
        return float(0.5 * (((x - here) ** 2).sum() - ((x - there) ** 2).sum()))
    eta, moved = x @ here, x @ there
    if family == "logistic":
        ratios = np.logaddexp(0, -y * eta) - np.logaddexp(0, -y * moved)
    elif family == "poisson":
        ratios = y * (moved - eta) - np.exp(moved) + np.exp(eta)
    else:
        ratios = 0.5 * ((y - eta) ** 2 - (y - moved) ** 2)
    return float(np.clip(ratios, -1, 1).sum())


def measure(family: str, arguments: argparse.Namespace, floor: Floor) -> list[str]:
    """The rows of the table for one model."""
    n, d, rounds = arguments.rows, arguments.columns, arguments.rounds
    schema, data = setting(n, d)
    formula = FAMILIES[family].format(" + ".join(f"x{k}" for k in range(d)))
    known = ModelOptions(noise_scale=1.0) if family == "linear" else ModelOptions()
    if family in ("gaussian_mean", "banana"):
        known = replace(known, variances=(1.0,) * d)
    spec = JobSpec(
        model=ModelSpec(family=family, formula=formula, options=known),
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    design, rng = make_design(schema, formula), np.random.default_rng()
    target = MODELS[family].target(design, spec, table_of(schema, data), 1)  # type: ignore[arg-type]
    target.refresh()
    deltas = 0.01 * rng.normal(size=target.position.shape)
    x = np.stack([data[f"x{k}"] for k in range(d)], axis=1).astype(float)
    y = {"logistic": np.where(data["y"] == "1", 1.0, -1.0), "linear": data["z"]}.get(
        family, data["count"]
    )
    here, there = rng.normal(size=d), rng.normal(size=d)
    size, moving = target.position.shape[1], np.array([0.01])
    uses = {"logistic": (1, 1), "poisson": (1, 0)}.get(family, (0, 0))
    indices = rng.integers(n, size=(1, 1000))
    work = {
        "ratio sum, all coefficients": (
            lambda: target.vector_ratios(deltas),
            floor.milliseconds(n * (size + 3), *(n * use for use in uses)),
            1e3 * seconds(lambda: plain(family, x, y, here, there), rounds // 4),
        ),
        "ratio sum, one coefficient": (
            lambda: target.component_ratios(1, moving),
            floor.milliseconds(n * 5, *(n * use for use in uses)),
            None,
        ),
        "clipped gradient": (
            lambda: target.gradient(target.position, 1.0),
            floor.milliseconds(n * (size + 1), n * uses[0], 0),
            None,
        ),
        "minibatch of 1,000": (lambda: target.batch_ratios(deltas, indices), None, None),
    }
    lines = []
    for name, (call, least, numpy) in work.items():
        ours = 1e3 * seconds(call, rounds)
        floors = f"{least:.3f} | {ours / least:.1f}" if least else "- | -"
        beside = f"{numpy:.2f} | {numpy / ours:.1f}" if numpy else "- | -"
        lines.append(f"| {family} | {name} | {ours:.3f} | {floors} | {beside} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    numbers = arguments.rows * arguments.columns
    threads = min(2, rowwise.THREADS) if numbers >= rowwise.WORTH_A_THREAD else 1
    floor = Floor(numbers, threads, arguments.rounds)
    print(
        f"n = {arguments.rows}, d = {arguments.columns}, {threads} threads: "
        f"{floor.bandwidth / 1e9:.0f} GB/s, exp {1e9 / floor.exps:.2f} ns, "
        f"log1p {1e9 / floor.log1ps:.2f} ns\n"
    )
    print("| model | operation | ms | floor ms | x floor | NumPy ms | x faster |")
    print("|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        print(*measure(family, arguments, floor), sep="\n", flush=True)


if __name__ == "__main__":
    main()
