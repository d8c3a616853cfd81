"""Curves by s(x) under privacy: coverage and error beside ns(x, df=4), on simulated truth.

python -m experiments.smooths [family] [epsilon] [rows] [runs]. A truth is a line and a random sum
of waves; covariates are normal within wide bounds, so that few rows are near their ends. Printed
are coverage of 90 % intervals of the curve at places where nine of ten rows are, its error over the
sd of the truth, coverage of the covariate beside it, and how many results are reliable.
"""

import sys

import numpy as np

from dpmcmc import BinaryColumn, NumberColumn, Schema, sample

PLACES = np.linspace(20.0, 80.0, 13)
FORMULAS = ("y ~ s(x) + z", "y ~ s(x, k=10) + z", "y ~ ns(x, df=4) + z")
RESPONSES = {
    "logistic": BinaryColumn(name="y", categories=("no", "yes")),
    "linear": NumberColumn(name="y", lower=-8, upper=8),
    "poisson": NumberColumn(name="y", lower=0, upper=60),
}


def truth(random, kind):
    """Return a function of x: straight, waves of this many turns, or a step that is smooth."""
    slope, phase, size = random.normal(0, 0.5), random.uniform(0, 6.28), random.uniform(0.3, 0.8)
    if kind == "line":
        return lambda x: slope * (x / 50 - 1)
    if kind == "step":
        return lambda x: size * np.tanh((x - 40 - 5 * phase) / 8)
    turns = random.uniform(4, 8)
    return lambda x: slope * (x / 50 - 1) + size * np.sin(turns * x / 100 + phase)


def rows_of(family, rows, random, curve):
    x = np.clip(random.normal(50, 18, rows), 0, 100)
    z = random.uniform(0, 1, rows)
    eta = curve(x) + 0.5 * z
    if family == "logistic":
        y = np.where(random.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no")
    elif family == "linear":
        y = np.clip(eta + random.normal(0, 1, rows), -8, 8)
    else:
        y = np.minimum(random.poisson(np.exp(eta)), 60)
    columns = (
        NumberColumn(name="x", lower=0, upper=100),
        NumberColumn(name="z", lower=0, upper=1),
        RESPONSES[family],
    )
    return {"x": x, "z": z, "y": y}, Schema(columns=columns, rows=rows)


def one(family, epsilon, rows, seed, kind):
    random = np.random.default_rng(seed)
    curve = truth(random, kind)
    data, schema = rows_of(family, rows, random, curve)
    given = [{"x": float(x), "z": 0.5} for x in PLACES]
    for formula in FORMULAS:
        fit = sample(
            formula, data, schema, family=family, epsilon=epsilon, delta=1e-6,
            accept_low_quality=True,
        )  # fmt: skip
        shown = fit.release.posterior().predict(given)
        low, high, mean = (
            np.array([getattr(p.predictor, name) for p in shown]) for name in ("q05", "q95", "mean")
        )
        right = curve(PLACES) + 0.25
        z = {row.name: row for row in fit.summary(mixing=False)}["z"]
        yield (
            formula,
            (
                fit.verdict.status == "reliable",
                np.mean((low <= right) & (right <= high)),
                np.sqrt(np.mean((mean - right) ** 2)),
                np.mean(high - low),
                z.q05 <= 0.5 <= z.q95,
            ),
        )


def main():
    asked = [*sys.argv[1:], *("logistic", "1", "20000", "12")[len(sys.argv) - 1 :]]
    family, epsilon, rows, runs = asked[0], float(asked[1]), int(asked[2]), int(asked[3])
    found = {formula: [] for formula in FORMULAS}
    for seed in range(runs):
        kind = ("waves", "line", "step")[seed % 3]
        for formula, numbers in one(family, epsilon, rows, seed, kind):
            found[formula].append(numbers)
    print(f"{family} epsilon {epsilon:g}, {rows} rows, {runs} runs")
    print(f"{'formula':22} reliable  coverage  error  width  z")
    for formula, numbers in found.items():
        every = np.array(numbers, float)
        kept = every[every[:, 0] > 0]
        means = kept.mean(axis=0) if len(kept) else np.full(5, np.nan)
        print(
            f"{formula:22} {every[:, 0].mean():8.2f}  {means[1]:8.2f}  {means[2]:.3f}"
            f"  {means[3]:.3f}  {means[4]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
