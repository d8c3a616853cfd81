"""Thesis B, Figure 4.1: information on the mean of N(theta, 1) in sums of x and of x^3.

    python -m experiments.figure_b_4_1 [--quick] [--output var/figure_b_4_1]

n = 100, rows in (0, 10). The thesis: without noise x is better everywhere, at epsilon 1 x^3 is
better at larger theta.
Writes figure_b_4_1.csv (a row for each noise, power and theta), .png and .json.
"""

from dpmcmc.queries.statistics.populations import NormalMean
from experiments.fisher_curves import grid, main, winners

POWERS = (1.0, 3.0)


def findings(found):
    """Where each power is best."""
    return {"best power, from theta to theta": winners(found, POWERS)}


if __name__ == "__main__":
    thetas, bounds = grid(0.25, 8.0), (0.0, 10.0)
    main(
        "figure_b_4_1", __doc__, NormalMean(), "power", POWERS, thetas, bounds, findings,
        "$x^{{{a:g}}}$",
    )  # fmt: skip
