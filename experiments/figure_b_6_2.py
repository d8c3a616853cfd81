"""Thesis B, Figure 6.2: errors and Fisher information of |x| and x^2 with Laplace noise.

    python -m experiments.figure_b_6_2 [--quick] [--output var/figure_b_6_2]

As Figure 6.1, with Laplace noise of pure epsilon under replace-one, by PMMH (Algorithm 10). Writes
figure_b_6_2.csv (a row for each cell), .png and .json.
"""

import time

from experiments.moments_compared import POWERS, cell, figure, findings
from experiments.released import laplace, power
from experiments.reporting import choose, write_csv, write_json

EPSILONS, RUNS, EFFORT = (0.5, 1.0, 2.0, 5.0, 10.0), 400, (20, 100, 1000)
NAME = "Laplace"


def run_all(choice):
    """Every cell."""
    effort, runs = ((10, 100, 400), 200) if choice.quick else (EFFORT, RUNS)
    epsilons = EPSILONS[1::2] if choice.quick else EPSILONS
    for a in POWERS:
        for epsilon in epsilons:
            noise = laplace(power(a), epsilon)
            yield cell(a, epsilon, noise, NAME, "pmmh", effort, runs, "batch", choice.random)


def main():
    """Run every cell and draw the figure."""
    choice, start = choose("figure_b_6_2", __doc__), time.time()
    found = list(run_all(choice))
    write_csv(choice.output / "figure_b_6_2.csv", found)
    figure(choice.output / "figure_b_6_2.png", found, [NAME])
    settings, path = {"runs": RUNS, "effort": EFFORT}, choice.output / "figure_b_6_2.json"
    write_json(path, choice, settings, findings(found), time.time() - start)


if __name__ == "__main__":
    main()
