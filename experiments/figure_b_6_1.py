"""Thesis B, Figure 6.1: errors and Fisher information of |x| and x^2 with Gaussian noise.

    python -m experiments.figure_b_6_1 [--quick] [--output var/figure_b_6_1]

A sum over 100 rows of N(0, 2) within [-10, 10], Metropolis-Hastings (Algorithm 9), by epsilon; at
the noise of epsilon-GDP, which is the thesis', and at that of (epsilon, 1e-4) under replace-one.
Writes figure_b_6_1.csv (a row for each cell), .png and .json.
"""

import time

from experiments.moments_compared import POWERS, cell, figure, findings
from experiments.released import gaussian, power
from experiments.reporting import choose, write_csv, write_json

EPSILONS, RUNS, EFFORT = (0.5, 1.0, 2.0, 5.0, 10.0), 400, (2, 100, 1000)
NOISES = {"epsilon-GDP (thesis)": True, "(epsilon, delta), replace-one": False}


def run_all(choice):
    """Every cell."""
    found = []
    effort, runs = ((2, 100, 400), 200) if choice.quick else (EFFORT, RUNS)
    for name, published in NOISES.items():
        for a in POWERS:
            for epsilon in EPSILONS[1::2] if choice.quick else EPSILONS:
                noise = gaussian(power(a), epsilon, published)
                settings = epsilon, noise, name, "mh", effort, runs, "batch", choice.random
                found.append(cell(a, *settings))
    return found


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("figure_b_6_1", __doc__), time.time()
    found = run_all(choice)
    write_csv(choice.output / "figure_b_6_1.csv", found)
    figure(choice.output / "figure_b_6_1.png", found, NOISES)
    settings, path = {"runs": RUNS, "effort": EFFORT}, choice.output / "figure_b_6_1.json"
    write_json(path, choice, settings, findings(found), time.time() - start)


if __name__ == "__main__":
    main()
