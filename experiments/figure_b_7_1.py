"""Thesis B, Figure 7.1: errors of predictions and of coefficients against epsilon, simulated rows.

    python -m experiments.figure_b_7_1 [--quick] [--output var/figure_b_7_1]

n = 100,000 normal rows, d = 2 and 5, 1, 5 and 10 holders, hyperparameters as in the thesis but for
the coefficients' prior, N(0, I) as they are drawn. Noise is what replacing a row costs at that
epsilon, with the response in units of its own bound; adaSSP has its own. Several data sets, each
released several times. Writes figure_b_7_1.csv (a row for each cell), .png and .json.
"""

import time

import numpy as np
from matplotlib import pyplot as plt

from experiments.regression_data import noises, simulated
from experiments.regression_methods import METHODS, means
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

ROWS, DIMENSIONS, HOLDERS, EPSILONS = 100_000, (2, 5), (1, 5, 10), (0.5, 1.0, 4.0)
SETS, RUNS, CHEAP = 3, 10, 200
NAMES = [name for name in METHODS if name != "MCMC-B&S"]


def run_all(choice):
    """Every cell: mean over data sets and releases."""
    found, quick = [], choice.quick
    holders, epsilons = ((1,), (1.0,)) if quick else (HOLDERS, EPSILONS)
    for d in DIMENSIONS[:1] if quick else DIMENSIONS:
        sets = [simulated(ROWS, d, choice.random) for _ in range(1 if quick else SETS)]
        for count in holders:
            for epsilon in epsilons:
                found += [cell(name, sets, d, count, epsilon, choice) for name in NAMES]
                write_csv(choice.output / "figure_b_7_1.csv", found)
    return found


def cell(name, sets, d, holders, epsilon, choice):
    """One method: squared errors of predictions, beyond the residuals', and of coefficients."""
    start, of_y, of_theta = time.time(), [], []
    for rows, theta in sets:
        noise = noises(epsilon, rows.delta)["replace-one, balanced"]
        runs = CHEAP if METHODS[name] is None else RUNS
        found = means(name, rows, holders, noise, epsilon, runs, choice.random)
        of_y.append(rows.errors(found).mean())
        of_theta.append(((found - theta) ** 2).sum(axis=-1).mean())
    return {
        "d": d,
        "holders": holders,
        "epsilon": epsilon,
        "method": name,
        "prediction_mse": float(np.mean(of_y)),
        "estimation_mse": float(np.mean(of_theta)),
        "standard_error": float(np.std(of_theta, ddof=1) / len(sets) ** 0.5 if sets[1:] else 0.0),
        "seconds": round(time.time() - start, 2),
    }


def figure(path, found):
    """Rows: d. Columns: holders. Error of coefficients."""
    ds, counts = sorted({r["d"] for r in found}), sorted({r["holders"] for r in found})
    shape = len(ds), len(counts)
    size = (3.6 * shape[1] + 2, 3.2 * shape[0])
    plots, panels = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for i, j in np.ndindex(shape):
        axes, d, count = panels[i, j], ds[i], counts[j]
        for k, name in enumerate(NAMES):
            some = [r for r in found if (r["d"], r["holders"], r["method"]) == (d, count, name)]
            x, y = [r["epsilon"] for r in some], [r["estimation_mse"] for r in some]
            axes.plot(x, y, label=name, color=COLOURS[k], marker=MARKS[k], markersize=5)
        axes.set(title=f"d = {d}, holders {count}", xscale="log", yscale="log")
        tidy(axes)
    for axes in panels[-1]:
        axes.set_xlabel(r"$\epsilon$ (replace-one)")
    for axes in panels[:, 0]:
        axes.set_ylabel("squared error of coefficients")
    plots.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper")
    plots.savefig(path, dpi=150)


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("figure_b_7_1", __doc__), time.time()
    found = run_all(choice)
    figure(choice.output / "figure_b_7_1.png", found)
    settings = {"rows": ROWS, "sets": SETS, "runs": RUNS, "steps": METHODS}
    path = choice.output / "figure_b_7_1.json"
    write_json(path, choice, settings, {"cells": len(found)}, time.time() - start)


if __name__ == "__main__":
    main()
