"""Thesis B, Figure 6.3: information of a noisy median and maximum, and how their chains mix.

    python -m experiments.figure_b_6_3 [--quick] [--output var/figure_b_6_3]

|x| of 100 rows of N(0, theta) within [-10, 10], epsilon 5, delta 1 / n^2, noise of replace-one.
Information by Algorithm 7, autocorrelation of Algorithm 12 at theta = 2. Writes figure_b_6_3.csv (a
row for each statistic and theta), .png and .json.
"""

import time

import numpy as np
from arviz_stats.base import array_stats
from matplotlib import pyplot as plt

from dpmcmc.queries.statistics.populations import NormalVariance
from experiments.fisher_monte_carlo import Effort, marginal_information
from experiments.regression_methods import Source
from experiments.released import ROWS, like, posteriors, power, smooth, times
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

EPSILON, THETAS, AT = 5.0, (0.5, 1.0, 1.5, 2.0, 3.0), 2.0
RANKS = {"median": ROWS // 2, "maximum": ROWS}
SIMULATED, EFFORT, RUNS, LAGS = Effort(8_000, 4_000), (200, 100, 800), 5, 50
QUICK, QUICK_EFFORT = Effort(4_000, 2_000), (30, 50, 400)


def curve(form, choice):
    """Information by theta."""
    noise, thetas = smooth(RANKS[form], EPSILON), THETAS[1:4:2] if choice.quick else THETAS
    effort = QUICK if choice.quick else SIMULATED
    for theta in thetas:
        found = marginal_information(
            NormalVariance(), power(1.0), theta, ROWS, noise, Source(choice.random), effort
        )
        yield {
            "statistic": form,
            "theta": theta,
            "information": found.value,
            "standard_error": found.standard_error,
        }


def chains(form, choice):
    """Autocorrelations, averaged over releases, and integrated times."""
    effort = QUICK_EFFORT if choice.quick else EFFORT
    how = like(smooth(RANKS[form], EPSILON), power(1.0), form)
    found = posteriors(how, AT, RUNS, "mhaar", effort, choice.random)
    return array_stats.autocorr(found, axis=1).mean(axis=0)[: LAGS + 1], times(found)


def figure(path, found, mixing):
    """Information and autocorrelation."""
    plots, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for k, form in enumerate(RANKS):
        some = [r for r in found if r["statistic"] == form]
        x, y = [r["theta"] for r in some], [r["information"] for r in some]
        wide = [2.0 * r["standard_error"] for r in some]
        panels[0].errorbar(x, y, wide, color=COLOURS[k], marker=MARKS[k], label=form)
        panels[1].plot(mixing[form][0], color=COLOURS[k], label=form)
    panels[0].set(xlabel=r"$\theta$", ylabel="Fisher information", yscale="log")
    panels[1].set(xlabel="lag", ylabel=rf"autocorrelation at $\theta$ = {AT:g}")
    for axes in panels:
        tidy(axes)
    panels[0].legend(frameon=False)
    plots.savefig(path, dpi=150)


def main():
    """Run both statistics and draw the figure."""
    choice, start = choose("figure_b_6_3", __doc__), time.time()
    found = [row for form in RANKS for row in curve(form, choice)]
    mixing = {form: chains(form, choice) for form in RANKS}
    write_csv(choice.output / "figure_b_6_3.csv", found)
    figure(choice.output / "figure_b_6_3.png", found, mixing)
    settings = {"epsilon": EPSILON, "effort": EFFORT, "runs": RUNS}
    findings = {
        form: {
            "autocorrelation at lags 1, 10, 20, 50": np.round(acf[[1, 10, 20, 50]], 3).tolist(),
            "integrated time": round(float(each.mean()), 1),
        }
        for form, (acf, each) in mixing.items()
    }
    path = choice.output / "figure_b_6_3.json"
    write_json(path, choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
