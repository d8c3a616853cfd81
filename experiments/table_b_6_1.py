"""Thesis B, Table 6.1: integrated autocorrelation times of Algorithms 10 and 11.

    python -m experiments.table_b_6_1 [--quick] [--output var/table_b_6_1]

PMMH (10) and MHAAR (11) on a sum of |x| of 100 rows of N(0, 2) with Laplace noise at epsilon 5,
N = 2 to 100 particles; the mean over releases, and beside them Metropolis-Hastings by the exact
likelihood, where no number of particles can do better. Proposals are a random walk of 2.4 posterior
sds by a search before the chain; the thesis does not say which it took. Writes table_b_6_1.csv (a
row for each cell), .png and .json.
"""

import time

import numpy as np
from matplotlib import pyplot as plt

from experiments.released import errors, laplace, like, posteriors, power, times
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

EPSILON, THETA, RUNS, EFFORT = 5.0, 2.0, 100, (500, 10_000)
PARTICLES = (2, 5, 10, 20, 50, 100)
THESIS = {
    "pmmh": (44.03, 28.19, 21.11, 18.16, 15.32, 16.42),
    "mhaar_rb": (17.99, 17.10, 16.13, 15.44, 13.78, 15.86),
}
NAMES = {"pmmh": "PMMH (10)", "mhaar_rb": "MHAAR (11)", "mh": "exact likelihood (9)"}


def cell(name, particles, choice):
    """One algorithm and number of particles."""
    start, statistic = time.time(), power(1.0)
    runs, draws = (4, 500) if choice.quick else (RUNS, EFFORT[1])
    effort = particles, EFFORT[0], draws
    how = like(laplace(statistic, EPSILON), statistic)
    found = posteriors(how, THETA, runs, name, effort, choice.random)
    each = times(found)
    published = THESIS.get(name)
    return {
        "algorithm": NAMES[name],
        "particles": particles,
        "thesis": published[PARTICLES.index(particles)] if published else "",
        "time": float(each.mean()),
        "time_error": float(each.std(ddof=1) / np.sqrt(runs)),
        **errors(found, THETA),
        "seconds": round(time.time() - start, 2),
    }


def figure(path, found):
    """Times by number of particles, ours and the thesis'."""
    plots, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for k, name in enumerate(NAMES.values()):
        some = [r for r in found if r["algorithm"] == name]
        style = {"color": COLOURS[k], "marker": MARKS[k], "markersize": 5}
        x, wide = [r["particles"] for r in some], [2.0 * r["time_error"] for r in some]
        axes.errorbar(x, [r["time"] for r in some], wide, label=name, **style)
        if some[0]["thesis"]:
            axes.plot(x, [r["thesis"] for r in some], ":", alpha=0.7, **style)
    axes.plot([], [], ":", color="grey", label="thesis")
    axes.set(
        xscale="log", yscale="log", xlabel="particles", ylabel="integrated autocorrelation time"
    )
    tidy(axes)
    axes.legend(frameon=False)
    plots.savefig(path, dpi=150)


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("table_b_6_1", __doc__), time.time()
    found = [cell(name, count, choice) for name in THESIS for count in PARTICLES]
    found += [cell("mh", PARTICLES[0], choice)]
    write_csv(choice.output / "table_b_6_1.csv", found)
    figure(choice.output / "table_b_6_1.png", found)
    settings = {"epsilon": EPSILON, "theta": THETA, "runs": RUNS, "effort": EFFORT}
    findings = {
        f"{r['algorithm']}, N = {r['particles']}": f"{r['time']:.2f} ({r['time_error']:.2f})"
        for r in found
    }
    write_json(choice.output / "table_b_6_1.json", choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
