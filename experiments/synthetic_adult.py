"""Whether intervals from synthetic tables of Adult hold the truth: logistic regression of income.

The 48,842 rows of Adult (../shared/data) are the population, whose logistic regression is the
truth. Each run draws as many rows from them with replacement, has `dpmcmc.synthesise` release noisy
marginals of its eight categorical columns and draw synthetic tables, fits the same regression to
each table, and combines the fits by Rubin's rules. Beside it: the same rows without privacy.
`python -m experiments.synthetic_adult [--quick] [--runs 40] [--marginals NAME ...]`; a second call
runs what is missing.
"""

import argparse
import csv
import gzip
import itertools
import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import dpmcmc
from dpmcmc.queries.synthetic.loglinear import LogLinear
from dpmcmc.queries.synthetic.posterior import NoisyMarginals, mode
from experiments.posteriors import SHARED
from experiments.reporting import COLOURS, MARKS, add_row, rows_of, tidy
from tests.sources import Seeded

EPSILON, DELTA, TABLES, MOVES, LEVEL = 1.0, 1e-6, 100, 100, 0.9
DATA = Path(__file__).parent / "data" / "synthetic_adult.csv"
FIELDS = ("marginals", "run", "coefficient", "truth", "estimate", "sd", "freedom", "lower",
          "upper", "own", "own_sd", "r_hat", "seconds")  # fmt: skip

# Categories grouped by what their words mean; an unknown workclass goes with an unknown occupation.
GROUPS = {
    "workclass": {
        "private or unknown": ("Private", "?", "Without-pay", "Never-worked"),
        "self-employed": ("Self-emp-not-inc", "Self-emp-inc"),
        "government": ("Local-gov", "State-gov", "Federal-gov"),
    },
    "education": {
        "school": ("HS-grad",),
        "no degree": (
            "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th",
        ),
        "college": ("Some-college", "Assoc-voc", "Assoc-acdm"),
        "bachelor": ("Bachelors",),
        "higher": ("Masters", "Prof-school", "Doctorate"),
    },
    "marital_status": {
        "married": ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"),
        "never": ("Never-married",),
        "formerly": ("Divorced", "Separated", "Widowed"),
    },
    "occupation": {
        "manual": (
            "Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners",
            "Farming-fishing",
        ),
        "professional": ("Prof-specialty", "Exec-managerial"),
        "office": ("Adm-clerical", "Sales", "Tech-support"),
        "service or unknown": (
            "Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces", "?",
        ),
    },
    "relationship": {
        "spouse": ("Husband", "Wife"),
        "alone": ("Not-in-family",),
        "child": ("Own-child",),
        "other": ("Unmarried", "Other-relative"),
    },
    "race": {
        "white": ("White",),
        "black": ("Black",),
        "other": ("Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
    },
    "sex": {"male": ("Male",), "female": ("Female",)},
    "income": {"low": ("<=50K",), "high": (">50K",)},
}  # fmt: skip
# What the words rule out: a cell that is empty for such a reason holds noise alone.
IMPOSSIBLE = [{"relationship": ["spouse"], "marital_status": ["never", "formerly"]}]
NAMES = tuple(GROUPS)
SHAPE = tuple(len(groups) for groups in GROUPS.values())
# Seven groups of three covariates that hold each pair of the seven once (a Fano plane). Which of
# the planes: the one with the least misfit on these public rows. Where rows are secret, it is for
# the analyst to say which covariates belong together.
PLANE = (
    ("workclass", "occupation", "sex"),
    ("education", "relationship", "sex"),
    ("marital_status", "race", "sex"),
    ("workclass", "education", "race"),
    ("workclass", "marital_status", "relationship"),
    ("education", "marital_status", "occupation"),
    ("occupation", "relationship", "race"),
)
MARGINALS = {
    "plane": [(*group, "income") for group in PLANE],  # 7 four-way tables
    "pairs": "pairs",  # the default: all 28 two-way tables
}


def adult():
    """Codes (columns, rows) of the grouped categories."""
    with gzip.open(SHARED / "data" / "datasets" / "adult.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    codes = []
    for name, groups in GROUPS.items():
        code = {word: k for k, words in enumerate(groups.values()) for word in words}
        codes.append([code[row[name]] for row in rows])
    return np.array(codes)


def schema(rows):
    columns = [
        (dpmcmc.BinaryColumn if len(groups) == 2 else dpmcmc.CategoryColumn)(
            name=name, categories=tuple(groups)
        )
        for name, groups in GROUPS.items()
    ]
    return dpmcmc.Schema(columns=columns, rows=rows)


def design():
    """The regression's row of each combination of covariates, and the coefficients' names."""
    levels = np.indices(SHAPE[:-1]).reshape(len(SHAPE) - 1, -1)
    columns, names = [np.ones(levels.shape[1])], ["intercept"]
    for level, (name, groups) in zip(levels, GROUPS.items(), strict=False):
        for k, group in enumerate(groups):
            if k:
                columns.append((level == k) * 1.0)
                names.append(f"{name}: {group}")
    return np.stack(columns, axis=1), names


def regression(counts, x):
    """Maximum likelihood estimates and variances of income on the covariates, from counts."""
    low, high = counts.reshape(-1, 2).T
    there = low + high > 0
    x, total, high = x[there], (low + high)[there] * 1.0, high[there]
    theta = np.zeros(x.shape[1])
    for _ in range(50):
        mean = 1.0 / (1.0 + np.exp(-x @ theta))
        inverse = np.linalg.inv((x * (total * mean * (1.0 - mean))[:, None]).T @ x)
        step = inverse @ (x.T @ (high - total * mean))
        theta = theta + step * min(1.0, 4.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return theta, np.diag(inverse)


def counted(codes):
    cells = np.ravel_multi_index(codes, SHAPE)
    return np.bincount(cells, minlength=np.prod(SHAPE)).reshape(SHAPE)


def one(codes, truth, names, x, kind, run, seed):
    """One run: a row of the CSV for each coefficient."""
    n, began = codes.shape[1], time.perf_counter()
    random = np.random.default_rng((seed, run))
    sample = codes[:, random.integers(n, size=n)]
    words = {
        name: np.array(tuple(groups))[code]
        for (name, groups), code in zip(GROUPS.items(), sample, strict=True)
    }
    made = dpmcmc.synthesise(
        words, schema=schema(n), epsilon=EPSILON, delta=DELTA, marginals=MARGINALS[kind],
        impossible=IMPOSSIBLE, tables=TABLES, random=Seeded((seed, run, 1)),
    )  # fmt: skip
    fits = [regression(made.crosstab(k), x) for k in range(len(made))]
    found = made.combine([fit[0] for fit in fits], [fit[1] for fit in fits])
    lower, upper = found.interval(LEVEL)
    own, variance = regression(counted(sample), x)
    seconds = time.perf_counter() - began
    columns = (
        names, truth, found.estimate, found.sd, found.freedom, lower, upper, own, np.sqrt(variance)
    )  # fmt: skip
    for values in zip(*columns, strict=True):
        name, *numbers = values
        told = (kind, run, name, *(f"{value:.6g}" for value in numbers))
        yield dict(zip(FIELDS, (*told, f"{made.r_hat:.3f}", f"{seconds:.1f}"), strict=True))


def misfit(codes, kind, x):
    """Errors over standard errors of the regression in the model of exact marginals, no noise."""
    counts = counted(codes)
    wanted = itertools.combinations(NAMES, 2) if kind == "pairs" else MARGINALS[kind]
    places = tuple(tuple(sorted(NAMES.index(name) for name in one)) for one in wanted)
    model = LogLinear(SHAPE, places)
    theta = mode(NoisyMarginals(model, model.by_entry @ counts.ravel(), 1.0, codes.shape[1]))
    truth, variance = regression(counts, x)
    found, _ = regression(model.probabilities(theta).reshape(SHAPE) * codes.shape[1], x)
    return (found - truth) / np.sqrt(variance)


def held(rows):
    return np.array([float(r["lower"]) <= float(r["truth"]) <= float(r["upper"]) for r in rows])


def report(path):
    """Print coverage and widths of each choice of marginals, and draw coverage by coefficient."""
    figure, axes = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
    for at, kind in enumerate(MARGINALS):
        rows = [row for row in rows_of(path) if row["marginals"] == kind]
        if not rows:
            continue
        runs, names = (
            {row["run"] for row in rows},
            list(dict.fromkeys(r["coefficient"] for r in rows)),
        )
        each = [held([r for r in rows if r["coefficient"] == name]).mean() for name in names]
        width = np.median([float(r["sd"]) / float(r["own_sd"]) for r in rows])
        own = np.mean(
            [abs(float(r["own"]) - float(r["truth"])) < 1.645 * float(r["own_sd"]) for r in rows]
        )
        worst = names[int(np.argmin(each))]
        apart = max(float(r["r_hat"]) for r in rows)
        print(
            f"{kind}: {len(runs)} runs, coverage {held(rows).mean():.3f} of {len(rows)} intervals, "
            f"worst {min(each):.2f} ({worst}), width {width:.2f} times, R-hat {apart:.2f}, "
            f"without privacy {own:.3f}"
        )
        axes.plot(each, np.arange(len(names)), MARKS[at], color=COLOURS[at], label=kind)
        axes.set_yticks(np.arange(len(names)), names, fontsize=7)
    axes.axvline(LEVEL, color="black", linewidth=0.8)
    axes.set(xlabel=f"coverage of {LEVEL:.0%} intervals, epsilon {EPSILON:g}", xlim=(0.0, 1.02))
    axes.legend(frameon=False)
    tidy(axes)
    figure.savefig(path.with_suffix(".png"), dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two runs, under two minutes")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--marginals", nargs="*", default=list(MARGINALS), choices=MARGINALS)
    parser.add_argument("--misfit", action="store_true", help="errors without noise, and no runs")
    parser.add_argument("--output", type=Path, default=DATA)
    choice = parser.parse_args()
    path = Path("var/synthetic_adult.csv") if choice.quick else choice.output
    path.parent.mkdir(parents=True, exist_ok=True)
    codes, (x, names) = adult(), design()
    if choice.misfit:
        for kind in choice.marginals:
            off = misfit(codes, kind, x)
            worst = int(np.argmax(np.abs(off)))
            print(f"{kind}: rms {np.sqrt(np.mean(off**2)):.2f}, {names[worst]} {off[worst]:.2f}")
        return
    truth, _ = regression(counted(codes), x)
    done = {(row["marginals"], int(row["run"])) for row in rows_of(path)}
    runs = 2 if choice.quick else choice.runs
    for run, kind in itertools.product(range(choice.first, runs), choice.marginals):
        if (kind, run) not in done:
            for row in one(codes, truth, names, x, kind, run, choice.seed):
                add_row(path, FIELDS, row)
    report(path)


if __name__ == "__main__":
    main()
