"""Effective draws of chains where effects are large, beside what their plans promise.

    python experiments/large_effects.py [--samplers dp_barker ...] [--designs 0 1 ...]
        [--rows 4000] [--epsilon 100] [--quick] [--seed 1] [--output var/large_effects]

Twenty designs: logistic, Poisson and linear regressions with coefficients of up to three, rare and
common answers, correlated columns, categories, more columns; means at the edge of their bounds.
Rows are made so that they fill their bounds about as plans guess. Each sampler runs its own plan of
each design; "measured" is the bulk ESS after warm-up, averaged over the
coefficients, which is what plans promise, and "least" that of the slowest coefficient.

Writes large_effects.csv. Made-up rows; it never runs in the service.
"""

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpmcmc.base.private import Released
from dpmcmc.fit.local import sample
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.samplers import SAMPLERS

DELTA = 1e-6
SPREAD = 0.4  # sd of a column, in half ranges, as plans guess it
MOST_COUNT = 60.0
LEVELS = ("a", "b", "c")
LEVEL_SHARES = (0.5, 0.3, 0.2)


@dataclass(frozen=True)
class Made:
    """A design: truth is the intercept, the coefficients of numbers x1, x2, ..., then of levels.

    related: correlation of the first two numbers. levels: coefficients of all levels but the first.
    """

    family: str
    truth: tuple[float, ...]
    related: float = 0.0
    levels: tuple[float, ...] = ()


DESIGNS = (
    Made("logistic", (0.3, 1.0, 0.0)),
    Made("logistic", (0.0, 2.0)),
    Made("logistic", (0.0, -3.0)),
    Made("logistic", (-2.0, 1.0, 1.0)),
    Made("logistic", (2.0, -1.5, 0.5)),
    Made("logistic", (0.3, 1.0, 0.0, -1.0, 0.5)),
    Made("logistic", (0.5, 2.0, -2.0)),
    Made("logistic", (0.0, 1.5, 1.5), related=0.8),
    Made("logistic", (0.3, 2.5, 0.0), related=-0.6),
    Made("logistic", (-1.0, 1.0), levels=(1.5, -1.0)),
    Made("poisson", (1.0, 1.0)),
    Made("poisson", (0.5, 1.0, -1.0)),
    Made("poisson", (1.5, -0.8, 0.8), related=0.6),
    Made("poisson", (0.5, 0.7), levels=(0.8, -0.8)),
    Made("linear", (0.0, 3.0)),
    Made("linear", (2.0, 3.0, -3.0)),
    Made("linear", (1.0, 2.0, 2.0), related=0.7),
    Made("linear", (-1.0, 1.5), levels=(2.0, -2.0)),
    Made("gaussian_mean", (0.9, -0.9)),
    Made("gaussian_mean", (0.5,)),
)


def rows_of(made, rows, rng):
    """Return (schema, data, formula) of a design."""
    numbers = len(made.truth) - (made.family != "gaussian_mean")
    drawn = rng.normal(size=(rows, numbers))
    if made.related and numbers > 1:
        drawn[:, 1] = made.related * drawn[:, 0] + np.sqrt(1 - made.related**2) * drawn[:, 1]
    if made.family == "gaussian_mean":
        x = np.clip(drawn + np.array(made.truth), -4.0, 4.0)
        names = [f"x{j + 1}" for j in range(numbers)]
        columns = [NumberColumn(name=name, lower=-4.0, upper=4.0) for name in names]
        data = dict(zip(names, x.T, strict=True))
        return Schema(columns=tuple(columns), rows=rows), data, "~ " + " + ".join(names)
    x = np.clip(SPREAD * drawn, -1.0, 1.0)
    eta = made.truth[0] + x @ np.array(made.truth[1:])
    columns = [NumberColumn(name=f"x{j + 1}", lower=-1.0, upper=1.0) for j in range(numbers)]
    data = {f"x{j + 1}": x[:, j] for j in range(numbers)}
    if made.levels:
        level = rng.choice(len(LEVELS), rows, p=LEVEL_SHARES)
        eta = eta + np.array((0.0, *made.levels))[level]
        columns.append(CategoryColumn(name="g", categories=LEVELS))
        data["g"] = np.array(LEVELS)[level]
    formula = "y ~ " + " + ".join(column.name for column in columns)
    if made.family == "logistic":
        data["y"] = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-eta)), "yes", "no")
        columns.append(BinaryColumn(name="y", categories=("no", "yes")))
    elif made.family == "poisson":
        data["y"] = np.minimum(rng.poisson(np.exp(eta)), MOST_COUNT).astype(float)
        columns.append(NumberColumn(name="y", lower=0.0, upper=MOST_COUNT))
    else:
        data["y"] = np.clip(eta + rng.normal(size=rows), -10.0, 10.0)
        columns.append(NumberColumn(name="y", lower=-10.0, upper=10.0))
    return Schema(columns=tuple(columns), rows=rows), data, formula


def measured(name, number, rows, epsilon, seed, **options):
    """Return a row of the table: what the plan of a sampler promises, and what its run gives."""
    made = DESIGNS[number]
    schema, data, formula = rows_of(made, rows, np.random.default_rng((seed, number)))
    start = time.perf_counter()
    result = sample(
        data,
        schema=schema,
        model=ModelSpec(family=made.family, formula=formula),
        epsilon=epsilon,
        delta=DELTA,
        sampler=SAMPLERS[name].options(**options),
        progress=False,
        accept_low_quality=True,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    every = summarise(Released(kept), result.plan.parameters)
    bulk = [0.0 if s.ess_bulk is None else s.ess_bulk for s in every]
    moved = (np.diff(kept, axis=1) != 0.0).any(axis=2).mean()
    promised = result.plan.expected_ess
    return {
        "sampler": name,
        "design": number,
        "family": made.family,
        "coefficients": len(bulk),
        "steps": result.plan.num_steps,
        "chains": result.plan.num_chains,
        "warmup": result.plan.num_warmup,
        "moved": float(moved),
        "promised": promised,
        "measured": float(np.mean(bulk)),
        "least": min(bulk),
        "promised_over_measured": promised / max(float(np.mean(bulk)), 1.0),
        "verdict": result.verdict.status,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main(words=None):
    """Run the samplers on the designs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", nargs="*", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--designs", nargs="*", type=int, default=list(range(len(DESIGNS))))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=100.0)
    parser.add_argument("--quick", action="store_true", help="every fifth design")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("var/large_effects"))
    choice = parser.parse_args(words)
    choice.output.mkdir(parents=True, exist_ok=True)
    table = None
    with (choice.output / "large_effects.csv").open("w", newline="") as out:
        for name in choice.samplers:
            for number in choice.designs[:: 5 if choice.quick else 1]:
                row = measured(name, number, choice.rows, choice.epsilon, choice.seed)
                if table is None:
                    table = csv.DictWriter(out, row)
                    table.writeheader()
                table.writerow(row)
                out.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()
