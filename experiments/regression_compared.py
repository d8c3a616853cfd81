"""Which release of a linear regression is closest, and whose 90 % intervals hold the truth.

    python -m experiments.regression_compared [--quick] [--output var/regression_compared]

The linear cells of calibration.py (responses simulated from the model, over real covariates and
simulated ones), one holder, replace-one, delta 1e-6. noisy_quadratic beside what is inferred from
one exact release of X'X, X'y and y'y at the same cost: Bayes-fixedS-fast with the thesis' crude
variance, the same with the variance and the noise of X'X reckoned in (informed), MCMC-fixedS,
MCMC-normalX with an intercept, MCMC-B&S and adaSSP. Distance: root mean square of estimate - truth
in sds of the estimate without privacy. Writes regression_compared.csv (a row for each cell and
method) and .json.
"""

import math
import time

import numpy as np

from dpmcmc.privacy import accountant
from dpmcmc.regression import intercept, joint_normal
from dpmcmc.regression.fixed import Prior, fixed_s, fixed_s_fast, informed
from dpmcmc.regression.ridge import adassp
from dpmcmc.regression.statistics import Noisy, release
from experiments import calibration
from experiments.baselines import DELTA
from experiments.reporting import choose, write_csv, write_json

CELLS = ("powerplant", "air", "plain-linear-2000x4", "correlated-linear-2000x4",
         "skewed-linear-2000x4", "plain-linear-20000x10")  # fmt: skip
EPSILONS, RUNS, HALF, LEVEL = (0.5, 1.0, 2.0, 4.0), 20, 4.0, 1.645


def case_of(name):
    """A cell of calibration.py."""
    if name in calibration.REAL:
        return calibration.REAL[name]()
    return calibration.simulated(*calibration.SIMULATED[name])


def told_of(cases, prior, random):
    """method -> (means, sds) (runs, d) in units of an eighth of the response's range."""
    first, count = cases[0], len(cases)
    whole = Noisy(
        np.array([one.gram for one in cases]),
        np.array([one.moments for one in cases]),
        np.array([one.squares for one in cases]),
        first.sds,
        first.rows,
    )
    fast = fixed_s_fast(whole, prior, HALF / 3.0)
    found = {"fixedS-fast": (fast.mean, np.sqrt(np.diagonal(fast.covariance, 0, 1, 2)))}
    own = [informed(one, prior)[0] for one in cases]
    sds = [np.sqrt(np.diagonal(one.covariance)) for one in own]
    found["informed"] = np.array([one.mean for one in own]), np.array(sds)
    chained = {"fixedS": fixed_s(whole, prior, 300, random)}
    less = Prior(*(getattr(prior, k) for k in ("mean", "precision", "shape", "scale")),
                 prior.spread[1:, 1:], prior.degrees - 1.0)  # fmt: skip
    chained["normalX"] = intercept.walk(whole, less, 1200, 400, random)
    chained["B&S"] = joint_normal.walk(whole, prior, 400, 100, random)
    for name, drawn in chained.items():
        found[name] = drawn.coefficients.mean(axis=0), drawn.coefficients.std(axis=0)
    found["adaSSP"] = adassp(whole), np.full((count, len(prior.mean)), np.nan)
    return found


def cell(name, epsilon, runs, seed):
    """A row of the CSV for each method."""
    case, mu = case_of(name), accountant.mu_of_epsilon(epsilon, DELTA)
    rng, random = np.random.default_rng(seed), calibration.Seeded(seed)
    d, unit = len(case.theta), (case.ends[1] - case.ends[0]) / (2.0 * HALF)
    middle, reach = 0.5 * sum(case.ends), math.sqrt(d)
    prior = Prior(np.zeros(d), np.eye(d) / 64.0, 2.0, 2.0, np.eye(d) * 0.1, d + 1.0)
    releases, quadratic, sds = [], [], []
    for _ in range(runs):
        y = case.simulated(rng)
        sds.append(calibration.fitted("linear", case.x, y)[1])
        draws = calibration.one(case, y, mu, random)[0][:, :d]
        quadratic.append((draws.mean(axis=0), draws.std(axis=0)))
        releases.append(
            release(case.x, (y - middle) / unit, (reach, HALF), 1.0 / mu, random, squares=True)
        )
    found = {
        key: (means * unit + np.eye(d)[0] * middle, spreads * unit)
        for key, (means, spreads) in told_of(releases, prior, random).items()
    }
    found["noisy_quadratic"] = tuple(np.array(quadratic).swapaxes(0, 1))
    return [row(name, epsilon, key, *one, case.theta, np.array(sds)) for key, one in found.items()]


def row(name, epsilon, method, means, spreads, truth, sds):
    """Median over runs of the distance, which single runs may dominate, and the rest."""
    far = np.sqrt((((means - truth) / sds) ** 2).mean(axis=1))
    held = np.abs(means - truth) < LEVEL * spreads
    known = bool(np.isfinite(spreads).all())
    return {
        "cell": name,
        "epsilon": epsilon,
        "method": method,
        "distance": round(float(np.sqrt((far**2).mean())), 3),
        "median_distance": round(float(np.median(far)), 3),
        "coverage": round(float(held.mean()), 3) if known else "",
        "width": round(float(np.median(spreads / sds)), 3) if known else "",
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
