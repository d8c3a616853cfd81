"""Wards within regions, `y ~ x + (1 | region/ward)`: coverage and error on simulated truth.

python -m experiments.nested [family] [epsilon] [regions] [wards] [rows] [runs] [region sd] [ward
sd]. Sizes of wards differ threefold each way; residuals have sd 2 where the response is a number.
Printed are, over results that are called reliable, coverage of 90 % intervals of both sds, of
effects of regions and of wards, of levels of wards, of the coefficient and of what a new ward of a
region is, and the error of levels beside the sd of wards within a region.
"""

import sys
import time

import numpy as np

from dpmcmc import BinaryColumn, CategoryColumn, NumberColumn, Schema, sample

RESPONSES = {
    "linear": NumberColumn(name="y", lower=0, upper=40),
    "logistic": BinaryColumn(name="y", categories=("no", "yes")),
    "poisson": NumberColumn(name="y", lower=0, upper=60),
}
TRUTH = {"linear": (20.0, 1.5), "logistic": (-0.5, 0.8), "poisson": (0.5, 0.4)}
NAMES = "sd(region)", "sd(ward)", "regions", "wards", "levels", "x", "new ward"


def rows_of(family, sizes, rows, sds, random):
    """Return rows, their schema, and the effects they were drawn from."""
    regions, wards = sizes
    parts = np.exp(random.uniform(-1.1, 1.1, regions * wards))
    cell = random.choice(regions * wards, rows, p=parts / parts.sum())
    outer = random.normal(0, sds[0], regions)
    inner = random.normal(0, sds[1], (regions, wards))
    x = np.clip(random.normal(0, 0.6, rows), -2, 2)
    first, slope = TRUTH[family]
    eta = first + slope * x + (outer[:, None] + inner).ravel()[cell]
    if family == "linear":
        y = np.clip(random.normal(eta, 2), 0, 40)
    elif family == "logistic":
        y = np.where(random.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no")
    else:
        y = np.minimum(random.poisson(np.exp(eta)), 60)
    names = [tuple(f"{letter}{k}" for k in range(n)) for letter, n in zip("rw", sizes, strict=True)]
    columns = (
        NumberColumn(name="x", lower=-2, upper=2),
        CategoryColumn(name="region", categories=names[0]),
        CategoryColumn(name="ward", categories=names[1]),
        RESPONSES[family],
    )
    data = {
        "x": x,
        "region": np.array(names[0])[cell // wards],
        "ward": np.array(names[1])[cell % wards],
        "y": y,
    }
    return data, Schema(columns=columns, rows=rows), outer, inner


def one(family, epsilon, sizes, rows, sds, seed):
    """Return whether a result is called reliable, coverages (7,) and two errors of levels."""
    random = np.random.default_rng(seed)
    data, schema, outer, inner = rows_of(family, sizes, rows, sds, random)
    fit = sample(
        "y ~ x + (1 | region/ward)", data, schema, family=family, epsilon=epsilon, delta=1e-6,
        accept_low_quality=True,
    )  # fmt: skip
    draws = fit.on().reshape(-1, len(fit.plan.parameters))
    at = {name: k for k, name in enumerate(fit.plan.parameters)}
    regions, wards = sizes
    first = at["region[r0]"]
    effects = draws[:, first : first + regions], draws[:, first + regions :]
    levels = draws[:, :1] + np.repeat(effects[0], wards, axis=1) + effects[1]
    truth = TRUTH[family][0] + (outer[:, None] + inner).ravel()

    def held(values, right):
        low, high = np.quantile(values, (0.05, 0.95), axis=0)
        return float(np.mean((low <= right) & (right <= high)))

    settings = [{"x": 0.0, "region": f"r{k}"} for k in range(regions)]
    told = fit.release.posterior().predict(settings)
    drawn = TRUTH[family][0] + outer + random.normal(0, sds[1], regions)
    new = [
        p.predictor.q05 <= right <= p.predictor.q95 for p, right in zip(told, drawn, strict=True)
    ]
    coverage = (
        held(draws[:, at["sd(region)"]], sds[0]),
        held(draws[:, at["sd(region:ward)"]], sds[1]),
        held(effects[0], outer),
        held(effects[1], inner.ravel()),
        held(levels, truth),
        held(draws[:, 1], TRUTH[family][1]),
        float(np.mean(new)),
    )
    error = float(np.sqrt(np.mean((levels.mean(axis=0) - truth) ** 2)))
    return fit.verdict.status == "reliable", coverage, error


def main(
    family="linear", epsilon=1.0, regions=20, wards=10, rows=20000, runs=20, outer=1.0, inner=0.7
):
    sizes, kept, errors, start = (int(regions), int(wards)), [], [], time.monotonic()
    for seed in range(int(runs)):
        reliable, coverage, error = one(
            family, float(epsilon), sizes, int(rows), (float(outer), float(inner)), seed
        )
        if reliable:
            kept.append(coverage)
            errors.append(error)
    each = (time.monotonic() - start) / int(runs)
    print(
        f"{family} epsilon {epsilon}: {len(kept)} of {int(runs)} are called reliable, {each:.1f} s"
    )
    if kept:
        for name, share in zip(NAMES, np.mean(kept, axis=0), strict=True):
            print(f"{name:12}{share:.3f}")
        print(
            f"error of levels {np.mean(errors):.3f}; wards of a region differ by {float(inner):.3f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
