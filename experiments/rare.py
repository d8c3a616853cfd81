"""Rare categories and rare responses: are results that call themselves reliable right?

Part "categories": linear models of random design, with one to four categories that .4 to 10 % of
the rows have, and numbers beside. Part "responses": logistic and multinomial models of a response
that .5 to 3 % of the rows have. Simulated from the model, so that the truth is known.
`python -m experiments.rare [--parts categories responses] [--designs 100] [--runs 40]`.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

from dpmcmc.families.multinomial import probabilities
from dpmcmc.privacy import accountant
from experiments.baselines import DELTA
from experiments.calibration import (
    DOMAIN,
    EPSILONS,
    LEVEL,
    Case,
    code_version,
    columns_of,
    designed,
    fitted,
    one,
)
from experiments.reporting import add_row, rows_of
from tests.sources import Seeded

DATA = Path(__file__).parent / "data" / "rare.csv"
COLUMNS = (
    "part", "cell", "family", "rows", "coefficients", "epsilon", "rare", "runs", "domain",
    "unreliable", "coverage", "worst", "width", "farthest", "wrong", "code",
)  # fmt: skip
FAR = 5.0  # sds of a result's own, from which it is wrong
SIZES = ((2000, 2), (20_000, 3))
SHARES = (0.005, 0.01, 0.03)


def random_design(seed):
    """A linear case with rare categories, its epsilon, and how many rows the rarest has."""
    rng = np.random.default_rng(1000 + seed)
    while True:
        n = int(np.exp(rng.uniform(np.log(1000), np.log(30_000))))
        few, numbers = int(rng.integers(1, 5)), int(rng.integers(0, 5))
        epsilon = float(rng.choice(EPSILONS))
        information = n * accountant.mu_of_epsilon(epsilon, DELTA) ** 2
        if information > 30 * (1 + few + numbers):
            break
    shares = np.exp(rng.uniform(np.log(0.004), np.log(0.1), few))
    if rng.random() < 0.5:  # levels of one factor
        ends, at = np.concatenate(([0.0], np.cumsum(shares))), rng.random(n)
        columns = [((at >= a) & (at < b)) * 1.0 for a, b in pairwise(ends)]
    else:
        columns = list((rng.random((few, n)) < shares[:, None]) * 1.0)
    kind = str(rng.choice(["plain", "skewed", "correlated"]))
    columns += list(columns_of(kind, numbers, n, rng))
    size, room = float(rng.choice([2.5, 6.0])), float(rng.choice([1.0, 1.0, 4.0]))
    x = designed(columns)
    slopes = rng.uniform(-size, size, few), rng.uniform(-2, 2, numbers)
    theta = np.concatenate(([0.0], *slopes))
    theta[0] = 2.0 - float((theta @ x).mean())
    reach = room * float(np.abs(theta @ x - 2.0).max()) + 4.0
    case = Case("linear", x, theta, 1.0, (2.0 - reach, 2.0 + reach))
    return case, epsilon, int(x[1 : 1 + few].sum(axis=1).min())


def with_share(family, n, d, share):
    """A case in which a response has this share; of a multinomial one the third category."""
    rng = np.random.default_rng(3)
    x = designed(list(rng.uniform(-1, 1, (d, n))))
    slopes = [rng.choice([-1, 1], d) * rng.uniform(0.5, 1.5, d) for _ in range(2)]
    theta = np.zeros((1 if family == "logistic" else 2, d + 1))
    theta[:, 1:] = slopes[: len(theta)]
    low, high = -20.0, 20.0
    for _ in range(60):
        theta[-1, 0] = 0.5 * (low + high)
        less = probabilities(theta @ x)[1][-1].mean() < share
        low, high = (theta[-1, 0], high) if less else (low, theta[-1, 0])
    return Case(family, x, theta.ravel(), 1.0, (0.0, float(len(theta))))


def judged(part, cell, case, epsilon, rare, runs, seed):
    """A row of the CSV."""
    mu, rng = accountant.mu_of_epsilon(epsilon, DELTA), np.random.default_rng(seed)
    n, d = case.x.shape[1], len(case.theta)
    truth = np.append(case.theta, 0.0) if case.family == "linear" else case.theta
    good, held, away, wide = [], [], [], []
    for run in range(runs):
        y = case.simulated(rng)
        draws, reliable = one(case, y, mu, Seeded(77_000 + 1000 * seed + run))
        low, high = np.quantile(draws, LEVEL, axis=0)
        good.append(reliable)
        held.append((low < truth) & (truth < high))
        away.append(np.abs(draws.mean(axis=0) - truth) / draws.std(axis=0))
        wide.append(draws.std(axis=0)[:d] / fitted(case.family, case.x, y)[1])
    good = np.array(good)
    held, away = np.array(held)[good], np.array(away)[good]
    known = good.any()
    return {
        "part": part,
        "cell": cell,
        "family": case.family,
        "rows": n,
        "coefficients": d,
        "epsilon": epsilon,
        "rare": rare,
        "runs": runs,
        "domain": round(n * mu * mu / (DOMAIN * d), 3),
        "unreliable": round(1.0 - float(good.mean()), 3),
        "coverage": round(float(held.mean()), 3) if known else "",
        "worst": round(float(held.mean(axis=0).min()), 3) if known else "",
        "width": round(float(np.median(wide)), 3),
        "farthest": round(float(away.max()), 2) if known else "",
        "wrong": int((away.max(axis=1) > FAR).sum()) if known else 0,
        "code": code_version(),
    }


def cells(choice):
    """Yield what a row of the CSV is made of, but for the number of runs."""
    if "categories" in choice.parts:
        for seed in range(choice.designs):
            yield "categories", f"design-{seed}", *random_design(seed), seed
    if "responses" in choice.parts:
        for family in ("logistic", "multinomial"):
            for n, d in SIZES:
                for share in SHARES:
                    case = with_share(family, n, d, share)
                    for epsilon in (1.0, 4.0, 10.0):
                        told = f"{family}-{n}x{d}-{share:g}", case, epsilon, round(share * n)
                        yield "responses", *told, 5


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=["categories", "responses"])
    parser.add_argument("--designs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; cells in it are kept")
    choice = parser.parse_args(words)
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(choice.output)}
    for part, cell, case, epsilon, rare, seed in cells(choice):
        if (cell, epsilon) not in done:
            row = judged(part, cell, case, epsilon, rare, choice.runs, seed)
            add_row(choice.output, COLUMNS, row)
            print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
