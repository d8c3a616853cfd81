"""Simulated panels: whether intervals of persons hold the population-average truth.

Persons with one to eight rows, random intercepts and slopes, five families. Of each cell: whether
90 % intervals of reliable runs hold the population-average coefficients, and how
far off the means are in sds of the posterior.
`python -m experiments.panels [--runs 40]` adds what is missing to the CSV and writes the table
into experiments/README.md.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from dpmcmc import ModelSpec, Schema, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import ModelOptions
from experiments.calibration import code_version
from experiments.reporting import add_row, rows_of

FAMILIES = ("linear", "logistic", "poisson", "negative_binomial", "multinomial")
SIZES, EPSILONS, MOST, LEVEL = (2000, 20_000), (0.5, 1.0, 2.0, 4.0), 8, 0.9
DISPERSION, MANY, BATCHES = 4.0, 50_000, 100
COLUMNS = (
    "family", "persons", "epsilon", "runs", "reliable", "held", "of", "off", "rms", "all_held",
    "seconds", "code",
)  # fmt: skip
BOUNDS = {
    "age": (-1, 1),
    "dose": (-1, 1),
    "cured": ("no", "yes"),
    "score": (-12, 12),
    "visits": (0, 60),
    "counts": (0, 60),
    "colour": ("blue", "green", "red"),
}
RESPONSES = dict(zip(FAMILIES, ("score", "cured", "visits", "counts", "colour"), strict=True))
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "panels.csv", HERE / "README.md"
BEGIN, END = "<!-- panels: begin -->", "<!-- panels: end -->"


def panel(persons, rng):
    """Rows of persons: an age of the person, a dose of the row, an intercept and slope of each."""
    person = np.repeat(np.arange(persons), rng.integers(1, MOST + 1, persons))
    age = np.clip(rng.normal(0, 0.4, persons), -1, 1)[person]
    dose = np.clip(rng.normal(0, 0.4, len(person)), -1, 1)
    own, slope = 0.8 * rng.normal(size=persons)[person], 0.5 * rng.normal(size=persons)[person]
    eta = -0.2 + 0.8 * age + (0.6 + slope) * dose + own
    odds = np.stack([np.zeros(len(eta)), eta, 0.5 * eta - 0.2])
    mean = np.exp(0.5 + 0.5 * eta)
    return {
        "patient": person,
        "age": age,
        "dose": dose,
        "cured": np.where(rng.random(len(eta)) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        "score": np.clip(eta + rng.normal(size=len(eta)), *BOUNDS["score"]),
        "visits": np.minimum(rng.poisson(mean), BOUNDS["visits"][1]),
        "counts": np.minimum(
            rng.poisson(mean * rng.gamma(DISPERSION, 1 / DISPERSION, len(eta))),
            BOUNDS["counts"][1],
        ),
        "colour": np.array(BOUNDS["colour"])[(odds + rng.gumbel(size=odds.shape)).argmax(axis=0)],
    }


def estimate(rows, family):
    """The maximum likelihood fit of rows as if they were independent: what persons' fits aim at."""
    x = np.stack([np.ones(len(rows["age"])), rows["age"], rows["dose"]])
    classes = 2 if family == "multinomial" else 1
    theta = np.zeros((classes, len(x)))
    y = {
        "logistic": lambda: (rows["cured"] == "yes")[None],
        "multinomial": lambda: np.stack([rows["colour"] == "green", rows["colour"] == "red"]),
    }.get(family, lambda: rows[RESPONSES[family]][None])()
    for _ in range(40):
        eta = theta @ x
        if family == "multinomial":
            mean = np.exp(eta) / (1 + np.exp(eta).sum(axis=0))
            slope = np.einsum("am,ab->abm", mean, np.eye(2)) - mean[:, None] * mean[None]
            psi = y - mean
        elif family == "negative_binomial":
            mean = np.exp(eta)
            share = 1 / (1 + mean / DISPERSION)
            psi, slope = (y - mean) * share, (mean * share)[None]
        else:
            mean = {"linear": eta, "logistic": 1 / (1 + np.exp(-eta))}.get(family, np.exp(eta))
            slopes = {"linear": np.ones_like(eta), "logistic": mean * (1 - mean)}
            psi, slope = y - mean, slopes.get(family, mean)[None]
        scores = np.einsum("am,dm->ad", psi, x).ravel()
        curve = np.einsum("abm,dm,em->adbe", slope, x, x).reshape(len(scores), -1)
        step = np.linalg.solve(curve, scores).reshape(classes, -1)
        theta = theta + step
        if np.abs(step).max() < 1e-9:
            break
    return theta.ravel()


def truth(family):
    """The population-average coefficients: known, or the mean over BATCHES panels of MANY persons.

    Five million persons: their own error is a sixteenth of the sd of a fit to 20,000.
    """
    if family == "linear":
        return np.array([-0.2, 0.8, 0.6])
    rng = np.random.default_rng(2026)
    return np.mean([estimate(panel(MANY, rng), family) for _ in range(BATCHES)], axis=0)


def measured(family, persons, epsilon, runs, wanted):
    """A row of the CSV."""
    options = {"negative_binomial": ModelOptions(dispersion=DISPERSION)}
    model = ModelSpec(
        family=family,
        formula=f"{RESPONSES[family]} ~ age + dose",
        options=options.get(family, ModelOptions()),
    )
    found, began = [], time.perf_counter()
    rng = np.random.default_rng([FAMILIES.index(family), persons, int(10 * epsilon)])
    for _ in range(runs):
        rows = panel(persons, rng)
        schema = Schema.from_frame(rows, bounds=BOUNDS, privacy_unit="patient", max_rows=MOST)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = sample(
                rows, schema=schema, model=model, epsilon=epsilon, delta=1e-6,
                sampler=NoisyQuadraticOptions(estimand="model"), accept_low_quality=True,
            )  # fmt: skip
        draws = fit.on("design").reshape(-1, len(fit.plan.parameters))[:, : len(wanted)]
        low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
        off = (draws.mean(axis=0) - wanted) / draws.std(axis=0)
        found.append((fit.verdict.status == "reliable", (low <= wanted) & (wanted <= high), off))
    good = [one for one in found if one[0]]
    held = np.array([one[1] for one in good]) if good else np.full((1, 1), np.nan)
    offs = np.array([one[2] for one in good or found])
    return {
        "family": family, "persons": persons, "epsilon": epsilon, "runs": runs,
        "reliable": len(good), "held": round(float(held.mean()), 3),
        "of": len(good) * len(wanted),
        "off": " ".join(f"{one:.2f}" for one in offs.mean(axis=0)),
        "rms": round(float(np.sqrt(np.square(offs).mean())), 3),
        "all_held": round(float(np.mean([one[1] for one in found])), 3),
        "seconds": round((time.perf_counter() - began) / runs, 3), "code": code_version(),
    }  # fmt: skip


def table(rows):
    """The table as Markdown."""
    lines = [
        "| family | persons | " + " | ".join(f"epsilon {one:g}" for one in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    for family in FAMILIES:
        for persons in SIZES:
            here = {
                float(r["epsilon"]): r
                for r in rows
                if (r["family"], int(r["persons"])) == (family, persons)
            }
            cells = [
                "-"
                if (r := here.get(epsilon)) is None
                else f"none of {r['runs']}"
                if r["reliable"] == "0"
                else f"{float(r['held']):.2f}, {r['reliable']} of {r['runs']}"
                for epsilon in EPSILONS
            ]
            lines.append(f"| {family} | {persons:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    """Add what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    there = {(r["family"], int(r["persons"]), float(r["epsilon"])) for r in rows_of(DATA)}
    truths = {family: truth(family) for family in FAMILIES}
    for persons in SIZES:
        for epsilon in EPSILONS:
            for family in FAMILIES:
                if (family, persons, epsilon) not in there:
                    row = measured(family, persons, epsilon, runs, truths[family])
                    add_row(DATA, COLUMNS, row)
    text = TABLE.read_text()
    head, rest = text.split(BEGIN)
    TABLE.write_text(head + BEGIN + "\n" + table(rows_of(DATA)) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
