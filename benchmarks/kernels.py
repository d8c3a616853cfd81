"""Every kernel and every step beside the floor, NumPy, BlackJAX, NumPyro and the research code.

    ./dev kernels [--rounds 9] [--only PART ...] [--write]

One run; what is compared is measured in turns, and ratios are medians over the rounds. Prints the
table; --write puts it into benchmarks/KERNELS.md. The floor of an operation is the larger of its
bytes over the bandwidth and its exp and log1p over their rates, measured in the same round with as
many threads as the operation uses. Bytes: every number that is read at least once, of eight bytes,
which the targets are set for; "as kept" beside it is of the four bytes that a row's number is kept
in. exp and log1p: what a log likelihood takes, though a small move gets by with short series.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.floor import Floor, timed
from dpmcmc.families import MODELS
from dpmcmc.families import rowwise as row_threads
from dpmcmc.families.rowwise import RowTarget
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import block_length, rows_read
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions, Proposal
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.kernels.arithmetic.rules import Rule
from dpmcmc.privacy.discrete import discrete_gaussian
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.samplers import SAMPLERS, dp_penalty_subsampled
from dpmcmc.samplers.adaptation import Walk, axes
from dpmcmc.samplers.minibatch import batches

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "var" / "peers" / "bin" / "python"
Floats = NDArray[np.float64]
Data = dict[str, NDArray[np.generic]]
FORMULAS = {
    "logistic": "y ~ {}",
    "linear": "z ~ {}",
    "poisson": "count ~ {}",
    "gaussian_mean": "~ {}",
    "banana": "~ {}",
}
# exp and log1p of a row's ratio and of its gradient
TAKES = {"logistic": (1, 1), "poisson": (1, 0)}
# what is read of a row beside its columns, by a ratio (state, response) and by a gradient
BESIDE = {"logistic": (1, 0), "linear": (1, 1), "poisson": (2, 1)}
# ms a step of the thesis' original files at n = 100,000, measured once on another machine:
# banana d = 2, banana d = 10, logistic d = 10
RESEARCH = {
    "dp_penalty": (1.1, 5.7, 3.5),
    "dp_hmc": (28.0, 61.0, 59.0),
    "dp_penalty_subsampled": (3.1, 4.1, 3.2),
    "dp_barker": (3.3, 4.2, 3.3),
}
SETTINGS = (("banana", 2, 1300), ("banana", 10, 2600), ("logistic", 10, 2600))
SCALE, LEAPFROG, MULTIPLIER = 1e-3, 10, 50.0
HEAD = "| what | beside | ours | theirs | ratio | target | |"


class Table:
    """Lines of the result. A line: what, beside what, our and their time, ratio and target."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.missed = 0

    def part(self, title: str) -> None:
        self.lines += ["", f"### {title}", "", HEAD, "|---|---|---|---|---|---|---|"]
        print(*self.lines[-5:], sep="\n", flush=True)

    def add(
        self,
        what: str,
        beside: str,
        ours: float,
        theirs: float | None = None,
        ratio: float | None = None,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        verdict, target = "", ""
        if most is not None or least is not None:
            met = ratio is not None and (ratio <= most if most is not None else ratio >= least)
            target = f"<= {most:g}" if most is not None else f">= {least:g}"
            verdict = "met" if met else "**missed**"
            self.missed += not met
        shown = "" if ratio is None else f"{ratio:.2f}"
        other = "" if theirs is None else clock(theirs)
        self.lines.append(
            f"| {what} | {beside} | {clock(ours)} | {other} | {shown} | {target} | {verdict} |"
        )
        print(self.lines[-1], flush=True)


def clock(seconds: float) -> str:
    """A time with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def in_turns(rounds: int, *works: Callable[[], float]) -> list[list[float]]:
    """Seconds of every work in every round, after one round that does not count."""
    for work in works:
        work()
    found: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for times, work in zip(found, works, strict=True):
            times.append(work())
    return found


def compare(
    table: Table,
    what: str,
    beside: str,
    rounds: int,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    **target: float | None,
) -> None:
    """Measure both in turns and add the line."""
    mine, other = in_turns(rounds, ours, theirs)
    ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
    table.add(what, beside, statistics.median(mine), statistics.median(other), ratio, **target)


def rows_of(rows: int, columns: int) -> tuple[Schema, Data]:
    """Made-up rows that suit every family."""
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
    data: Data = {name: rng.uniform(-1, 1, rows) for name in names}
    data["z"] = rng.normal(size=rows)
    data["count"] = rng.poisson(1.0, rows).astype(float)
    data["y"] = rng.choice(["0", "1"], rows)
    return schema, data


def opened(family: str, schema: Schema, data: Data, dimensions: int, chains: int = 1) -> RowTarget:
    """A target of so many coefficients, an intercept among them where the family has one."""
    means = family in ("gaussian_mean", "banana")
    names = [f"x{k}" for k in range(dimensions if means else dimensions - 1)]
    formula = FORMULAS[family].format(" + ".join(names))
    options = ModelOptions(noise_scale=1.0) if family == "linear" else ModelOptions()
    if means:
        options = replace(options, variances=(1.0,) * dimensions)
    spec = JobSpec(
        model=ModelSpec(family=family, formula=formula, options=options),
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    design = make_design(schema, formula)
    target = MODELS[family].target(design, spec, table_of(schema, data), chains)  # type: ignore[arg-type]
    target.refresh()
    return target  # type: ignore[return-value]


def threads_of(rows: int, dimensions: int, chains: int = 1) -> int:
    """As many threads as a sum uses."""
    return (
        min(2, row_threads.THREADS)
        if rows * dimensions * chains >= row_threads.MIN_NUMBERS_PER_THREAD
        else 1
    )


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


def plain_gradient(x: Floats, y: Floats, here: Floats) -> Floats:
    """A logistic gradient, each row's clipped to norm 1, as one writes it in NumPy."""
    slopes = y / (1.0 + np.exp(y * (x @ here)))
    sizes = np.abs(slopes) * np.sqrt((x * x).sum(axis=1))
    return np.asarray((slopes / np.maximum(sizes, 1.0)) @ x)


def sums(table: Table, rows: int, dimensions: int, rounds: int) -> None:
    """Every family's sums beside the floor; the logistic ones beside NumPy as well."""
    table.part(f"Sums over rows, n = {rows:,}, d = {dimensions}, beside the floor")
    schema, data = rows_of(rows, dimensions)
    rng = np.random.default_rng()
    floor = Floor(threads_of(rows, dimensions))
    large = rows >= 1_000_000
    deltas, one = 0.01 * rng.normal(size=(1, dimensions)), 0.01 * np.eye(dimensions)[1:2]
    for family in FORMULAS:
        target = opened(family, schema, data, dimensions)
        exps, logs = (rows * use for use in TAKES.get(family, (0, 0)))
        beside, response = BESIDE.get(family, (0, 0))
        ratio, gradient = dimensions + beside, dimensions + response
        works = (
            ("ratio sum", lambda t=target: t.vector_ratios(deltas), ratio, logs, 1.5),
            (
                *("ratio sum, one coefficient", lambda t=target: t.vector_ratios(one, alone=1)),
                *(1 + beside, logs, 0),
            ),
            ("clipped gradient", lambda t=target: t.gradient(t.position, 1.0), gradient, 0, 2),
        )
        for name, call, numbers, logarithms, most in works:
            compare(
                table,
                f"{family}: {name}",
                "floor",
                rounds,
                lambda call=call: timed(call),
                lambda k=numbers, e=exps, g=logarithms: floor.seconds(rows * k, e, g),
                most=most if large and most else None,
            )
            if large and most:
                compare(
                    *(table, f"{family}: {name}", "floor, as kept", rounds),
                    lambda call=call: timed(call),
                    lambda k=numbers - dimensions / 2, e=exps, g=logarithms: floor.seconds(
                        int(rows * k), e, g
                    ),
                )
        if family in ("logistic", "linear", "banana"):
            x = np.stack([data[f"x{k}"] for k in range(dimensions)], axis=1).astype(float)
            y = np.where(data["y"] == "1", 1.0, -1.0)
            here, there = rng.normal(size=dimensions), rng.normal(size=dimensions)
            sum_up, score = works[0][1], works[2][1]
            compare(
                *(table, f"{family}: ratio sum", "NumPy", max(3, rounds // 3)),
                lambda call=sum_up: timed(call),
                lambda f=family, x=x, y=y, a=here, b=there: timed(lambda: plain(f, x, y, a, b)),
            )
            if family == "logistic":
                compare(
                    *(table, f"{family}: clipped gradient", "NumPy", max(3, rounds // 3)),
                    lambda call=score: timed(call),
                    lambda x=x, y=y, a=here: timed(lambda: plain_gradient(x, y, a)),
                )


def many_chains(table: Table, rows: int, dimensions: int, rounds: int) -> None:
    """A logistic ratio sum of 16 chains: rows are read once, functions are taken for every one."""
    chains = 16
    table.part(f"{chains} chains at once, n = {rows:,}, d = {dimensions}")
    schema, data = rows_of(rows, dimensions)
    target = opened("logistic", schema, data, dimensions, chains)
    floor = Floor(threads_of(rows, dimensions, chains))
    deltas = 0.01 * np.random.default_rng().normal(size=(chains, dimensions))
    compare(
        *(table, "logistic: ratio sum of 16 chains", "floor", rounds),
        lambda: timed(lambda: target.vector_ratios(deltas)),
        lambda: floor.seconds(rows * (dimensions + chains), rows * chains, rows * chains),
        most=1.6,
    )


def options_of(name: str, dimensions: int, batch: int) -> Any:
    """Options with nothing left open that a step reads."""
    make, walk = SAMPLERS[name].options, Proposal(kind="full", scale=SCALE, shape="normal")
    if name == "dp_hmc":
        return make(
            num_leapfrog=LEAPFROG,
            step_size=SCALE,
            mass=(1.0,) * dimensions,
            gradient_clip=1.0,
            gradient_noise_multiplier=MULTIPLIER,
            start=None,
        )
    if name == "dp_barker":
        return make(batch=batch, scale=SCALE)
    return make(proposal=walk) if name == "dp_penalty" else make(proposal=walk, batch=batch)


def steps_of(name: str, target: RowTarget, batch: int, steps: int) -> Callable[[], float]:
    """A function that takes so many steps as shipped, noise included; seconds of one of them."""
    sampler, random = SAMPLERS[name], SystemRandom()
    options = options_of(name, target.position.shape[1], batch)
    state = sampler.init(target, options, MULTIPLIER, random)

    def run() -> float:
        start = time.perf_counter()
        sampler.step(target, options, MULTIPLIER, steps, random, state)
        return (time.perf_counter() - start) / steps

    return run


def research(table: Table, rounds: int) -> None:
    """Whole steps beside the times of the original files, constants."""
    table.part(
        "Whole steps, n = 100,000, beside the research code (constants from another machine)"
    )
    for name, times in RESEARCH.items():
        for (family, dimensions, batch), milliseconds in zip(SETTINGS, times, strict=True):
            target = opened(family, *rows_of(100_000, dimensions), dimensions)
            run = steps_of(name, target, batch, 5 if name == "dp_hmc" else 40)
            ours = statistics.median(in_turns(rounds, run)[0])
            theirs = milliseconds / 1e3
            what = f"{name}, {family} d = {dimensions}"
            what += f", b = {batch:,}" if name in BATCHED else ""
            table.add(what, "research code", ours, theirs, theirs / ours, least=8)


BATCHED = ("dp_penalty_subsampled", "dp_barker")


def peers(table: Table, rounds: int) -> None:
    """Whole logistic steps beside chains without privacy on the same rows."""
    rows, dimensions = 100_000, 10
    table.part(f"Whole steps beside samplers without privacy, logistic, n = {rows:,}, d = 10")
    if not PEERS.exists():
        print("left out: ./dev kernels makes the environment that they need")
        return
    schema, data = rows_of(rows, dimensions)
    target = opened("logistic", schema, data, dimensions)
    columns = [np.ones(rows), *(data[f"x{k}"] for k in range(dimensions - 1))]
    # as many steps a call as theirs take
    walk, path = (steps_of("dp_penalty", target, 0, 100), steps_of("dp_hmc", target, 0, 10))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        np.savez(folder / "rows.npz", x=np.stack(columns, axis=1), y=data["y"] == "1")
        ask64, ask32 = (peer(stack, folder / "rows.npz", bits) for bits in (64, 32))
        for ours, name, ask, bits, most in (
            (walk, "blackjax.rmh", ask64, 64, 0.30),
            (walk, "blackjax.rmh", ask32, 32, 0.40),
            (path, "blackjax.hmc", ask64, 64, 0.15),
            (path, "blackjax.hmc", ask32, 32, None),
            (path, "numpyro.hmc", ask64, 64, None),
        ):
            what = "dp_penalty, float64" if ours is walk else "dp_hmc, L = 10, float64"
            compare(
                *(table, what, f"{name}, float{bits}", rounds, ours),
                lambda ask=ask, name=name: ask(name),
                most=most,
            )


def peer(stack: ExitStack, rows: Path, bits: int) -> Callable[[str], float]:
    """Start benchmarks/peers.py; return a function that asks it for the seconds of one step."""
    process = stack.enter_context(
        subprocess.Popen(
            [str(PEERS), str(ROOT / "benchmarks" / "peers.py"), str(rows), str(bits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
    )
    stack.callback(process.kill)

    def ask(name: str) -> float:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return ask


def small(table: Table, rounds: int) -> None:
    """What does not grow with the rows: noise, batches."""
    table.part("Noise and minibatches; targets in seconds over the target")
    random, draws = SystemRandom(), 20_000
    works: list[tuple[str, Callable[[], object], int, float | None]] = [
        ("discrete Gaussian, a draw", lambda: discrete_gaussian(random, 20, (draws,)), draws, 3e-7),
        ("normal, a draw", lambda: random.normals((draws,)), draws, 3e-7),
        (
            "secret batch of 1,000 of 100,000 rows",
            lambda: batches(random, 100_000, 1000, 1),
            1,
            None,
        ),
        ("random word", lambda: random.integers(2**62, (draws,)), draws, None),
    ]
    target = opened("logistic", *rows_of(100_000, 10), 10)
    indices = np.random.default_rng().integers(100_000, size=(200, 1, 1000), dtype=np.int32)
    moves, noise = np.full((200, 1, 10), 0.001), np.full((200, 1), 1000)
    uniforms = np.full((200, 1, 1), 0.5)
    works.append(
        (
            "step on 1,000 given rows of 100,000",
            lambda: target.batch_walk(penalty_rule(target), moves, noise, uniforms, indices),
            200,
            None,
        )
    )
    for what, work, count, limit in works:
        ours = statistics.median(in_turns(9 * rounds, lambda w=work: timed(w))[0]) / count
        ratio = None if limit is None else ours / limit
        table.add(what, clock(limit) if limit else "", ours, limit, ratio, most=limit and 1.0)
    for name in BATCHED:  # as many steps a call as a block of a job has
        options = options_of(name, 10, 1000)
        step = steps_of(name, target, 1000, block_length(rows_read(options, 100_000), 10, 1, 5000))
        ours = statistics.median(in_turns(rounds, step)[0])
        what = f"{name}, whole step, b = 1,000, n = 100,000"
        table.add(what, "12 us", ours, 12e-6, ours / 12e-6, most=1.0)


def penalty_rule(target: RowTarget) -> Rule:
    """What decides a step of dp_penalty_subsampled on 1,000 rows."""
    return dp_penalty_subsampled.rule_of(MULTIPLIER, 1000, target)


def no_step(target: RowTarget) -> object:
    """A step on 10 rows that goes nowhere."""
    nowhere = np.zeros((1, *target.position.shape))
    drawn = np.full((1, 1), 1000), np.full((1, 1, 1), 0.5)
    batch = np.arange(10, dtype=np.int32)[None, None]
    return target.batch_walk(penalty_rule(target), nowhere, *drawn, batch)


FIRST = """
import time
start = time.perf_counter()
import dpmcmc
found = [time.perf_counter() - start]
from benchmarks import kernels
target = kernels.opened("logistic", *kernels.rows_of(1000, 10), 10)
for work in kernels.FIRSTS.values():
    found.append(kernels.timed(lambda: work(target)))
print(*found)
"""
FIRSTS: dict[str, Callable[[RowTarget], object]] = {
    "ratio sum": lambda target: target.vector_ratios(target.position),
    "ratio sum, one coefficient": lambda t: t.vector_ratios(
        t.position * np.eye(len(t.position[0]))[1], alone=1
    ),
    "penalty steps": lambda target: SAMPLERS["dp_penalty"].step(
        *(target, options_of("dp_penalty", 10, 0), MULTIPLIER, 5, SystemRandom()),
        Walk(target, axes(SCALE, 10, "full"), 0, None),
    ),
    "clipped gradient": lambda target: target.gradient(target.position, 1.0),
    "HMC steps": lambda target: steps_of("dp_hmc", target, 0, 5)(),
    "secret batch": lambda _: batches(SystemRandom(), 1000, 10, 1),
    "minibatch": no_step,
    "discrete Gaussian": lambda _: discrete_gaussian(SystemRandom(), 20, (10,)),
}


def firsts(table: Table, rounds: int) -> None:
    """First calls in a fresh process, compiled code in the cache on disk."""
    table.part("First calls in a fresh process, compiled before; targets over 0.5 s")

    def fresh() -> list[float]:
        command = [sys.executable, "-c", FIRST]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return [float(seconds) for seconds in done.stdout.split()]

    fresh()
    imported, *found = zip(*(fresh() for _ in range(max(2, rounds // 3))), strict=True)
    for what, seconds in zip(FIRSTS, found, strict=True):
        ours = statistics.median(seconds)
        table.add(what, "0.5 s", ours, 0.5, ours / 0.5, most=1.0)
    table.add("import dpmcmc", "", statistics.median(imported))


PARTS: dict[str, Callable[[Table, int], None]] = {
    "sums": lambda table, rounds: sums(table, 100_000, 10, rounds),
    "large": lambda table, rounds: sums(table, 1_000_000, 10, rounds),
    "chains": lambda table, rounds: many_chains(table, 200_000, 10, rounds),
    "peers": peers,
    "research": research,
    "small": small,
    "firsts": firsts,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    table, load = Table(), os.getloadavg()[0]
    for name in arguments.only:
        PARTS[name](table, arguments.rounds)
    floor = Floor(min(2, row_threads.THREADS))
    machine = (
        f"{floor.threads} threads: {8e-9 * 1e7 / floor.reading(10_000_000):.0f} GB/s from memory, "
        f"{8e-9 * 1e6 / floor.reading(1_000_000):.0f} GB/s from the last cache; exp "
        f"{1e3 * floor.taking(1e6, 0):.2f} ns, log1p {1e3 * floor.taking(0, 1e6):.2f} ns a value."
    )
    machine += f" Load before the run {load:.1f} on {os.cpu_count()} cores (its own is up to 2): "
    machine += f"where others compute, two threads lose most. Targets missed: {table.missed}."
    print(f"\n{machine}")
    if arguments.write:
        page = [f"Made by `./dev kernels --write`: {__doc__.splitlines()[0]}", "", machine]
        (ROOT / "benchmarks" / "KERNELS.md").write_text("\n".join([*page, *table.lines, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
