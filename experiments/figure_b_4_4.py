"""Thesis B, Figure 4.4: information on the share theta of binary rows in three releases.

    python -m experiments.figure_b_4_4 [--quick] [--output var/figure_b_4_4]

n = 100. F1: randomised responses, epsilon-DP. F2: the mean of rows that each have Gaussian noise,
F3: their mean with Gaussian noise, both epsilon-GDP. The thesis: F1 > F2 at small epsilon,
F3 > F1. Beside its formulas, which take a mean to be normal: the information in all n noisy rows of
F2 and in the noisy sum of F3, exactly; and F1 at the epsilon at which it is epsilon-GDP too.
Writes figure_b_4_4.csv (a row for each theta and epsilon), .png and .json.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import expit, logit
from scipy.stats import binom, norm

from dpmcmc.queries.statistics.fisher import gaussian_information, information, response_information
from dpmcmc.queries.statistics.mechanisms import GaussianNoise, RandomisedResponse, Statistic
from dpmcmc.queries.statistics.populations import Bernoulli, moments
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

ROWS, STATISTIC = 100, Statistic("power", 1.0, 0.0, 1.0)
THETAS, EPSILONS = (0.1, 0.3, 0.5), np.geomspace(0.05, 10.0, 61)
CURVES = ("F1", "F2", "F3", "F1 at epsilon-GDP", "F2, all rows", "F3, exact", "rows")


def cell(theta, epsilon):
    """Every information at one theta and epsilon."""
    known = moments(Bernoulli(), STATISTIC, theta)
    same = logit(norm.cdf(0.5 * epsilon))  # at which randomised response is epsilon-GDP
    one = GaussianNoise(1.0 / epsilon)
    return {
        "theta": theta,
        "epsilon": float(epsilon),
        "F1": response_information(RandomisedResponse(expit(epsilon)), theta, ROWS),
        "F2": gaussian_information(known, ROWS, ROWS**0.5 / epsilon),
        "F3": gaussian_information(known, ROWS, 1.0 / epsilon),
        "F1 at epsilon-GDP": response_information(RandomisedResponse(expit(same)), theta, ROWS),
        "F2, all rows": information(Bernoulli(), STATISTIC, theta, ROWS, one, "sequential"),
        "F3, exact": of_noisy_count(theta, 1.0 / epsilon),
        "rows": ROWS / (theta * (1.0 - theta)),
    }


def of_noisy_count(theta, sd):
    """The information in a binomial count with Gaussian noise, by its mixture."""
    k = np.arange(ROWS + 1)
    chances = binom.pmf(k, ROWS, theta)
    slopes = chances * (k - ROWS * theta) / (theta * (1.0 - theta))
    y = np.linspace(-12.0 * sd, ROWS + 12.0 * sd, 1 + int((ROWS + 24.0 * sd) / sd * 16))
    each = norm.pdf(y[:, None], k, sd)
    return float(np.trapezoid((each @ slopes) ** 2 / np.maximum(each @ chances, 1e-300), y))


def findings(found):
    """The thesis' orderings, and what becomes of them."""
    at = {(r["theta"], r["epsilon"]): r for r in found}
    small = [r for r in found if r["epsilon"] <= 1.0]
    middle = min(at, key=lambda key: abs(key[0] - 0.3) + abs(np.log(key[1])))

    def many(some, one, other, slack=0.0):
        return sum(bool(r[one] > r[other] * (1.0 + slack)) for r in some)

    return {
        "cells": len(found),
        "cells with epsilon up to 1": len(small),
        "of these, F1 > F2": many(small, "F1", "F2"),
        "of these, F3 > F1": many(small, "F3", "F1"),
        "F1 > F2, all cells": many(found, "F1", "F2"),
        "F1 > all noisy rows, at the same GDP": many(found, "F1 at epsilon-GDP", "F2, all rows"),
        "F3 above the information in the rows themselves": many(found, "F3", "rows", 1e-9),
        "F3, exact, above that": many(found, "F3, exact", "rows", 1e-9),
        "one cell": at[middle],
    }


def figure(path, found):
    """Columns: theta. A line for each release."""
    thetas = sorted({r["theta"] for r in found})
    plots, panels = plt.subplots(1, len(thetas), figsize=(11, 3.4), layout="constrained")
    for axes, theta in zip(panels, thetas, strict=True):
        some = [r for r in found if r["theta"] == theta]
        for k, name in enumerate(CURVES):
            x, y = [r["epsilon"] for r in some], [r[name] for r in some]
            style = {"color": COLOURS[k], "marker": MARKS[k], "markersize": 3, "markevery": 8}
            axes.plot(x, y, label=name, **style)
        title = rf"$\theta$ = {theta:g}"
        axes.set(title=title, xlabel=r"$\epsilon$", xscale="log", yscale="log")
        tidy(axes)
    panels[0].set_ylabel(r"$F(\theta)$, n = 100")
    plots.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    plots.savefig(path, dpi=150)


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("figure_b_4_4", __doc__), time.time()
    epsilons = EPSILONS[::6] if choice.quick else EPSILONS
    found = [cell(theta, epsilon) for theta in THETAS for epsilon in epsilons]
    write_csv(choice.output / "figure_b_4_4.csv", found)
    figure(choice.output / "figure_b_4_4.png", found)
    path = choice.output / "figure_b_4_4.json"
    write_json(path, choice, {"rows": ROWS}, findings(found), time.time() - start)


if __name__ == "__main__":
    main()
