"""Wards of equal and of ragged sizes, `y ~ x + (1 | ward)`: coverage of how much they differ.

python -m experiments.wards [family] [epsilon] [wards] [sizes] [runs] [first seed]. sizes: one
number for all wards, or two such as 5-5000, between which they are log uniform. Residuals have sd 2
where the response is a number. Printed are, over results that are called reliable, how often 90 %
intervals hold `sd(ward)`, effects, levels and the coefficient, the same of the posterior without
privacy, means and sds of the logarithm of `sd(ward)` over the truth in both, and errors of levels
beside those of one level for all and of a level for each ward alone without privacy.
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
TRUTH = {"linear": (20.0, 1.5, 1.0), "logistic": (-0.5, 0.8, 0.7), "poisson": (0.5, 0.4, 0.5)}
PRIOR = {"linear": 10.0, "logistic": 1.0, "poisson": 1.0}
SDS = np.geomspace(0.1, 6.0, 240)  # over the truth
NAMES = "sd(ward)", "effects", "levels", "x"


def rows_of(family, sizes, random):
    """Return columns, their schema, predictors without a ward's effect, and the effects."""
    first, slope, sd = TRUTH[family]
    effects = random.normal(0.0, sd, len(sizes))
    ward = np.repeat(np.arange(len(sizes)), sizes)
    x = np.clip(random.normal(0.0, 0.6, len(ward)), -2, 2)
    eta = first + slope * x + effects[ward]
    if family == "linear":
        y = np.clip(random.normal(eta, 2.0), 0, 40)
    elif family == "logistic":
        y = (random.random(len(ward)) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = np.minimum(random.poisson(np.exp(eta)), 60).astype(float)
    names = tuple(f"w{k}" for k in range(len(sizes)))
    columns = (
        NumberColumn(name="x", lower=-2, upper=2),
        CategoryColumn(name="ward", categories=names),
        RESPONSES[family],
    )
    told = np.where(y > 0, "yes", "no") if family == "logistic" else y
    data = {"x": x, "ward": np.array(names)[ward], "y": told}
    return data, Schema(columns=columns, rows=len(ward)), y, ward, effects


def without_privacy(family, x, y, ward, wards):
    """Return the posterior (240,) of the sd of effects on a grid, the slope as it was drawn.

    Also levels of wards, each by its own rows alone.
    """
    first, slope, sd = TRUTH[family]
    grid = first + sd * np.linspace(-6.0, 6.0, 601)
    logs = np.zeros((wards, len(grid)))
    eta = slope * x
    size = np.bincount(ward, minlength=wards).astype(float)
    if family == "linear":
        sums, squares = (
            np.bincount(ward, weights=(y - eta) ** power, minlength=wards) for power in (1, 2)
        )
        logs = -(squares[:, None] - 2 * grid * sums[:, None] + size[:, None] * grid**2) / 8.0
        alone = sums / size
    else:
        sums = np.bincount(ward, weights=y, minlength=wards)
        for k, level in enumerate(grid):
            mean = np.exp(level + eta) if family == "poisson" else np.log1p(np.exp(level + eta))
            logs[:, k] = level * sums - np.bincount(ward, weights=mean, minlength=wards)
        alone = grid[np.argmax(logs, axis=1)]
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    middles = first + sd * np.linspace(-1.5, 1.5, 61)
    sds, out = sd * SDS, np.empty((len(SDS), len(middles)))
    for k, wide in enumerate(sds):
        laws = np.exp(-0.5 * ((grid[:, None] - middles) / wide) ** 2)
        laws /= np.maximum(laws.sum(axis=0), 1e-12)
        out[k] = np.log(np.maximum(likelihoods @ laws, 1e-300)).sum(axis=0)
    out -= 0.5 * (sds[:, None] / PRIOR[family]) ** 2
    weights = (np.exp(out - out.max()) * sds[:, None]).sum(axis=1)
    return weights / weights.sum(), alone


def one(family, epsilon, sizes, seed):
    """Return whether a result is called reliable, coverages, logs of sds and errors."""
    random = np.random.default_rng(seed)
    data, schema, y, ward, effects = rows_of(family, sizes, random)
    first, slope, sd = TRUTH[family]
    fit = sample(
        "y ~ x + (1 | ward)", data, schema, family=family, epsilon=epsilon, delta=1e-6,
        accept_low_quality=True,
    )  # fmt: skip
    draws = fit.on().reshape(-1, len(fit.plan.parameters))
    at = {name: k for k, name in enumerate(fit.plan.parameters)}
    own = draws[:, at["ward[w0]"] :]
    levels = draws[:, :1] + own

    def held(values, right):
        low, high = np.quantile(values, (0.05, 0.95), axis=0)
        return float(np.mean((low <= right) & (right <= high)))

    sds = draws[:, at["sd(ward)"]]
    weights, alone = without_privacy(family, data["x"], y, ward, len(sizes))
    ends = np.cumsum(weights)
    low, high = sd * SDS[np.searchsorted(ends, (0.05, 0.95))]
    logs = np.log(SDS)
    middle = float(weights @ logs)
    other = float(np.sqrt(weights @ (logs - middle) ** 2))
    coverage = (held(sds, sd), held(own, effects), held(levels, first + effects))
    coverage += (held(draws[:, 1], slope), float(low <= sd <= high))
    told = np.log(sds / sd)
    right = first + effects
    errors = [np.mean((part - right) ** 2) for part in (levels.mean(axis=0), right.mean(), alone)]
    return (
        fit.verdict.status == "reliable",
        coverage,
        (told.mean(), told.std(), middle, other, (told.mean() - middle)),
        errors,
    )


def main(family="logistic", epsilon=4.0, wards=50, sizes="5-1500", runs=20, start=0):
    kept, logs, errors, begun = [], [], [], time.monotonic()
    wards, runs = int(wards), int(runs)
    ends = [float(end) for end in sizes.split("-")]
    for seed in range(int(start), int(start) + runs):
        random = np.random.default_rng(1000 + seed)
        each = np.exp(random.uniform(np.log(ends[0]), np.log(ends[-1]), wards)).round()
        reliable, coverage, told, off = one(family, float(epsilon), each.astype(int), seed)
        if reliable:
            kept.append(coverage)
            logs.append(told)
            errors.append(off)
    took = (time.monotonic() - begun) / runs
    print(
        f"{family}, epsilon {epsilon}, {wards} wards of {sizes}: {len(kept)} of {runs} are called"
        f" reliable, {took:.1f} s"
    )
    if not kept:
        return
    names = (*NAMES, "sd(ward) without privacy")
    for name, share in zip(names, np.mean(kept, axis=0), strict=True):
        print(f"{name:25}{share:.2f}")
    mean, sd, other_mean, other_sd, apart = np.mean(logs, axis=0)
    seen = np.std(np.array(logs)[:, [0, 2, 4]], axis=0)
    print(f"log of sd(ward) over truth {mean:+.3f}, sd {sd:.3f}, over runs {seen[0]:.3f}")
    print(f"without privacy {other_mean:+.3f}, sd {other_sd:.3f}, over runs {seen[1]:.3f}")
    print(f"difference {apart:+.3f}, over runs {seen[2]:.3f}")
    own, same, alone = np.sqrt(np.mean(errors, axis=0))
    print(f"errors of levels {own:.2f}, of one level {same:.2f}, of each ward alone {alone:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
