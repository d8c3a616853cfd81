"""Effective draws of chains where effects are large, beside what their plans promise.

    python -m experiments.large_effects [--samplers dp_barker ...] [--designs 0 1 ...]
        [--rows 1000] [--epsilon 300] [--steps 10000] [--seed 1] [--output large_effects.csv]

Twenty designs: logistic, Poisson and linear regressions with coefficients of up to three, rare and
common answers, correlated columns, categories, more columns; means at the edge of their bounds.
Rows are made so that they fill their bounds about as plans guess. Each sampler runs its own plan of
each design; "measured" is the bulk ESS after warm-up by ArviZ, averaged over the coefficients,
which is what plans promise, and "least" that of the slowest coefficient. By default epsilon is one
at which chains are of use, and steps are few; `--planned` leaves their number to the plan, which
takes an hour.

Adds what is missing to data/large_effects.csv, and writes its table into README.md. Made-up rows;
it never runs in the service.
"""

import argparse
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
from experiments.calibration import code_version
from experiments.reporting import add_row, rows_of

DELTA = 1e-6
SPREAD = 0.4  # sd of a column, in half ranges, as plans guess it
MOST_COUNT = 60.0
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "large_effects.csv", HERE / "README.md"
BEGIN, END = "<!-- large effects: begin -->", "<!-- large effects: end -->"
COLUMNS = (
    "sampler", "design", "family", "rows", "epsilon", "coefficients", "steps", "chains", "warmup",
    "moved", "still", "promised", "measured", "least", "promised_over_measured", "verdict",
    "seconds", "code",
)  # fmt: skip
EPSILONS = {"logistic": 300.0, "gaussian_mean": 300.0, "poisson": 3000.0, "linear": 3000.0}
STEPS, USUAL_STEPS, CHAINS = {"dp_hmc": 1000, "dp_mala": 2000}, 10_000, 2
TOO_FEW = 2.0  # times what is measured: more is promised than comes
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


def simulated(made, rows, rng):
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
    schema, data, formula = simulated(made, rows, np.random.default_rng((seed, number)))
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
    changes = np.diff(kept, axis=1) != 0.0
    promised = result.plan.expected_ess
    return {
        "sampler": name,
        "design": number,
        "family": made.family,
        "rows": rows,
        "epsilon": epsilon,
        "coefficients": len(bulk),
        "steps": result.plan.num_steps,
        "chains": result.plan.num_chains,
        "warmup": result.plan.num_warmup,
        "moved": round(float(changes.any(axis=2).mean()), 3),
        "still": int((~changes.any(axis=(0, 1))).sum()),
        "promised": round(promised, 1),
        "measured": round(float(np.mean(bulk)), 1),
        "least": round(min(bulk), 1),
        "promised_over_measured": round(promised / max(float(np.mean(bulk)), 1.0), 3),
        "verdict": result.verdict.status,
        "seconds": round(time.perf_counter() - start, 1),
        "code": code_version(),
    }


def table(rows):
    """Markdown: promised -> measured (least) of each design and sampler, and how often it holds."""
    cells = {(row["sampler"], int(row["design"])): row for row in rows}
    names = [name for name in SAMPLERS if any(name == sampler for sampler, _ in cells)]

    def cell(name, number):
        row = cells.get((name, number))
        if row is None:
            return ""
        few = float(row["promised_over_measured"]) > TOO_FEW or int(row["still"])
        values = (float(row[key]) for key in ("promised", "measured", "least"))
        words = "{:.0f} → {:.0f} ({:.0f})".format(*values)
        return f"**{words}**" if few else words

    lines = [
        "| design | truth | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    for number, made in enumerate(DESIGNS):
        words = ", ".join(f"{value:g}" for value in (*made.truth, *made.levels))
        related = f", correlation {made.related:g}" if made.related else ""
        line = [str(number), f"{made.family} {words}{related}"]
        lines.append("| " + " | ".join(line + [cell(name, number) for name in names]) + " |")
    ratios = [float(row["promised_over_measured"]) for row in rows]
    held = sum(ratio <= TOO_FEW for ratio in ratios)
    still = sum(int(row["still"]) > 0 for row in rows)
    low = sum(ratio < 1.0 / TOO_FEW for ratio in ratios)
    return "\n".join(
        [
            *lines,
            "",
            f"{len(rows)} runs. Half of what is promised or more: {held}. The worst ratio of"
            f" promised to measured is {max(ratios):.2f}, the median {np.median(ratios):.2f};"
            f" {low} runs have more than {TOO_FEW:g} times as many as promised. Runs in which a"
            f" coefficient never moved: {still}.",
        ]
    )


def main(words=None):
    """Run the samplers on the designs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", nargs="*", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--designs", nargs="*", type=int, default=list(range(len(DESIGNS))))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, help="by default one at which chains are of use")
    parser.add_argument("--steps", type=int, help="of each of two chains")
    parser.add_argument("--planned", action="store_true", help="as many steps as the plan takes")
    parser.add_argument("--quick", action="store_true", help="every fifth design")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; runs in it are kept")
    choice = parser.parse_args(words)
    done = {(row["sampler"], int(row["design"])) for row in rows_of(choice.output)}
    for name in choice.samplers:
        for number in choice.designs[:: 5 if choice.quick else 1]:
            if (name, number) in done:
                continue
            epsilon = choice.epsilon or EPSILONS[DESIGNS[number].family]
            steps = choice.steps or STEPS.get(name, USUAL_STEPS)
            given = {} if choice.planned else {"num_steps": steps, "num_chains": CHAINS}
            row = measured(name, number, choice.rows, epsilon, choice.seed, **given)
            add_row(choice.output, COLUMNS, row)
            print(row, flush=True)
    if choice.output == DATA:
        text = TABLE.read_text()
        before, after = text[: text.index(BEGIN)], text[text.index(END) :]
        TABLE.write_text(f"{before}{BEGIN}\n{table(rows_of(choice.output))}\n{after}")


if __name__ == "__main__":
    main()
