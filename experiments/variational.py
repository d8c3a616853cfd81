"""Variational inference beside `noisy_quadratic`: coverage and width of 90 % intervals.

Responses are simulated over the covariates of experiments/calibration.py, so that the truth is
known; both algorithms are given the same responses, as jobs of the library.
`python -m experiments.variational [--quick] [--runs 20] [--cells NAME ...]`.
With `--events`: logistic models of rare events, with clips that no row's gradient reaches; how far
fits are from the posterior without privacy, beside the released slope of a row. Prints a table.
"""

import argparse
import itertools
import math
import time
from pathlib import Path

import numpy as np
from scipy.special import expit

from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, Schema, sample
from dpmcmc.inputs.options import DpViOptions
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, REAL, SIMULATED, fitted, simulated
from experiments.posteriors import SHARED
from experiments.reporting import add_row, rows_of
from tests.sources import Seeded

ALGORITHMS = ("dp_vi", "noisy_quadratic")
CELLS = (
    *("adult", "powerplant"),
    *(f"plain-{family}-2000x4" for family in ("logistic", "linear")),
    *(f"{kind}-logistic-20000x10" for kind in ("plain", "correlated", "rare")),
    "plain-linear-20000x10",
)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
COLUMNS = (
    "cell", "algorithm", "family", "rows", "coefficients", "epsilon", "runs", "coverage", "worst",
    "width", "widest", "expected", "distance", "unreliable", "coverage_reliable", "seconds",
)  # fmt: skip
DATA = Path(__file__).parent / "data" / "variational.csv"
RATES, CLIPS = (0.01, 0.03, 0.05, 0.1, 0.2, 0.5), (8.0, 20.0)


def declared(case):
    """Return the schema of a case, and the names of its covariates."""
    names = [f"x{k}" for k in range(1, len(case.x))]
    columns = [NumberColumn(name=name, lower=-1, upper=1) for name in names]
    low, high = case.ends
    response = NumberColumn(name="y", lower=float(low), upper=float(high))
    if case.family == "logistic":
        response = BinaryColumn(name="y", categories=("0", "1"))
    return Schema(columns=(*columns, response), rows=case.x.shape[1]), names


def answered(case, y, algorithm, epsilon, seed):
    """Return (result, draws (draw, p) of the coefficients)."""
    schema, names = declared(case)
    data = dict(zip(names, case.x[1:], strict=True))
    data["y"] = np.where(y > 0.5, "1", "0") if case.family == "logistic" else y
    model = ModelSpec(family=case.family, formula="y ~ " + " + ".join(names))
    told = {"schema": schema, "model": model, "epsilon": epsilon, "delta": DELTA}
    result = sample(data, **told, sampler=algorithm, random=Seeded(seed), accept_low_quality=True)
    return result, result.draws.reshape(-1, result.draws.shape[-1])[:, : len(case.theta)]


def measured(name, case, algorithm, epsilon, runs, seed=1):
    """One row of the CSV."""
    rng, spent, found = np.random.default_rng(seed), 0.0, []
    for run in range(runs):
        y = case.simulated(rng)
        sds = fitted(case.family, case.x, y)[1]
        start = time.perf_counter()
        result, draws = answered(case, y, algorithm, epsilon, 1000 * seed + run)
        spent += time.perf_counter() - start
        low, high = np.quantile(draws, LEVEL, axis=0)
        off = (draws.mean(axis=0) - case.theta) / sds
        good = result.verdict.status == "reliable"
        found.append(((low < case.theta) & (case.theta < high), draws.std(axis=0) / sds, off, good))
    held, wide, off, good = (np.array(part) for part in zip(*found, strict=True))
    numbers = {
        "coverage": held.mean(),
        "worst": held.mean(axis=0).min(),
        "width": np.median(wide),
        "widest": np.median(wide, axis=0).max(),
        "expected": result.plan.expected_width,
        "distance": math.sqrt(float(np.mean(off**2))),
        "unreliable": 1.0 - good.mean(),
        "coverage_reliable": held[good].mean() if good.any() else math.nan,
        "seconds": spent / runs,
    }
    return {
        "cell": name, "algorithm": algorithm, "family": case.family, "rows": case.x.shape[1],
        "coefficients": len(case.theta), "epsilon": epsilon, "runs": runs,
        **{key: round(float(value), 3) for key, value in numbers.items()},
    }  # fmt: skip


def rare_events(runs):
    """Print, by rate of events, the released mean slope and distances in the fits' own sds."""
    rng, n, d = np.random.default_rng(), 20_000, 4
    names = [f"x{k}" for k in range(d)]
    numbers = [NumberColumn(name=name, lower=-1, upper=1) for name in names]
    schema = Schema(columns=(*numbers, BinaryColumn(name="y", categories=("0", "1"))), rows=n)
    model = ModelSpec(family="logistic", formula="y ~ " + " + ".join(names))
    print("| events | mean slope | distance: rms | largest | reliable |\n|---|---|---|---|---|")
    for rate in RATES:
        slopes, apart, good = [], [], 0
        for clip, epsilon, _ in itertools.product(CLIPS, (4.0, 10.0), range(runs)):
            x = np.vstack((np.ones(n), rng.uniform(-1, 1, (d, n))))
            truth = np.append(math.log(rate / (1.0 - rate)), rng.normal(0.0, 0.7, d))
            y = rng.random(n) < expit(truth @ x)
            exact = fitted("logistic", x, y.astype(float))[0]
            data = dict(zip(names, x[1:], strict=True)) | {"y": np.where(y, "1", "0")}
            result = sample(
                data, schema=schema, model=model, epsilon=epsilon, delta=DELTA,
                sampler=DpViOptions(gradient_clip=clip), accept_low_quality=True,
            )  # fmt: skip
            draws = result.draws.reshape(-1, d + 1)
            apart.append((draws.mean(axis=0) - exact) / draws.std(axis=0))
            slopes.append(result.release.to_dict()["mean_slope"])
            good += result.verdict.status == "reliable"
        off = np.abs(apart)
        low, high = np.quantile(slopes, (0.1, 0.9))
        numbers = f"{low:.3f} to {high:.3f} | {np.sqrt(np.mean(off**2)):.2f} | {off.max():.1f}"
        print(f"| {rate} | {numbers} | {good} of {len(off)} |", flush=True)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three small cells, under a minute")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--cells", nargs="*")
    parser.add_argument("--epsilons", nargs="*", type=float)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; cells in it are kept")
    parser.add_argument("--events", action="store_true", help="rare events alone")
    choice = parser.parse_args(words)
    if choice.events:
        return rare_events(choice.runs or 10)
    choice.output.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["cell"], r["algorithm"], float(r["epsilon"])) for r in rows_of(choice.output)}
    names = choice.cells or (CELLS[3:6] if choice.quick else CELLS)
    for name in (name for name in names if name in SIMULATED or SHARED.exists()):
        case = REAL[name]() if name in REAL else simulated(*SIMULATED[name])
        for epsilon in choice.epsilons or ((1.0, 4.0) if choice.quick else EPSILONS):
            for algorithm in choice.algorithms:
                if (name, algorithm, epsilon) in done:
                    continue
                runs = choice.runs or (5 if choice.quick else 20)
                row = measured(name, case, algorithm, epsilon, runs)
                add_row(choice.output, COLUMNS, row)
                print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
