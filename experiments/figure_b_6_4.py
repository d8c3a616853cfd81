"""Thesis B, Figure 6.4: errors and Fisher information of |x| and x^2 of rows with noise each.

    python -m experiments.figure_b_6_4 [--quick] [--output var/figure_b_6_4]

As Figure 6.2, each of the 100 rows with Laplace noise of its own, as in the local model, by MHAAR
(Algorithm 13). Writes figure_b_6_4.csv (a row for each cell), .png and .json.
"""

import time

from experiments.moments_compared import POWERS, cell, figure, findings
from experiments.released import laplace, power
from experiments.reporting import choose, write_csv, write_json

EPSILONS, RUNS, EFFORT = (1.0, 2.0, 5.0, 10.0), 100, (20, 50, 500)
NAME = "Laplace on each row"


def run_all(choice):
    """Every cell."""
    effort, runs = ((8, 50, 200), 100) if choice.quick else (EFFORT, RUNS)
    epsilons = EPSILONS[2:3] if choice.quick else EPSILONS
    for a in POWERS:
        for epsilon in epsilons:
            noise = laplace(power(a), epsilon)
            yield cell(a, epsilon, noise, NAME, "mhaar", effort, runs, "sequential", choice.random)


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("figure_b_6_4", __doc__), time.time()
    found = list(run_all(choice))
    write_csv(choice.output / "figure_b_6_4.csv", found)
    figure(choice.output / "figure_b_6_4.png", found, [NAME])
    settings, path = {"runs": RUNS, "effort": EFFORT}, choice.output / "figure_b_6_4.json"
    write_json(path, choice, settings, findings(found), time.time() - start)


if __name__ == "__main__":
    main()
