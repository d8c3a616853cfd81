"""Student-t regression: residuals of its law and of others, real responses, beside its own fit.

Nothing is given to `dpmcmc.sample` but data, bounds, a formula and a budget. The fit without
privacy is the maximum likelihood one of the same model, with sandwich sds. Of each cell: how many
results are reliable, widths over its sds, how often 90 % intervals of reliable results hold it and,
where residuals were drawn from the model, the truth, for coefficients and for log_sigma, and how
far the worst of them lies off, in its own sds.
`python -m experiments.student_t [--runs 10] [--cells NAME ...]` adds what is missing to the CSV and
writes the table into experiments/README.md; data in ../shared/data.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from dpmcmc import CategoryColumn, ModelSpec, NumberColumn, Schema, sample
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, REAL, code_version
from experiments.real_data import CELLS
from experiments.real_responses import observed
from experiments.reporting import add_missing, rows_of, table_of_cells

EPSILONS, DEGREES = (0.5, 1.0, 2.0, 4.0), 4.0
COLUMNS = (
    "cell", "rows", "coefficients", "epsilon", "runs", "reliable", "width", "width_sigma", "held",
    "held_sigma", "truth", "truth_sigma", "worst", "code",
)  # fmt: skip
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "student_t.csv", HERE / "README.md"
BEGIN, END = "<!-- student_t: begin -->", "<!-- student_t: end -->"
TRUTH = np.array([5.0, 2.0, -1.0, -0.5, 1.0, 0.0])  # the last one is log_sigma
SIZES = (2000, 20_000)
RESIDUALS = {
    "Student-t": lambda rng, n: rng.standard_t(DEGREES, n),
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: 1.5 * (rng.exponential(size=n) - 1.0),
    "lognormal": lambda rng, n: np.exp(1.2 * rng.normal(size=n)) - 2.0,
    "Cauchy": lambda rng, n: rng.standard_t(1, n),
    "two clusters": lambda rng, n: 3.0 * (rng.random(n) < 0.5) + 0.5 * rng.normal(size=n),
    "spike": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(size=n))),
    "constant": lambda *_: None,
    "at a bound": lambda rng, n: np.where(rng.random(n) < 0.4, 100.0, rng.normal(size=n)),
}
SIMULATED = {f"{name} {n}": (name, n) for name in RESIDUALS for n in SIZES}
WANTED = (
    "powerplant", "wage", "tobacco", "alcohol", "expenditure", "medical", "outlays",
    "mental health", "air", "star maths", "school maths", "capital gain",
)  # fmt: skip


def fitted(x, y):
    """Return the maximum likelihood fit (d + 1,), log_sigma last, and its sandwich sds."""
    n, d = DEGREES, len(x)

    def parts(theta):
        scale = np.exp(theta[-1])
        z = (y - theta[:-1] @ x) / scale
        return scale, z, n / (n + z * z)

    def loss(theta):
        scale, z, q = parts(theta)
        value = len(y) * theta[-1] + 0.5 * (n + 1.0) * np.log1p(z * z / n).sum()
        slope = np.append(-x @ ((n + 1.0) / n * q * z / scale), -(n - (n + 1.0) * q).sum())
        return value / len(y), slope / len(y)

    start = np.linalg.lstsq(x.T, y, rcond=None)[0]
    first = np.append(start, np.log(max(float((y - start @ x).std()), 1e-6)))
    theta = minimize(loss, first, jac=True, method="BFGS", options={"gtol": 1e-8}).x
    scale, z, q = parts(theta)
    scores = np.vstack((x * ((n + 1.0) / n * q * z / scale), n - (n + 1.0) * q))
    curve = np.zeros((d + 1, d + 1))
    curve[:d, :d] = (x * ((n + 1.0) / n * q * (2.0 * q - 1.0) / scale**2)) @ x.T
    curve[:d, d] = curve[d, :d] = x @ (2.0 * (n + 1.0) / n * q * q * z / scale)
    curve[d, d] = (2.0 * (n + 1.0) * q * (1.0 - q)).sum()
    back = np.linalg.pinv(curve)
    return theta, np.sqrt(np.maximum(np.diag(back @ scores @ scores.T @ back), 0.0))


def simulated(name, rng):
    """Return (x, y, columns, schema, formula) of a cell."""
    kind, n = SIMULATED[name]
    a, b, g = rng.uniform(-1, 1, n), np.clip(0.3 * rng.normal(size=n), -1, 1), rng.integers(0, 3, n)
    x = np.stack([np.ones(n), a, b, g == 1, g == 2])
    residuals = RESIDUALS[kind](rng, n)
    y = np.full(n, 3.0) if residuals is None else np.clip(TRUTH[:-1] @ x + residuals, -50, 50)
    schema = Schema(
        columns=(
            NumberColumn(name="a", lower=-1.0, upper=1.0),
            NumberColumn(name="b", lower=-1.0, upper=1.0),
            CategoryColumn(name="g", categories=("u", "v", "w")),
            NumberColumn(name="y", lower=-50.0, upper=50.0),
        ),
        rows=n,
    )
    columns = {"a": a, "b": b, "g": np.array(["u", "v", "w"])[g], "y": y}
    return x, y, columns, schema, "y ~ a + b + g"


def measured(name, epsilon, runs):
    """One row of the CSV. The noise is the system's: no two calls agree."""
    found, real = [], None
    for run in range(runs):
        if name in SIMULATED:
            x, y, columns, schema, formula = simulated(name, np.random.default_rng([9, run]))
            fit = fitted(x, y)
        elif real is None:
            case, y, schema, columns, formula = observed(name)
            x, real = case.x, fitted(case.x, y)
        theta, sds = fit if name in SIMULATED else real
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sample(
                columns, schema=schema, model=ModelSpec(family="student_t", formula=formula),
                epsilon=epsilon, delta=DELTA, accept_low_quality=True,
            )  # fmt: skip
        draws = result.on("design").reshape(-1, len(theta))
        low, high = np.quantile(draws, LEVEL, axis=0)
        off = np.abs(draws.mean(axis=0) - theta) / draws.std(axis=0)
        held, truth = ((low < at) & (at < high) for at in (theta, np.resize(TRUTH, len(theta))))
        reliable = result.verdict.status == "reliable"
        found.append((reliable, draws.std(axis=0) / np.maximum(sds, 1e-12), held, truth, off))
    good = [one[1:] for one in found if one[0]]
    row = {
        "cell": name, "rows": len(y), "coefficients": len(x), "epsilon": epsilon, "runs": runs,
        "reliable": len(good), "code": code_version(),
    }  # fmt: skip
    if good:
        width, held, truth, off = (np.array(part) for part in zip(*good, strict=True))
        own = name.startswith("Student-t")
        row |= {
            "width": round(float(np.median(width[:, :-1])), 3),
            "width_sigma": round(float(np.median(width[:, -1])), 3),
            "held": round(float(held[:, :-1].mean()), 3),
            "held_sigma": round(float(held[:, -1].mean()), 3),
            "truth": round(float(truth[:, :-1].mean()), 3) if own else "",
            "truth_sigma": round(float(truth[:, -1].mean()), 3) if own else "",
            "worst": round(float(off.max()), 2),
        }
    return row


def main(words=None):
    """Add what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cells", nargs="*", default=[*SIMULATED, *WANTED])
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    REAL.update(CELLS)

    def run(name, epsilon):
        return [measured(name, epsilon, choice.runs)]

    for row in add_missing(choice.output, COLUMNS, choice.cells, EPSILONS, run):
        print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if choice.output == DATA:
        head, rest = TABLE.read_text().split(BEGIN)
        whole = (
            head
            + BEGIN
            + "\n"
            + table_of_cells(rows_of(DATA), EPSILONS)
            + "\n"
            + END
            + rest.split(END)[1]
        )
        TABLE.write_text(whole)


if __name__ == "__main__":
    main()
