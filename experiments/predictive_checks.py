"""Checks of fitted models: how often one rejects a model that holds, and what it sees of others.

Simulated rows of every family are fitted and checked; then real counts and numbers, of which the
better known family is fitted beside the plain one. `python -m experiments.predictive_checks
[--runs 400] [--families NAME ...] [--fits 1 4]` prints both tables; real data in ../shared/data.
"""

import argparse
import warnings

import numpy as np
from scipy import stats
from scipy.special import expit

from dpmcmc import Schema, check_fit, sample
from experiments.baselines import DELTA
from experiments.posteriors import SHARED
from experiments.real_data import MISSING, read

ROWS, FITS, CHECKS = 4000, (1.0, 4.0), (0.05, 0.1, 1.0)
WORDS = np.array(["a", "b", "c"])


def simulated(family, rng):
    """Return (formula, rows, bounds) of a family's model."""
    x, w, u = rng.uniform(-1, 1, ROWS), rng.normal(0, 0.3, ROWS).clip(-1, 1), rng.random(ROWS)
    eta, cut_off = 0.5 + 0.8 * x - 0.5 * w, rng.uniform(0.5, 8.0, ROWS)
    mean, trials = np.exp(eta), rng.integers(1, 21, ROWS)
    above = stats.poisson.ppf(np.exp(-mean) + u * -np.expm1(-mean), mean).clip(1)
    cases = {
        "linear": (lambda: eta + stats.norm.ppf(u), (-6, 7)),
        "student_t": (lambda: eta + stats.t(4).ppf(u), (-30, 30)),
        "poisson": (lambda: stats.poisson.ppf(u, mean), (0, 40)),
        "negative_binomial": (lambda: stats.nbinom.ppf(u, 1.5, 1.5 / (1.5 + mean)), (0, 80)),
        "hurdle_poisson": (lambda: np.where(rng.random(ROWS) < expit(x - 0.3), 0, above), (0, 40)),
        "gamma": (lambda: mean * stats.gamma.ppf(u, 2.0, scale=0.5), (0.001, 60)),
        "beta": (lambda: stats.beta.ppf(u, 8 * expit(eta), 8 * expit(-eta)), (0.001, 0.999)),
        "logistic": (lambda: WORDS[1 * (u < expit(eta))], ("a", "b")),
        "ordinal": (lambda: WORDS[1 * (u < expit(eta)) + 1 * (u < expit(eta - 1.5))], tuple("abc")),
        "multinomial": (
            lambda: WORDS[(np.stack((0 * x, eta, w - 0.5)) + rng.gumbel(size=(3, ROWS))).argmax(0)],
            tuple("abc"),
        ),
    }
    rows, bounds = {"x": x, "w": w}, {"x": (-1, 1), "w": (-1, 1)}
    if family in ("exponential", "weibull"):
        sign, sigma = (-1, 1.0) if family == "exponential" else (1, 0.6)
        time = np.exp(sign * eta) * (-np.log(u)) ** sigma
        rows |= {"t": np.minimum(time, cut_off).clip(1e-3), "e": 1.0 * (time <= cut_off)}
        return "surv(t, e) ~ x + w", rows, bounds | {"t": (1e-3, 8), "e": (0, 1)}
    if family == "binomial":
        rows |= {"n": 1.0 * trials, "y": stats.binom.ppf(u, trials, expit(eta))}
        return "y | trials(n) ~ x + w", rows, bounds | {"n": (0, 20), "y": (0, 20)}
    make, ends = cases[family]
    y = make()
    y = y if isinstance(ends[0], str) else np.clip(1.0 * y, *ends)
    return "y ~ x + w", rows | {"y": y}, bounds | {"y": ends}


FAMILIES = (
    "linear", "student_t", "poisson", "negative_binomial", "hurdle_poisson", "gamma", "beta",
    "binomial", "exponential", "weibull", "logistic", "ordinal", "multinomial",
)  # fmt: skip


def fitted(formula, rows, bounds, family, epsilon):
    """Return the fit, whatever its plan says."""
    schema = Schema.from_frame(rows, bounds)
    known = {"epsilon": epsilon, "delta": DELTA, "family": family}
    return sample(formula, rows, schema, accept_low_quality=True, **known)


def level(family, epsilon, runs):
    """Return a line: of reliable fits at this epsilon the rejected, by the epsilon of the check."""
    rejected, reliable = np.zeros(len(CHECKS)), 0
    for run in range(runs):
        formula, rows, bounds = simulated(family, np.random.default_rng([5, run]))
        fit = fitted(formula, rows, bounds, family, epsilon)
        if fit.verdict.status != "reliable":
            continue
        reliable += 1
        rejected += [check_fit(fit, rows, epsilon=own, delta=DELTA).misfit for own in CHECKS]
    shares = rejected / max(reliable, 1) if reliable else np.full(len(CHECKS), np.nan)
    shown = " | ".join("-" if np.isnan(share) else f"{share:.3f}" for share in shares)
    return f"| {family}, fit at {epsilon:g} | {reliable} of {runs} | {shown} |"


# data set, formula, bounds, families
REAL = (
    ("real", "randhie", "mdvis ~ xage + disea",
     {"mdvis": (0, 80), "xage": (0, 65), "disea": (0, 60)},
     ("poisson", "hurdle_poisson", "negative_binomial")),
    ("real", "vietnami", "pharvis ~ age + lnhhexp",
     {"pharvis": (0, 30), "age": (0, 5), "lnhhexp": (0, 6)},
     ("poisson", "hurdle_poisson", "negative_binomial")),
    ("datasets", "bike_hour", "cnt ~ temp + hum", {"cnt": (0, 1000), "temp": (0, 1), "hum": (0, 1)},
     ("poisson", "negative_binomial")),
    ("real", "cps1988", "wage ~ education + experience",
     {"wage": (50, 19_000), "education": (0, 18), "experience": (-4, 63)},
     ("linear", "student_t", "gamma")),
)  # fmt: skip


def observed(folder, name, formula, bounds, family, epsilon):
    """Return a line on a model of real rows."""
    known = read(folder, name)
    whole = ~np.any([np.isin(known[key], list(MISSING)) for key in bounds], axis=0)
    rows = {key: known[key][whole].astype(float) for key in bounds}
    fit = fitted(formula, rows, bounds, family, 1.0)
    check = check_fit(fit, rows, epsilon=epsilon, delta=DELTA)
    found, widest = check.findings, max(abs(one.share - 0.1) for one in check.bins)
    facts = f"{len(rows[next(iter(rows))]):,} | {epsilon:g} | {found.statistic:.0f}"
    return f"| `{formula}`, {family} | {facts} | {100 * widest:.1f} % | {fit.verdict.status} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--fits", nargs="*", type=float, default=FITS, help="epsilons")
    parser.add_argument("--real", action="store_true", help="real data alone")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for family in () if asked.real else asked.families:
        for epsilon in asked.fits:
            print(level(family, epsilon, asked.runs), flush=True)
    for folder, name, formula, bounds, families in REAL if (SHARED / "data").exists() else ():
        for family in families:
            for epsilon in (0.1, 0.5):
                print(observed(folder, name, formula, bounds, family, epsilon), flush=True)


if __name__ == "__main__":
    main()
