"""Which release of a linear regression is closest, and whose 90 % intervals hold the truth.

    python -m experiments.regression_compared [--quick] [--output var/regression_compared]

The linear cells of calibration.py (responses simulated from the model, over real covariates and
simulated ones), one holder, replace-one, delta 1e-6. noisy_quadratic beside every method of
sufficient_statistics, as a job runs them: one exact release of X'X, X'y and y'y at the same cost,
the posterior of each method, and its verdict. Distance: root mean square of estimate - truth in sds
of the estimate without privacy. Writes regression_compared.csv (a row for each cell and method).
"""

import math
import time

import numpy as np

from dpmcmc.privacy import accountant
from dpmcmc.releases.regression.mixtures import METHODS
from dpmcmc.releases.regression.statistics import release
from dpmcmc.releases.sufficient_statistics import Sums, judge
from experiments import calibration
from experiments.baselines import DELTA
from experiments.reporting import choose, write_csv, write_json

CELLS = ("powerplant", "air", "plain-linear-2000x4", "correlated-linear-2000x4",
         "skewed-linear-2000x4", "plain-linear-20000x10")  # fmt: skip
EPSILONS, RUNS, HALF, ENDS = (0.5, 1.0, 2.0, 4.0, 10.0), 40, 4.0, (0.05, 0.95)
WIDE, DRAWS = 8.0, 2000  # sd of the prior, in eighths of the response's range


def case_of(name):
    """A cell of calibration.py."""
    if name in calibration.REAL:
        return calibration.REAL[name]()
    return calibration.simulated(*calibration.SIMULATED[name])


def by_sums(noisy, random):
    """method -> (draws (n, d), whether the verdict is that they may be believed)."""
    d = noisy.gram.shape[-1]
    mean, precision = np.zeros(d + 1), np.append(np.full(d, WIDE**-2.0), 1.5**-2.0)
    found = {}
    for method in METHODS:
        sums = Sums(noisy, method, np.zeros(d + 1), known=False, ones=True)
        made = sums.posterior(mean, precision, random)
        told = judge(made.release, None)
        found[method] = made.draws(1, DRAWS, random)[0][:, :d], told.reliable
    return found


def cell(name, epsilon, runs, seed):
    """A row of the CSV for each method."""
    case, mu = case_of(name), accountant.mu_of_epsilon(epsilon, DELTA)
    rng, random = np.random.default_rng(seed), calibration.Seeded(seed)
    d, unit = len(case.theta), (case.ends[1] - case.ends[0]) / (2.0 * HALF)
    middle, reach = 0.5 * sum(case.ends), math.sqrt(d)
    drawn, sds = {}, []
    for _ in range(runs):
        y = case.simulated(rng)
        sds.append(calibration.fitted("linear", case.x, y)[1])
        draws, reliable = calibration.one(case, y, mu, random)
        drawn.setdefault("noisy_quadratic", []).append((draws[:, :d], reliable))
        bounds = reach, HALF
        noisy = release(case.x, (y - middle) / unit, bounds, 1.0 / mu, random, squares=True)
        for method, (found, reliable) in by_sums(noisy, random).items():
            found = found * unit + np.eye(d)[0] * middle
            drawn.setdefault(method, []).append((found, reliable))
    return [row(name, epsilon, key, one, case.theta, np.array(sds)) for key, one in drawn.items()]


def row(name, epsilon, method, runs, truth, sds):
    """Median over runs of the distance, which single runs may dominate, and the rest."""
    draws, good = np.array([one for one, _ in runs]), np.array([told for _, told in runs])
    low, high = np.quantile(draws, ENDS, axis=1)
    held = (low < truth) & (truth < high)
    far = np.sqrt((((draws.mean(axis=1) - truth) / sds) ** 2).mean(axis=1))
    return {
        "cell": name,
        "epsilon": epsilon,
        "method": method,
        "distance": round(float(np.sqrt((far**2).mean())), 3),
        "median_distance": round(float(np.median(far)), 3),
        "coverage": round(float(held.mean()), 3),
        "width": round(float(np.median(draws.std(axis=1) / sds)), 3),
        "unreliable": round(float(1.0 - good.mean()), 3),
        "coverage_reliable": round(float(held[good].mean()), 3) if good.any() else "",
        "runs": len(runs),
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
