"""Thesis B, Table 6.2: errors of the variance from a noisy median or maximum of |x|.

    python -m experiments.table_b_6_2 [--quick] [--output var/table_b_6_2]

100 rows of N(0, theta) within [-10, 10], theta = .5, 1 and 2, epsilon 5, delta 1 / n^2, Algorithm
12. At two noises: the (epsilon, delta)-DP one under replace-one (docs/proofs/smooth_laplace.md),
and the smooth sensitivity over epsilon, about half as much, which is not. Writes table_b_6_2.csv (a
row for each cell), .png and .json.
"""

import time

from matplotlib import pyplot as plt

from experiments.released import ROWS, errors, like, posteriors, power, smooth
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

EPSILON, THETAS, RUNS, EFFORT = 5.0, (0.5, 1.0, 2.0), 100, (30, 100, 500)
QUICK, QUICK_EFFORT = 30, (10, 50, 150)
RANKS = {"median": ROWS // 2, "maximum": ROWS}
THESIS = {"median": (0.027, 0.061, 0.391), "maximum": (10.80, 15.57, 22.64)}


def cell(form, theta, published, choice):
    """One statistic and theta at one noise."""
    start = time.time()
    runs, effort = (QUICK, QUICK_EFFORT) if choice.quick else (RUNS, EFFORT)
    how = like(smooth(RANKS[form], EPSILON, published), power(1.0), form)
    found = posteriors(how, theta, runs, "mhaar", effort, choice.random)
    return {
        "statistic": form,
        "theta": theta,
        "noise": "half" if published else "replace-one",
        "thesis": THESIS[form][THETAS.index(theta)],
        **errors(found, theta),
        "posterior_sd": float(found.std(axis=1).mean()),
        "runs": runs,
        "seconds": round(time.time() - start, 2),
    }


def figure(path, found):
    """Errors by theta."""
    plots, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for k, form in enumerate(RANKS):
        style = {"color": COLOURS[k], "marker": MARKS[k], "markersize": 5}
        for noise, line in (("replace-one", "-"), ("half", "--")):
            some = [r for r in found if (r["statistic"], r["noise"]) == (form, noise)]
            y, wide = [r["mse"] for r in some], [2.0 * r["standard_error"] for r in some]
            axes.errorbar(THETAS, y, wide, linestyle=line, label=f"{form}, {noise} noise", **style)
        axes.plot(THETAS, THESIS[form], ":", alpha=0.7, label=f"{form}, published", **style)
    axes.set(xlabel=r"$\theta$", ylabel="mean squared error", yscale="log")
    tidy(axes)
    axes.legend(frameon=False, fontsize=8)
    plots.savefig(path, dpi=150)


def main():
    """Run every cell and draw the figure."""
    choice, start, found = choose("table_b_6_2", __doc__), time.time(), []
    for form in RANKS:
        for published in (False, True):
            for theta in THETAS:
                found.append(cell(form, theta, published, choice))
                write_csv(choice.output / "table_b_6_2.csv", found)
    figure(choice.output / "table_b_6_2.png", found)
    settings = {"epsilon": EPSILON, "runs": RUNS, "effort": EFFORT}
    findings = {
        f"{r['statistic']}, {r['theta']}, {r['noise']} noise": [r["mse"], r["standard_error"]]
        for r in found
    }
    write_json(choice.output / "table_b_6_2.json", choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
