"""Persons with several rows: the release by persons beside what would protect them without it.

Of real panels and epsilon: widths over those of the cluster-robust fit without privacy, whether
90 % intervals hold that fit, and how often results call themselves reliable; by persons, by group
privacy (rows at the noise of max_rows of them) and of one row of each person. Beside them the width
of a release that knows the rows: clipped where that is best for them, at the fit, with the noise
that scores have here and none in the curvature.
`python -m experiments.persons [--runs 10]` adds what is missing to the CSV and writes the table
into experiments/README.md; data in ../shared/data.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas

from dpmcmc import ModelSpec, Schema, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.privacy import accountant
from dpmcmc.releases import clips
from dpmcmc.releases.newton_path import MODEL_SHARES
from experiments.baselines import DELTA
from experiments.calibration import code_version
from experiments.posteriors import SHARED
from experiments.reporting import add_row, rows_of

EPSILONS, LEVEL = (0.5, 1.0, 2.0, 4.0), 0.9
WAYS = ("persons", "group privacy", "one row each")
BEST = "best clip"
COLUMNS = (
    "cell", "persons", "rows", "coefficients", "epsilon", "way", "runs", "reliable", "width",
    "widest", "held", "rms", "seconds", "code",
)  # fmt: skip
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "persons.csv", HERE / "README.md"
BEGIN, END = "<!-- persons: begin -->", "<!-- persons: end -->"

# file, person, most rows, family, formula, bounds
CELLS = {
    "rand visits": (
        "real/randhie", "zper", 5, "logistic", "any ~ xage + female + coins + disea + lfam",
        {"any": ("no", "yes"), "xage": (0, 65), "female": ("0", "1"), "coins": (0, 100),
         "disea": (0, 59), "lfam": (0, 3)},
    ),
    "rand counts": (
        "real/randhie", "zper", 5, "negative_binomial", "mdvis ~ xage + female + coins + disea",
        {"mdvis": (0, 80), "xage": (0, 65), "female": ("0", "1"), "coins": (0, 100),
         "disea": (0, 59)},
    ),
    "obesity": (
        "panels/muscatine", "id", 3, "logistic", "obese ~ gender + age + occasion",
        {"obese": ("no", "yes"), "gender": ("M", "F"), "age": (5, 19), "occasion": (1, 3)},
    ),
    "pupils": (
        "panels/star", "id", 4, "linear", "math ~ sx + ses + cltype",
        {"math": (300, 800), "sx": ("F", "M"), "ses": ("F", "N"),
         "cltype": ("reg", "reg+A", "small")},
    ),
    "mathematics": (
        "panels/egsingle", "childid", 6, "linear", "math ~ year + black + hispanic + lowinc",
        {"math": (-6, 6), "year": (-2.5, 2.5), "black": ("0", "1"), "hispanic": ("0", "1"),
         "lowinc": (0, 100)},
    ),
}  # fmt: skip


def panel(name):
    """Complete rows of a cell, as declared: (frame, person, max_rows, family, formula, bounds)."""
    file, person, most, family, formula, bounds = CELLS[name]
    frame = pandas.read_csv(SHARED / "data" / f"{file}.csv.gz")
    if "any" in bounds:
        frame["any"] = np.where(frame.mdvis > 0, "yes", "no")
    frame = frame[[person, *bounds]].dropna()
    for column, ends in bounds.items():
        if isinstance(ends[0], str):
            words = frame[column].map(lambda v: str(int(v)) if isinstance(v, float) else str(v))
            frame = frame.assign(**{column: words})[words.isin(ends)]
        else:
            frame = frame.assign(**{column: frame[column].astype(float).clip(*ends)})
    return frame, person, most, family, formula, bounds


def clustered(frame, person, design, family):
    """The fit without privacy, its sds, persons' scores (m, p) and the inverse curvature.

    Source: Liang and Zeger 1986.
    """
    x, y = design
    theta = np.zeros(len(x))
    for _ in range(100):
        eta = theta @ x
        if family == "linear":
            mean, slope, psi = eta, np.ones_like(y), y - eta
        elif family == "logistic":
            mean = 1.0 / (1.0 + np.exp(-eta))
            slope, psi = mean * (1.0 - mean), y - mean
        else:
            mean = np.exp(np.clip(eta, -30.0, 30.0))
            slope, psi = mean / (1.0 + mean / SIZE), (y - mean) / (1.0 + mean / SIZE)
        curve = (x * slope) @ x.T
        step = np.linalg.solve(curve, x @ psi)
        longest = np.inf if family == "linear" else 3.0
        theta = theta + step * min(1.0, longest / max(np.abs(step).max(), 1e-12))
    units = pandas.DataFrame((x * psi).T).groupby(frame[person].to_numpy()).sum().to_numpy()
    back = np.linalg.inv(curve)
    if family == "linear":
        square = np.mean(psi**2)
        units, back = units / square, back * square
    return theta, np.sqrt(np.diag(back @ (units.T @ units) @ back)), units, back


SIZE = 0.7  # dispersion of the counts' negative binomial


def model_of(family, formula):
    """The job's model."""
    from dpmcmc.inputs.spec import ModelOptions

    options = ModelOptions(dispersion=SIZE) if family == "negative_binomial" else ModelOptions()
    return ModelSpec(family=family, formula=formula, options=options)


def best_clip(units, back, sds, epsilon):
    """Return the least median width over clips of persons' scores (m, p), were all rows known.

    back: (p, p) inverse curvature. What a clip leaves out is allowed for as the release does it.
    """
    m, p = units.shape
    root = np.linalg.cholesky(back * m)
    scores = units @ root
    lengths = np.linalg.norm(scores, axis=1) / np.sqrt(p)
    share = sum(MODEL_SHARES) * (1.0 - clips.VARIANCE - clips.LEAST_CURVE)
    noise = 2.0 * np.sqrt(p) / (accountant.mu_of_epsilon(epsilon, DELTA) * np.sqrt(share))
    widths = []
    for clip in np.geomspace(0.5, lengths.max(), 200):
        longer = lengths > clip
        left = clips.one_sided(longer.sum()) * np.maximum(lengths - clip, 0.0).sum()
        own = scores.T @ scores + ((noise * clip) ** 2 + left**2) * np.eye(p)
        widths.append(np.median(np.sqrt(np.diag(root @ own @ root.T)) / m / sds))
    return min(widths)


def measured(name, epsilon, way, runs):
    """A row of the CSV."""
    from dpmcmc.fit.local import table_of
    from dpmcmc.formula.design import make_design

    frame, person, most, family, formula, bounds = panel(name)
    data = {column: frame[column].to_numpy() for column in bounds}
    plain = Schema.from_frame(data, bounds=bounds)
    design = make_design(plain, formula)
    theta, sds, units, back = clustered(frame, person, design.build(table_of(plain, data)), family)
    shape = {
        "cell": name, "persons": int(frame[person].nunique()), "rows": len(frame),
        "coefficients": len(theta), "epsilon": epsilon, "way": way, "code": code_version(),
    }  # fmt: skip
    if way == BEST:
        width = round(float(best_clip(units, back, sds, epsilon)), 3)
        return dict.fromkeys(COLUMNS, "") | shape | {"width": width}
    found, began = [], time.perf_counter()
    options = NoisyQuadraticOptions(estimand="model")
    rng = np.random.default_rng(5)
    for _ in range(runs):
        rows, schema, given = data, plain, {"epsilon": epsilon}
        if way == "persons":
            rows = {**data, person: frame[person].to_numpy()}
            schema = Schema.from_frame(rows, bounds=bounds, privacy_unit=person, max_rows=most)
        elif way == "group privacy":
            z = most / accountant.mu_of_epsilon(epsilon, DELTA)
            given = {"noise_multiplier": z}
        else:
            order = rng.permutation(len(frame))
            first = order[~frame[person].iloc[order].duplicated().to_numpy()]
            rows = {column: values[first] for column, values in data.items()}
            schema = Schema.from_frame(rows, bounds=bounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = sample(
                rows, schema=schema, model=model_of(family, formula), sampler=options, delta=DELTA,
                accept_low_quality=True, **given,
            )  # fmt: skip
        draws = fit.on("design").reshape(-1, len(fit.plan.parameters))[:, : len(theta)]
        low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
        held = (low <= theta) & (theta <= high)
        off = (draws.mean(axis=0) - theta) / sds
        found.append((fit.verdict.status == "reliable", draws.std(axis=0) / sds, held, off))
    good = [one for one in found if one[0]] or found
    widths = np.array([one[1] for one in good])
    return shape | {
        "runs": runs, "reliable": sum(one[0] for one in found),
        "width": round(float(np.median(widths)), 3),
        "widest": round(float(np.median(widths, axis=0).max()), 3),
        "held": round(float(np.mean([one[2] for one in good])), 3),
        "rms": round(float(np.sqrt(np.mean(np.square([one[3] for one in good])))), 3),
        "seconds": round((time.perf_counter() - began) / runs, 3),
    }  # fmt: skip


def table(rows):
    """The table as Markdown."""
    lines = [
        "| panel | persons, rows, coefficients | epsilon | " + " | ".join([*WAYS, BEST]) + " |",
        "|---|---|---|" + "---|" * (len(WAYS) + 1),
    ]
    for name in CELLS:
        for epsilon in EPSILONS:
            here = [r for r in rows if (r["cell"], float(r["epsilon"])) == (name, epsilon)]
            some = {r["way"]: r for r in here}
            if len(some) <= len(WAYS):
                continue
            one = some["persons"]
            cells = [
                f"{float(r['width']):.2f}, {float(r['held']):.2f}, {r['reliable']} of {r['runs']}"
                for r in (some[way] for way in WAYS)
            ]
            cells.append(f"{float(some[BEST]['width']):.2f}")
            size = f"{int(one['persons']):,}, {int(one['rows']):,}, {one['coefficients']}"
            lines.append(f"| {name} | {size} | {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    """Add what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    there = {(r["cell"], float(r["epsilon"]), r["way"]) for r in rows_of(DATA)}
    for name in CELLS:
        for epsilon in EPSILONS:
            for way in [*WAYS, BEST]:
                if (name, epsilon, way) not in there:
                    add_row(DATA, COLUMNS, measured(name, epsilon, way, runs))
    text = TABLE.read_text()
    head, rest = text.split(BEGIN)
    TABLE.write_text(head + BEGIN + "\n" + table(rows_of(DATA)) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
