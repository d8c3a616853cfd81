"""How long `sample` takes on rows in memory, beside iteratively reweighted least squares in NumPy.

    python -m benchmarks.releases [--family logistic poisson] [--size 20000x10 200000x20] [--runs 5]

For each family and size, in a process of its own: the seconds of the first result, imports
included; those of later ones, at their median; the seconds of the fit without privacy in NumPy, in
turns with them, and the ratio of the two; and the most memory. Data are simulated from the model.
"""

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.streams import most_memory

Floats = NDArray[np.float64]
FAMILIES = ("linear", "logistic", "poisson", "negative_binomial", "student_t", "multinomial")
SIZES = ("20000x10", "200000x20", "1000000x20")
EPSILON, CATEGORIES, MOST = 1.0, ("a", "b", "c"), 60.0
IRLS_STEPS = {"linear": 1, "student_t": 10}  # of others 6, from 0


def simulated(family: str, rows: int, width: int) -> tuple[Floats, Floats]:
    """Return covariates (rows, width) between -1 and 1, and responses (rows,)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (rows, width))
    eta = x @ rng.normal(0.0, 0.3, width)
    if family == "linear":
        return x, np.clip(eta + rng.normal(size=rows), -8.0, 8.0)
    if family == "student_t":
        return x, np.clip(eta + rng.standard_t(4.0, rows), -20.0, 20.0)
    if family == "logistic":
        return x, (rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    if family == "multinomial":
        noisy = np.stack((np.zeros(rows), eta, 0.5 - eta)) + rng.gumbel(size=(3, rows))
        return x, noisy.argmax(axis=0).astype(float)
    mean = np.exp(eta)
    mean = mean * rng.gamma(2.0, 0.5, rows) if family == "negative_binomial" else mean
    return x, np.minimum(rng.poisson(mean), MOST).astype(float)


def fitted(family: str, x: Floats, y: Floats) -> Floats:
    """Return the coefficients of the fit without privacy, by NumPy alone."""
    x = np.column_stack((np.ones(len(x)), x))
    classes = 2 if family == "multinomial" else 1
    d = x.shape[1]
    coefficients = np.zeros((classes, d))
    for _ in range(IRLS_STEPS.get(family, 6)):
        eta = coefficients @ x.T
        if family == "multinomial":
            parts = np.exp(eta) / (1.0 + np.exp(eta).sum(axis=0))
            score = np.concatenate([(np.equal(y, k + 1) - parts[k]) @ x for k in range(classes)])
            slopes = [[parts[k] * ((k == j) - parts[j]) for j in range(2)] for k in range(2)]
        else:
            slope, residual = working(family, eta[0], y)
            score, slopes = residual @ x, [[slope]]
        curvature = np.block([[(x * s[:, None]).T @ x for s in each] for each in slopes])
        coefficients += np.linalg.solve(curvature, score).reshape(classes, d)
    return coefficients


def working(family: str, eta: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return weights and weighted residuals (rows,) of a Newton step."""
    if family == "linear":
        return np.ones_like(y), y - eta
    if family == "student_t":
        weight = 5.0 / (4.0 + (y - eta) ** 2)
        return weight, weight * (y - eta)
    mean = 1.0 / (1.0 + np.exp(-eta)) if family == "logistic" else np.exp(eta)
    if family == "logistic":
        return mean * (1.0 - mean), y - mean
    over = 1.0 + 0.5 * mean if family == "negative_binomial" else 1.0
    return mean / over, (y - mean) / over


def one(family: str, rows: int, width: int, runs: int) -> dict[str, float]:
    """Return the times of a family in this process, in seconds, and its memory in bytes."""
    x, y = simulated(family, rows, width)
    made = time.perf_counter()
    import dpmcmc
    from dpmcmc import BinaryColumn, CategoryColumn, NumberColumn, Schema

    names = [f"x{k}" for k in range(width)]
    data: dict[str, Any] = {name: x[:, k] for k, name in enumerate(names)} | {"y": y}
    response: Any = NumberColumn(name="y", lower=0.0, upper=MOST)
    if family == "logistic":
        response = BinaryColumn(name="y", categories=("0", "1"))
        data["y"] = np.array(response.categories)[y.astype(int)]
    elif family == "multinomial":
        response = CategoryColumn(name="y", categories=CATEGORIES)
        data["y"] = np.array(CATEGORIES)[y.astype(int)]
    elif family in {"linear", "student_t"}:
        most = 8.0 if family == "linear" else 20.0
        response = NumberColumn(name="y", lower=-most, upper=most)
    covariates = [NumberColumn(name=name, lower=-1.0, upper=1.0) for name in names]
    schema = Schema(columns=(*covariates, response), rows=rows)
    times: dict[str, list[float]] = {"ours": [], "irls": []}
    first = 0.0
    for _ in range(runs + 1):
        began = time.perf_counter()
        dpmcmc.sample(
            f"y ~ {' + '.join(names)}",
            data,
            schema,
            epsilon=EPSILON,
            delta=0.1 / rows,
            family=family,  # type: ignore[arg-type]
            accept_low_quality=True,
        )
        times["ours"].append(time.perf_counter() - began)
        first = first or time.perf_counter() - made
        began = time.perf_counter()
        fitted(family, x, y)
        times["irls"].append(time.perf_counter() - began)
    later, irls = median(times["ours"][1:]), median(times["irls"])
    return {"first": first, "later": later, "irls": irls, "most": most_memory()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--size", nargs="+", default=SIZES, help="rows x covariates")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in given.size]
    if given.one:
        sys.stdout.write(json.dumps(one(given.one, *sizes[0], given.runs)))
        return
    sys.stdout.write("| rows x covariates | family | first s | later s | IRLS s | ratio | MiB |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for rows, width in sizes:
        for family in given.family:
            call = [sys.executable, "-m", "benchmarks.releases", "--one", family]
            call += ["--size", f"{rows}x{width}", "--runs", str(given.runs)]
            done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
            measured = json.loads(done.stdout)
            cells = [f"{rows:,} x {width}", family]
            cells += [f"{measured[name]:.3f}" for name in ("first", "later", "irls")]
            cells += [
                f"{measured['later'] / measured['irls']:.1f}",
                f"{measured['most'] / 2**20:.0f}",
            ]
            sys.stdout.write(f"| {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
