"""Which release of a linear regression is closest, and whose 90 % intervals hold the truth.

    python -m experiments.regression_compared [--quick] [--output var/regression_compared]

The linear cells of calibration.py (responses simulated from the model, over real covariates and
simulated ones), one holder, replace-one, delta 1e-6. noisy_quadratic beside the methods of
sufficient_statistics, all of them given the same exact release of X'X, X'y and y'y at the same
cost, under the prior of a job. Distance: root mean square of estimate - truth in sds of the
estimate without privacy. reliable: share of runs whose own verdict says so, and the coverage of
those. Writes regression_compared.csv (a row for each cell and method) and .json.
"""

import math
import time

import numpy as np

from dpmcmc.privacy import accountant
from dpmcmc.regression.mixtures import METHODS
from dpmcmc.regression.statistics import release
from dpmcmc.releases.sums_posterior import Sums, judge
from experiments import calibration
from experiments.baselines import DELTA
from experiments.reporting import choose, write_csv, write_json

CELLS = ("powerplant", "air", "plain-linear-2000x4", "correlated-linear-2000x4",
         "skewed-linear-2000x4", "plain-linear-20000x10")  # fmt: skip
EPSILONS, RUNS, HALF, LEVEL = (0.5, 1.0, 2.0, 4.0), 20, 4.0, 1.645
LOG_SIGMA_SD = 1.5  # of the prior of a job


def case_of(name):
    """A cell of calibration.py."""
    if name in calibration.REAL:
        return calibration.REAL[name]()
    return calibration.simulated(*calibration.SIMULATED[name])


def told_of(releases, method, random):
    """Means, sds (runs, d) in units of an eighth of the response's range, and verdicts (runs,)."""
    d = releases[0].gram.shape[-1]
    prior = np.zeros(d + 1), np.append(np.full(d, 1.0 / 64.0), LOG_SIGMA_SD**-2.0)
    means, sds, reliable = [], [], []
    for noisy in releases:
        made = Sums(noisy, method, np.zeros(d + 1), known=False, ones=True)
        found = made.posterior(*prior, random)
        draws = found.draws(1, 4000, random)[0][:, :d]
        means.append(draws.mean(axis=0))
        sds.append(draws.std(axis=0))
        reliable.append(judge(found.release, None).reliable)
    return np.array(means), np.array(sds), np.array(reliable)


def cell(name, epsilon, runs, seed):
    """A row of the CSV for each method."""
    case, mu = case_of(name), accountant.mu_of_epsilon(epsilon, DELTA)
    rng, random = np.random.default_rng(seed), calibration.Seeded(seed)
    d, unit = len(case.theta), (case.ends[1] - case.ends[0]) / (2.0 * HALF)
    middle, reach = 0.5 * sum(case.ends), math.sqrt(d)
    releases, quadratic, sds = [], [], []
    for _ in range(runs):
        y = case.simulated(rng)
        sds.append(calibration.fitted("linear", case.x, y)[1])
        draws, told = calibration.one(case, y, mu, random)
        quadratic.append((draws[:, :d].mean(axis=0), draws[:, :d].std(axis=0), told.reliable))
        releases.append(
            release(case.x, (y - middle) / unit, (reach, HALF), 1.0 / mu, random, squares=True)
        )
    found = {}
    for method in METHODS:
        means, spreads, reliable = told_of(releases, method, random)
        found[method] = means * unit + np.eye(d)[0] * middle, spreads * unit, reliable
    found["noisy_quadratic"] = tuple(np.array(part) for part in zip(*quadratic, strict=True))
    return [row(name, epsilon, key, *one, case.theta, np.array(sds)) for key, one in found.items()]


def row(name, epsilon, method, means, spreads, reliable, truth, sds):
    """Median over runs of the distance, which single runs may dominate, and the rest."""
    far = np.sqrt((((means - truth) / sds) ** 2).mean(axis=1))
    held = np.abs(means - truth) < LEVEL * spreads
    return {
        "cell": name,
        "epsilon": epsilon,
        "method": method,
        "distance": round(float(np.sqrt((far**2).mean())), 3),
        "median_distance": round(float(np.median(far)), 3),
        "coverage": round(float(held.mean()), 3),
        "width": round(float(np.median(spreads / sds)), 3),
        "reliable": round(float(reliable.mean()), 3),
        "coverage_reliable": round(float(held[reliable].mean()), 3) if reliable.any() else "",
        "runs": len(means),
    }


def main():
    """Run every cell that the data is there for."""
    choice, start, rows = choose("regression_compared", __doc__), time.time(), []
    cells, epsilons = (CELLS[2:3], EPSILONS[1:2]) if choice.quick else (CELLS, EPSILONS)
    if not calibration.SHARED.exists():
        print("The data sets of ../shared/data are absent: simulated cells alone are run.")
        cells = [name for name in cells if name not in calibration.REAL]
    for k, name in enumerate(cells):
        for epsilon in epsilons:
            seed = int(choice.random.integers(2**32))
            rows += cell(name, epsilon, 5 if choice.quick else RUNS, seed + k)
            write_csv(choice.output / "regression_compared.csv", rows)
    best = {}
    for one in rows:
        key = f"{one['cell']}, epsilon {one['epsilon']:g}"
        best.setdefault(key, {})[one["method"]] = one["median_distance"]
    findings = {key: min(some, key=some.get) for key, some in best.items()}
    settings = {"epsilons": EPSILONS, "runs": RUNS, "delta": DELTA}
    path = choice.output / "regression_compared.json"
    write_json(path, choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
