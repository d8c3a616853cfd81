"""Measure what a budget buys: how many effective draws a penalty chain gives.

    python experiments/ess_per_step.py [--quick] [--output var/ess_per_step]

1. One coefficient, posterior N(0, 1), solved exactly: the chain on a fine grid of positions, its
   asymptotic variance from the Poisson equation. Gives the constants of penalty_efficiency.py.
2. The demo's question on the RAND extract at epsilon 2, 4 and 8: what the plan announces from
   public facts against the bulk ESS of real private runs.
3. What ArviZ's bulk ESS reports for chains of known effective size (filling.ARVIZ_FLOOR).
4. Every sampler's own steps on a posterior N(0, I), many chains from exact draws: effective draws a
   step from the variance of the chains' means, beside what the sampler's mixing model expects.
5. What columns of public data are like within their bounds, and how large their coefficients are:
   FILL and LARGEST_COEFFICIENT of models/moments.py: FILL the root mean square of the sds, as
   effective draws go with the square; LARGEST_COEFFICIENT the mean over the data sets of the
   largest. Given all other columns a column varies less, but a formula takes few of them.
   ../shared/data where it is there, and the demo's extract.

Writes ess_per_step_{1d,demo,arviz,samplers,columns}.csv, ess_per_step.json and, with matplotlib,
ess_per_step.png. Everything here is public data; it never runs in the service.
"""

import argparse
import csv
import gzip
import json
import time
from pathlib import Path

import numpy as np
from scipy.signal import lfilter
from scipy.special import log_ndtr, ndtr

from dpmcmc.base.private import Released
from dpmcmc.families.assumptions import Assumptions, Guess
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.planner.resolve import ARVIZ_FLOOR
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.samplers import SAMPLERS, minibatch
from dpmcmc.samplers.penalty_efficiency import BACTRIAN_MODE, best_scale, efficiency
from experiments.posteriors import SHARED, STORED, stored
from experiments.stepped import Stepped

DATA = Path(__file__).parent / "data"
FORMULA = "any_visit ~ chronic + family_size + income"
KINDS = {"number": NumberColumn, "category": CategoryColumn, "binary": BinaryColumn}
SHAPES = ("normal", "bactrian")
ROWS = 100_000


def acceptance(lam, s):
    """P(accept) of a penalty step with log ratio lam and noise sd s."""
    with np.errstate(all="ignore"):
        noisy = ndtr(lam / s - s / 2) + np.exp(lam + log_ndtr(-lam / s - s / 2))
    return np.where(s > 0, noisy, np.exp(np.minimum(lam, 0)))


def density(shape, moves, scale):
    """Proposal density."""
    if shape == "normal":
        return np.exp(-0.5 * (moves / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
    sd = scale * np.sqrt(1 - BACTRIAN_MODE**2)
    humps = [np.exp(-0.5 * ((moves - side * BACTRIAN_MODE * scale) / sd) ** 2) for side in (-1, 1)]
    return sum(humps) / (2 * sd * np.sqrt(2 * np.pi))


def exact_efficiency(shape, noise, scale, guided=False):
    """Effective draws a step on N(0, 1), noise sd `noise` for each unit of the move.

    guided: moves keep their side until one is rejected; the chain is of positions and sides.
    """
    narrow = scale * (np.sqrt(1 - BACTRIAN_MODE**2) if shape == "bactrian" else 0.5)
    step = min(0.05, max(narrow / 3, 0.008))
    x = np.arange(-4.8, 4.8 + step / 2, step)
    moves = x - x[:, None]
    lam = 0.5 * (x[:, None] ** 2 - x**2)
    matrix = density(shape, moves, scale) * step * acceptance(lam, noise * np.abs(moves))
    np.fill_diagonal(matrix, 0)
    if guided:
        sides = [2.0 * np.triu(matrix), 2.0 * np.tril(matrix)]
        stay = [np.diag(1 - side.sum(axis=1)) for side in sides]
        matrix = np.block([[sides[0], stay[0]], [stay[1], sides[1]]])
        x = np.concatenate([x, x])
    else:
        np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    weight = np.exp(-0.5 * x * x)
    weight /= weight.sum()
    solution = np.linalg.solve(np.eye(len(x)) - matrix + weight, x)
    variance = weight @ (x * x)
    return float(variance / (2 * weight @ (x * solution) - variance))


def one_dimension(quick):
    """Exact efficiency beside the formula's, around the best scale."""
    rows = []
    for shape in SHAPES:
        for noise in (0, 1, 4) if quick else (0, 0.3, 0.6, 1, 1.5, 2, 3, 4, 6, 8, 12):
            for factor in (0.5, 1, 1.6) if quick else (0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.6, 2.2):
                scale = factor * best_scale(noise)
                exact = exact_efficiency(shape, noise, scale)
                expected = efficiency(shape, noise, scale)
                rows.append(
                    {
                        "shape": shape,
                        "noise": noise,
                        "scale": scale,
                        "of_best": factor,
                        "exact": exact,
                        "expected": expected,
                        "expected_over_exact": expected / exact,
                        "exact_times_noise2": exact * noise**2,
                    }
                )
    return rows


def randhie():
    """The demo's public facts and columns."""
    facts = json.loads((DATA / "randhie.json").read_text())
    with gzip.open(DATA / "randhie.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    columns = []
    for column in facts["columns"]:
        public = {key: tuple(v) if isinstance(v, list) else v for key, v in column.items()}
        columns.append(KINDS[public.pop("type")](**public))
    schema = Schema(columns=tuple(columns), rows=len(rows))
    data = {c.name: [row[c.name] for row in rows] for c in columns}
    for c in columns:
        if isinstance(c, NumberColumn):
            data[c.name] = np.array(data[c.name], dtype=float)
    return schema, data


def demo(runs):
    """Expected and measured bulk ESS of the demo's job."""
    schema, data = randhie()
    rows = []
    for epsilon in (2.0, 4.0, 8.0):
        for run in range(runs):
            result = sample(
                data,
                schema=schema,
                model=ModelSpec(family="logistic", formula=FORMULA),
                delta=1e-6,
                epsilon=epsilon,
                sampler=DpPenaltyOptions(),
                accept_low_quality=True,
            )
            kept = Released(result.draws[:, result.plan.num_warmup :])
            bulk = [s.ess_bulk or 0.0 for s in summarise(kept, result.plan.parameters)]
            rows.append(
                {
                    "epsilon": epsilon,
                    "run": run,
                    "num_steps": result.plan.num_steps,
                    "num_chains": result.plan.num_chains,
                    "num_warmup": result.plan.num_warmup,
                    "expected": result.plan.expected_ess,
                    "measured": float(np.mean(bulk)),
                    "least": min(bulk),
                }
            )
    return rows


def arviz(runs):
    """Bulk ESS of AR(1) chains of known effective size."""
    rng, count, rows = np.random.default_rng(), 4000, []
    for true in (1, 2, 5, 10, 20, 50, 100):
        root = (count / true - 1) / (count / true + 1)
        found = []
        for _ in range(runs):
            shocks = rng.normal(size=(1, count, 1)) * np.sqrt(1 - root**2)
            shocks[:, 0] = rng.normal()
            draws = lfilter([1], [1, -root], shocks, axis=1)
            found.append(summarise(Released(draws), ["x"])[0].ess_bulk)
        rows.append({"true": true, "bulk": float(np.mean(found)), "expected": true + ARVIZ_FLOOR})
    return rows


class Ball(Stepped):
    """Rows whose posterior is N(0, I), in NumPy. Implements dpmcmc.families.target.Target.

    One row is worth 1 / ROWS; `width` is that of its interval for a move of one posterior sd.
    """

    rows, tempering = ROWS, 1.0

    def __init__(self, chains, dimension, width, random):
        self.position = random.standard_normal((chains, dimension))
        self.width, self.random = width, random

    def refresh(self):
        pass

    def vector_ratios(self, deltas):
        sums = -(deltas * (self.position + 0.5 * deltas)).sum(axis=1)
        return sums, self.width * np.linalg.norm(deltas, axis=1), np.zeros(len(deltas))

    def move(self, deltas, accepted):
        self.position[accepted] += deltas[accepted]

    vector_commit = move

    def gradient(self, positions, clip):
        return -positions, 2.0 * clip

    def log_prior_gradient(self, positions):
        return np.zeros(positions.shape)

    def log_prior_ratio(self, deltas):
        return np.zeros(len(deltas))

    def batch_ratios(self, deltas, batches):
        """batches: their sizes, (chain, 1). A batch's mean has the variance of a real one."""
        batch = batches[:, 0]
        sums, width, _ = self.vector_ratios(deltas)
        part, lengths = batch / self.rows, np.linalg.norm(deltas, axis=1)
        own = np.sqrt(part * (1.0 - part)) * lengths * self.random.standard_normal(len(deltas))
        found = part * sums + own
        return found, found**2 / batch + part * lengths**2, -0.5 * width, 0.5 * width


def measured(name, dimension, noise, chains, steps):
    """Expected and measured effective draws a step of a sampler's own plan on Ball."""
    random, mixing = np.random.default_rng(), SAMPLERS[name].mixing
    width = 4.0 / np.sqrt(ROWS)
    guess = Guess(
        np.eye(dimension), np.full(dimension, width), width * dimension**0.5, np.ones(dimension)
    )
    assumptions = Assumptions(guess, ROWS, 1.0)
    options = SAMPLERS[name].options(num_steps=steps, num_chains=chains, num_warmup=0)
    options = mixing.settle(options, assumptions)
    z = noise / width * getattr(options, "batch", ROWS) / ROWS
    expected = mixing.expectation(options, assumptions, z)
    target, source = Ball(chains, dimension, width, random), SystemRandom()
    state = SAMPLERS[name].init(target, expected.options, z, source)
    draws = SAMPLERS[name].step(target, expected.options, z, steps, source, state)
    spread = float((draws.mean(axis=1) ** 2).mean())
    return {
        "sampler": name,
        "dimension": dimension,
        "noise": noise,
        "chains": chains,
        "steps": steps,
        "expected": expected.draws,
        "measured": 1.0 / (steps * spread),
        "expected_over_measured": expected.draws * steps * spread,
    }


def samplers(quick):
    """Every sampler's mixing model beside its own steps. Batches are known by their size alone."""
    kept = minibatch.batches
    minibatch.batches = sizes
    try:
        return [
            measured(name, dimension, noise, 400, 1500 if quick else 10_000)
            for name in SAMPLERS
            for dimension in ((2,) if quick else (1, 2, 5))
            for noise in ((0.5,) if quick else (0.3, 1.0, 3.0))
        ]
    finally:
        minibatch.batches = kept


def sizes(_, __, batch, count):
    """A batch's size for each step of each chain."""
    return np.full((count, 1), batch)


def known_columns():
    """Columns of more than two values: sd in half ranges, alone and given the others; coefficients.

    Coefficients are in units of the predictor: of an eighth of a linear response's range.
    """
    schema, data = randhie()
    found = {"randhie": (schema, data, ModelSpec(family="logistic", formula=FORMULA))}
    if (SHARED / "data" / "posteriors").is_dir():
        for name in STORED:
            kept = stored(name)
            found[name] = kept.schema, kept.columns, kept.model
    rows = []
    for name, (schema, data, model) in found.items():
        design = make_design(schema, model.formula)
        x, y = (a.astype(float) for a in design.build(table_of(schema, data)))
        given = np.diag(np.linalg.inv(x @ x.T / x.shape[1])) ** -0.5
        effects = _effects(x, y, model.family, schema.columns[-1])
        for j, column in enumerate(x):
            if len(np.unique(column)) > 2:
                row = {"data": name, "column": design.parameters[j], "sd": column.std()}
                rows.append(row | {"given_others": given[j], "coefficient": effects[j]})
    return rows


def _effects(x, y, family, response):
    """The coefficients of a regression, under a wide prior, in units of its predictor."""
    effects, logistic = np.zeros(len(x)), family == "logistic"
    for _ in range(40 if logistic else 1):
        mean = 1.0 / (1.0 + np.exp(-effects @ x)) if logistic else effects @ x
        weight = mean * (1.0 - mean) if logistic else 1.0
        hessian = (x * weight) @ x.T + 0.01 * np.eye(len(x))
        effects += np.linalg.solve(hessian, x @ (y - mean) - 0.01 * effects)
    return effects if logistic else 8.0 * effects / (response.upper - response.lower)


def typical_column(rows):
    """(FILL, LARGEST_COEFFICIENT) as the rows of known_columns have them."""
    largest = {}
    for row in rows:
        largest[row["data"]] = max(largest.get(row["data"], 0.0), abs(row["coefficient"]))
    fill = np.sqrt(np.mean([row["sd"] ** 2 for row in rows]))
    return float(fill), float(np.mean(list(largest.values())))


def write(path, rows):
    """Write rows as CSV."""
    with path.open("w", newline="") as out:
        table = csv.DictWriter(out, rows[0])
        table.writeheader()
        table.writerows(rows)


def figure(path, line, runs):
    """Draw the model and the demo, where matplotlib is installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for shape in SHAPES:
        best = [row for row in line if row["shape"] == shape and row["of_best"] == 1]
        noise = [row["noise"] for row in best]
        left.semilogy(noise, [row["exact"] for row in best], "o", label=f"{shape}, exact")
        left.semilogy(noise, [row["expected"] for row in best], label=f"{shape}, expected")
    left.set(xlabel="noise sd on lambda per posterior sd", ylabel="effective draws a step")
    right.plot([r["expected"] for r in runs], [r["measured"] for r in runs], "o")
    ends = [min(r["expected"] for r in runs) / 2, max(r["expected"] for r in runs) * 1.5]
    for factor, style in ((1, "-"), (2, ":"), (0.5, ":")):
        right.loglog(ends, [factor * e for e in ends], style, color="grey")
    right.set(xlabel="expected ESS", ylabel="measured bulk ESS", title=FORMULA)
    left.legend()
    plt.tight_layout()
    plt.savefig(path, dpi=150)


def main():
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--output", type=Path, default=Path("var/ess_per_step"))
    choice = parser.parse_args()
    choice.output.mkdir(parents=True, exist_ok=True)
    start = time.time()
    line = one_dimension(choice.quick)
    runs = demo(4 if choice.quick else 20)
    size = arviz(10 if choice.quick else 100)
    write(choice.output / "ess_per_step_1d.csv", line)
    write(choice.output / "ess_per_step_demo.csv", runs)
    write(choice.output / "ess_per_step_arviz.csv", size)
    own = samplers(choice.quick)
    write(choice.output / "ess_per_step_samplers.csv", own)
    columns = known_columns()
    write(choice.output / "ess_per_step_columns.csv", columns)
    figure(choice.output / "ess_per_step.png", line, runs)
    ratios = {}
    for epsilon in sorted({r["epsilon"] for r in runs}):
        some = [r for r in runs if r["epsilon"] == epsilon]
        ratios[epsilon] = some[0]["expected"] / float(np.mean([r["measured"] for r in some]))
    summary = {
        "formula": FORMULA,
        "quick": choice.quick,
        "seconds": round(time.time() - start, 1),
        "expected_over_exact": [
            min(r["expected_over_exact"] for r in line),
            max(r["expected_over_exact"] for r in line),
        ],
        "plateau": {
            shape: max(r["exact_times_noise2"] for r in line if r["shape"] == shape)
            for shape in SHAPES
        },
        "expected_over_measured": ratios,
        "arviz": size,
        "samplers": own,
        "typical_column": dict(
            zip(("FILL", "LARGEST_COEFFICIENT"), typical_column(columns), strict=True)
        ),
    }
    (choice.output / "ess_per_step.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
