"""Thesis B, Figure 7.2: time of an iteration of the chains against the number of columns.

    python -m experiments.figure_b_7_2 [--quick] [--output var/figure_b_7_2]

One chain, one holder; and per chain where a hundred are moved at once, which is what experiments
do. MCMC-fixedS is here the chain of Algorithm 17. The shortest of several runs, process time.
Writes figure_b_7_2.csv, .png and .json. All data is simulated.
"""

import time

import numpy as np
from matplotlib import pyplot as plt

from dpmcmc.releases.regression import chains, joint_normal
from experiments.regression_data import noised, noises, simulated
from experiments.regression_methods import Source
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

DIMENSIONS, TOGETHER, STEPS, REPEATS = (1, 2, 4, 6, 8, 10), (1, 100), 40, 5
NAMES = ("MCMC-normalX", "MCMC-fixedS", "MCMC-B&S")


def seconds(name, noisy, prior, rng, steps):
    """Process time of one iteration of all chains."""
    source, start = Source(rng), time.process_time()
    if name == "MCMC-B&S":
        joint_normal.walk(noisy, prior, steps, 0, source)
    else:
        chains.walk(noisy, prior, steps, 0, source, moving=name == "MCMC-normalX")
    return (time.process_time() - start) / steps


def main():
    """Time every chain and draw the figure."""
    choice, start, found = choose("figure_b_7_2", __doc__), time.time(), []
    for d in DIMENSIONS[:3] if choice.quick else DIMENSIONS:
        rows, _ = simulated(10_000, d, choice.random)
        noise = noises(1.0, rows.delta)["replace-one, balanced"]
        for count in TOGETHER:
            noisy = noised(rows, 1, noise, count, choice.random, squares=True)
            for name in NAMES:
                tries = [
                    seconds(name, noisy, rows.prior(), choice.random, STEPS) for _ in range(REPEATS)
                ]
                each = 1e6 * min(tries) / count
                told = {"d": d, "chains": count, "method": name, "microseconds": round(each, 2)}
                found.append(told)
    write_csv(choice.output / "figure_b_7_2.csv", found)
    figure(choice.output / "figure_b_7_2.png", found)
    findings = {f"{r['method']}, {r['chains']}, d = {r['d']}": r["microseconds"] for r in found}
    settings = {"steps": STEPS, "repeats": REPEATS}
    path = choice.output / "figure_b_7_2.json"
    write_json(path, choice, settings, findings, time.time() - start)


def figure(path, found):
    """A line for each chain, dotted where many are moved at once."""
    plots, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for k, name in enumerate(NAMES):
        for count, style in zip(TOGETHER, ("-", ":"), strict=True):
            some = [r for r in found if (r["method"], r["chains"]) == (name, count)]
            label = name if count == 1 else f"{name}, {count} at once, per chain"
            x, y = [r["d"] for r in some], [r["microseconds"] for r in some]
            axes.plot(x, y, style, label=label, color=COLOURS[k], marker=MARKS[k])
    axes.set(xlabel="columns", ylabel="microseconds an iteration", yscale="log")
    axes.set_xticks(np.unique([r["d"] for r in found]))
    axes.legend(fontsize=7)
    tidy(axes)
    plots.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
