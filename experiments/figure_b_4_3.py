"""Thesis B, Figure 4.3: information on the width of Unif(-theta, theta) in sums of powers of |x|.

    python -m experiments.figure_b_4_3 [--quick] [--output var/figure_b_4_3]

n = 100, rows in (-10, 10). The thesis: without noise x^2 is best, at epsilon 1 the root of |x| and
|x|^.1 are. Writes figure_b_4_3.csv (a row for each noise, power and theta), .png and .json.
"""

from dpmcmc.queries.statistics.populations import UniformWidth
from experiments.fisher_curves import grid, main, winners

POWERS = (0.1, 0.5, 1.0, 2.0)


def findings(found):
    """Where each power is best."""
    return {"best power, from theta to theta": winners(found, POWERS)}


if __name__ == "__main__":
    thetas, bounds = grid(0.1, 10.0, 100), (-10.0, 10.0)
    main(
        "figure_b_4_3", __doc__, UniformWidth(), "absolute_power", POWERS, thetas, bounds,
        findings, "$|x|^{{{a:g}}}$",
    )  # fmt: skip
