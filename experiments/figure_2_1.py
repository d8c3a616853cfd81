"""Thesis A, Figure 2.1: the density of the two-dimensional banana posterior and 1000 exact draws.

    python experiments/figure_2_1.py [--quick] [--output var/figure_2_1]

The left panel is the full posterior of n = 100,000 rows, the right one tempered to 1,000 rows. The
contours hold 50, 90 and 99 % of the posterior exactly, since it is Gaussian once straightened; the
share of draws found within each says whether the draws are right. Writes figure_2_1.png, .csv (the
draws) and .json. The data is simulated; nothing here is private.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from non_private import Problem
from reporting import choose, tidy, write_csv, write_json
from scipy.stats import chi2

from dpmcmc.families.banana import exact_posterior, straighten

ROWS, DRAWS = 100_000, 1000
TEMPERINGS = {"easy": 1.0, "tempered": 0.01}
LEVELS = (0.5, 0.9, 0.99)


def distance2(problem, theta, tempering):
    """Squared distance (...,) from the straightened mean in posterior sds. theta: (..., 2)."""
    mean, variances = exact_posterior(problem.banana, problem.means, problem.rows, tempering)
    return ((straighten(problem.banana, theta) - mean) ** 2 / variances).sum(axis=-1)


def density(problem, theta, tempering):
    """Density (...,) of the exact posterior, normalised. theta: (..., 2)."""
    _, variances = exact_posterior(problem.banana, problem.means, problem.rows, tempering)
    scale = 2.0 * np.pi * np.sqrt(variances.prod())
    return np.exp(-0.5 * distance2(problem, theta, tempering)) / scale


def grid(draws, points):
    """A grid of positions (points, points, 2) around draws (draws, 2), with a margin."""
    low, high = draws.min(axis=0), draws.max(axis=0)
    margin = 0.2 * (high - low)
    sides = np.linspace(low - margin, high + margin, points)
    return np.stack(np.meshgrid(sides[:, 0], sides[:, 1]), axis=-1)


def panel(axes, problem, draws, tempering, points):
    """Draw one posterior; returns the probability that the grid holds."""
    theta = grid(draws, points)
    heights = density(problem, theta, tempering)
    x, y = theta[..., 0], theta[..., 1]
    axes.pcolormesh(x, y, heights, cmap="Greys", shading="gouraud", vmax=1.4 * heights.max())
    levels = chi2.ppf(LEVELS, df=2)
    away = distance2(problem, theta, tempering)
    for share, level, style in zip(LEVELS, levels, ("-", "--", ":"), strict=True):
        axes.contour(x, y, away, [level], colors="#d55e00", linewidths=1.1, linestyles=style)
        axes.plot([], [], style, color="#d55e00", label=f"{100 * share:.0f} % of the posterior")
    axes.plot(*draws.T, ".", color="#0072b2", markersize=2, alpha=0.55, label=f"{DRAWS} draws")
    axes.legend(frameon=False, fontsize=8, loc="lower center")
    axes.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
    tidy(axes)
    return float(heights.sum() * (x[0, 1] - x[0, 0]) * (y[1, 0] - y[0, 0]))


def main():
    """Draw both panels."""
    choice, start = choose("figure_2_1", __doc__), time.time()
    problem = Problem.simulated(2, ROWS, choice.random)
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    rows, findings = [], {}
    for axes, (name, tempering) in zip(panels, TEMPERINGS.items(), strict=True):
        draws = problem.exact(DRAWS, choice.random, tempering)
        held = panel(axes, problem, draws, tempering, 120 if choice.quick else 500)
        axes.set_title(f"T = {tempering:g}: the weight of {tempering * ROWS:,.0f} rows")
        away = distance2(problem, draws, tempering)
        findings[name] = {
            "probability_on_the_grid": held,
            "share_of_draws_within": {p: float(np.mean(away < chi2.ppf(p, 2))) for p in LEVELS},
        }
        rows += [{"panel": name, "theta_1": a, "theta_2": b} for a, b in draws]
    figure.savefig(choice.output / "figure_2_1.png", dpi=150)
    write_csv(choice.output / "figure_2_1.csv", rows)
    settings = {
        "rows": ROWS,
        "draws": DRAWS,
        "temperings": TEMPERINGS,
        "a": problem.banana.a,
        "b": problem.banana.b,
        "m": problem.banana.m,
        "variances": problem.banana.variances,
        "prior_variance": problem.banana.prior_variance,
    }
    write_json(choice.output / "figure_2_1.json", choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
