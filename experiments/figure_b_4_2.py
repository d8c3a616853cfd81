"""Thesis B, Figure 4.2: information on the variance of N(0, theta) in sums of powers of |x|.

    python -m experiments.figure_b_4_2 [--quick] [--output var/figure_b_4_2]

n = 100, rows in (-100, 100). The thesis: without noise x^2 is better, at epsilon 1 |x| is. That
is of these two; smaller powers, which it has in its next figure only, are shown too.
Writes figure_b_4_2.csv (a row for each noise, power and theta), .png and .json.
"""

from dpmcmc.queries.statistics.populations import NormalVariance
from experiments.fisher_curves import grid, main, winners

POWERS, OWN = (0.1, 0.5, 1.0, 2.0), (1.0, 2.0)


def findings(found):
    """Where each power is best, of the thesis' two and of all."""
    return {
        "best of 1 and 2, from theta to theta": winners(found, OWN),
        "best of all, from theta to theta": winners(found, POWERS),
    }


if __name__ == "__main__":
    thetas, bounds = grid(0.25, 10.0), (-100.0, 100.0)
    main(
        "figure_b_4_2", __doc__, NormalVariance(), "absolute_power", POWERS, thetas, bounds,
        findings, "$|x|^{{{a:g}}}$",
    )  # fmt: skip
